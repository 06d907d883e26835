"""Verify the signatures of a request (RFC 9421): read the fields, rebuild what was signed, say whose they are."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import logging
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import quote, unquote_to_bytes, urlsplit

import http_sf
import msgspec
from http_sf.retrofit import retrofit

from callgate.agents.keys import ECDSA_P256, ED25519, RSA_PSS_256, RSA_PSS_512, PublicKey
from callgate.agents.model import MAX_WINDOW, SKEW, TAG, Profile, Signed, Verified
from callgate.agents.nonces import StrangersShare
from callgate.agents.storage import NonceStore, NonceUse, UseWriters
from callgate.canonical import parts_hash
from callgate.errors import ConfigError, Reason, Refused, SentBefore
from callgate.gate import Caller, Use

# More than any honest request has; a header is refused whole before anything of it is read.
MAX_FIELD: Final = 8_192
MAX_LABELS: Final = 8
MAX_COMPONENTS: Final = 48
MAX_TEXT: Final = 512

Bare: TypeAlias = Any
Params: TypeAlias = Mapping[str, Bare]

_KEY = r"[a-z*][a-z0-9_.*-]*"
_STRING = r'"[ !#-\[\]-~]*"'
_INTEGER = r"(?:0|-?[1-9][0-9]{0,14})"
_PARAM = rf";{_KEY}(?:=(?:{_STRING}|{_INTEGER}))?"
_ITEM = rf"{_STRING}(?:{_PARAM})*"
_HEAD = re.compile(rf"({_KEY})=(\((?:{_ITEM}(?: {_ITEM})*)?\))")
_PAIR = re.compile(rf";({_KEY})(?:=({_STRING}|{_INTEGER}))?")
_SIGNATURE = re.compile(rf"({_KEY})=:([A-Za-z0-9+/]+={{0,2}}):")
_FIELD_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")


class Component(msgspec.Struct, frozen=True, gc=False):
    """One covered component: its name, its parameters, and both as they stand in the signature base."""

    name: str
    params: Params
    text: str


class Input(msgspec.Struct, frozen=True, gc=False):
    """One member of Signature-Input; `text` is the value of @signature-params."""

    components: tuple[Component, ...]
    params: Params
    # The inner list without its parameters, and with them.
    listed: str
    text: str


class Advertised(msgspec.Struct, frozen=True, gc=False):
    """One member of Signature-Agent; the label is empty for the older form, a string alone."""

    label: str
    uri: str
    type: str = "directory"


def index(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes | list[bytes]]:
    """Every header by its name in lower case: its line, or its lines where there are several."""
    found: dict[bytes, bytes | list[bytes]] = {}
    for name, value in headers:
        before = found.get(name := name.lower())
        if before is None:
            found[name] = value
        elif isinstance(before, list):
            before.append(value)
        else:
            found[name] = [before, value]
    return found


def line(value: bytes) -> bytes:
    """A line without the whitespace around it and with obsolete folding undone, RFC 9421 §2.1."""
    if b"\r\n" in value:
        first, *rest = value.split(b"\r\n")
        if all(part[:1] in {b" ", b"\t"} for part in rest):
            value = b" ".join(part.strip(b" \t") for part in (first, *rest))
    return value.strip(b" \t")


def joined(lines: Iterable[bytes]) -> bytes:
    """Several lines of one header as one, RFC 9421 §2.1."""
    return b", ".join([line(one) for one in lines])


@lru_cache(maxsize=256)
def member_of(raw: bytes, key: str) -> str | None:
    """One member of a dictionary as it is signed. Nearly always it is of Signature-Agent, and the same as last time."""
    held = dictionary(raw, Reason.UNSUPPORTED_COVERED_FIELD).get(key)
    return None if held is None else member(held)


def inputs(raw: bytes) -> dict[str, Input | None]:
    """Signature-Input by label; None for a member that is no list of component names."""
    text = _text(raw, Reason.SIGNATURE_INPUT_MALFORMED, "Signature-Input")
    end = text.find(")") + 1
    head = _head(text[:end])
    # Every third part is what stands between two parameters, and nothing may.
    parts = _PAIR.split(text[end:])
    if head is None or any(parts[::3]):
        return _inputs_otherwise(raw)
    label, listed = head
    params = {
        name: True if value is None else value[1:-1] if value[0] == '"' else int(value)
        for name, value in zip(parts[1::3], parts[2::3], strict=True)
    }
    if len(params) < len(parts) // 3:
        raise _twice(Reason.SIGNATURE_INPUT_MALFORMED, "of a parameter")
    return {label: Input(components(listed), params, listed, text[len(label) + 1 :])}


@lru_cache(maxsize=256)
def _head(text: str) -> tuple[str, str] | None:
    """Label and inner list where they are spelt as a serialiser spells them."""
    match = _HEAD.fullmatch(text)
    return None if match is None else (match[1], match[2])


def signatures(raw: bytes) -> dict[str, bytes | None]:
    """Signature by label; None for a member that is no byte sequence."""
    text = _text(raw, Reason.SIGNATURE_MALFORMED, "Signature")
    match = _SIGNATURE.fullmatch(text)
    if match is None or len(match[2]) % 4:
        return _signatures_otherwise(raw)
    return {match[1]: binascii.a2b_base64(match[2])}


@lru_cache(maxsize=256)
def advertised(raw: bytes) -> tuple[Advertised, ...]:
    """Signature-Agent: a dictionary of strings, or the older form, one string."""
    reason = Reason.SIGNATURE_INPUT_MALFORMED
    _text(raw, reason, "Signature-Agent")
    if raw[:1] == b'"':
        value, params = _parsed(raw, "item", reason)
        return (_advertised("", value, params),)
    members = _few(dictionary(raw, reason), reason)
    return tuple(_advertised(label, *member) for label, member in members.items())


def dictionary(raw: bytes, reason: Reason) -> dict[str, tuple[Any, Params]]:
    """Any dictionary of items and inner lists; no key may come twice, where RFC 9651 lets the last one win."""
    return cast("dict[str, tuple[Any, Params]]", _parsed(raw, "dictionary", reason))


def structured(raw: bytes, kind: str, reason: Reason) -> str:
    """A structured field as a serialiser writes it, RFC 9421 §2.1.1."""
    try:
        return http_sf.ser(_parsed(raw, kind, reason))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Refused(reason, "A structured field has nothing in it that could be covered.") from error


def member(value: tuple[Any, Params]) -> str:
    """A member of a dictionary without its key, RFC 9421 §2.1.2; the value of @signature-params is such a one, §2.3."""
    return http_sf.ser(cast("Any", [value] if isinstance(value[0], list) else value))


@lru_cache(maxsize=256)
def components(text: str) -> tuple[Component, ...]:
    """The covered components from the text of their inner list. Agents cover the same ones each time."""
    reason = Reason.SIGNATURE_INPUT_MALFORMED
    ((items, _),) = _parsed(text.encode(), "list", reason)
    if len(items) > MAX_COMPONENTS:
        raise Refused(reason, f"A signature may cover {MAX_COMPONENTS} components, this one names {len(items)}.")
    found = []
    for name, params in items:
        if type(name) is not str or not _named(name):
            raise Refused(reason, "A covered component is no string that names a header or derived component.")
        found.append(Component(name, params, http_sf.ser((name, params))))
    # The order of parameters makes no other component, RFC 9421 §2.
    if len({(one.name, frozenset((key, repr(value)) for key, value in one.params.items())) for one in found}) < len(
        found
    ):
        raise Refused(reason, "A component is covered twice.")
    return tuple(found)


def _named(name: str) -> bool:
    return _FIELD_NAME.fullmatch(name.removeprefix("@")) is not None


def _inputs_otherwise(raw: bytes) -> dict[str, Input | None]:
    found: dict[str, Input | None] = {}
    for label, (items, params) in dictionary(raw, Reason.SIGNATURE_INPUT_MALFORMED).items():
        if not isinstance(items, list):
            found[label] = None
            continue
        try:
            listed = member((items, {}))
            found[label] = Input(components(listed), params, listed, member((items, params)))
        except (Refused, ValueError, TypeError, ArithmeticError):
            found[label] = None
    return _few(found, Reason.SIGNATURE_INPUT_MALFORMED)


def _signatures_otherwise(raw: bytes) -> dict[str, bytes | None]:
    members = dictionary(raw, Reason.SIGNATURE_MALFORMED)
    found = {label: value if isinstance(value, bytes) else None for label, (value, _) in members.items()}
    return _few(found, Reason.SIGNATURE_MALFORMED)


def _advertised(label: str, value: object, params: Params) -> Advertised:
    kind = params.get("type", "directory")
    if type(value) is not str or not isinstance(kind, str | http_sf.Token):
        raise Refused(Reason.SIGNATURE_INPUT_MALFORMED, "Signature-Agent holds something else than strings.")
    return Advertised(label, value, str(kind))


def _text(raw: bytes, reason: Reason, name: str) -> str:
    if len(raw) > MAX_FIELD:
        raise Refused(reason, f"{name} is longer than {MAX_FIELD} bytes.")
    if not raw.isascii() or not raw:
        raise Refused(reason, f"{name} is empty or not ASCII.")
    return raw.decode("ascii")


def _parsed(raw: bytes, kind: str, reason: Reason) -> Any:
    def refuse(key: str, _where: str) -> None:
        raise _twice(reason, key)

    if len(raw) > MAX_FIELD:
        raise Refused(reason, f"A structured field is longer than {MAX_FIELD} bytes.")
    try:
        return http_sf.parse(raw, tltype=kind, on_duplicate_key=refuse)
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise Refused(reason, f"A header is no structured field of its kind ({kind}), RFC 9651.") from error


def _few(found: dict[str, Any], reason: Reason) -> dict[str, Any]:
    if not 0 < len(found) <= MAX_LABELS:
        raise Refused(reason, f"Between one and {MAX_LABELS} labels are read, here are {len(found)}.")
    return found


def _twice(reason: Reason, key: str) -> Refused:
    return Refused(reason, f"The key {key[:64]} comes twice; readers would not agree which one counts.")


_HASHES: Final[Mapping[str, Callable[[bytes], Any]]] = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}

# How nearly everybody writes it; everything else is parsed.
_ALONE: Final = re.compile(rb"sha-256=:([A-Za-z0-9+/]{43}=):")


def content_digest(body: bytes, algorithm: str = "sha-256") -> str:
    """The value of Content-Digest for a body."""
    return f"{algorithm}=:{b64encode(_HASHES[algorithm](body).digest()).decode()}:"


def check_digest(raw: bytes, body: bytes) -> None:
    """Every digest that can be computed has to be right: a second, weaker or easier one is no way around the first."""
    if (alone := _ALONE.fullmatch(raw)) is not None:
        if not hmac.compare_digest(b64encode(hashlib.sha256(body).digest()), alone[1]):
            raise Refused(Reason.CONTENT_DIGEST_MISMATCH)
        return
    members = dictionary(raw, Reason.CONTENT_DIGEST_INVALID)
    known = [(_HASHES[name], value) for name, (value, _) in members.items() if name in _HASHES]
    if not known:
        raise Refused(Reason.CONTENT_DIGEST_INVALID, "Content-Digest has neither sha-256 nor sha-512.")
    for made, value in known:
        if not isinstance(value, bytes):
            raise Refused(Reason.CONTENT_DIGEST_INVALID, "A digest in Content-Digest is no byte sequence.")
        if not hmac.compare_digest(made(body).digest(), value):
            raise Refused(Reason.CONTENT_DIGEST_MISMATCH)


def covers_digest(components: tuple[Component, ...]) -> bool:
    """Whether a signature binds the body: the header whole, or a member of it that can be computed here."""
    return any(
        one.name == "content-digest" and one.params.get("key", "sha-256") in _HASHES and "req" not in one.params
        for one in components
    )


_UNSUPPORTED: Final = Reason.UNSUPPORTED_COVERED_FIELD
_PORTS: Final = {"http": ":80", "https": ":443"}
_SHAPES: Final[Mapping[str, str]] = {
    **{name: kind for name, kind in retrofit.items() if kind in {"dictionary", "list", "item"}},
    "content-digest": "dictionary",
    "repr-digest": "dictionary",
    "want-content-digest": "dictionary",
    "signature": "dictionary",
    "signature-input": "dictionary",
    "accept-signature": "dictionary",
    "priority": "dictionary",
    "cache-status": "list",
    "proxy-status": "list",
    "client-cert": "item",
    "client-cert-chain": "list",
}


class SignedResponse(msgspec.Struct, frozen=True):
    """A response, for signatures over one (of a key directory); `request` is what it answers."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    request: Signed
    body: bytes = b""


class SignedMessage:
    """A request or response with its headers sorted, for one signature after the other."""

    __slots__ = ("_asked", "_dictionaries", "_query", "answer", "body", "derived", "fields", "request")

    def __init__(self, of: Signed | SignedResponse) -> None:
        self.answer = of if isinstance(of, SignedResponse) else None
        self.request = request = of.request if isinstance(of, SignedResponse) else of
        self.body = of.body
        found = dict(of.headers)
        names = b"".join(found)
        plain = len(found) == len(of.headers) and names == names.lower()
        self.fields: Mapping[bytes, bytes | list[bytes]] = found if plain else index(of.headers)
        # The components of RFC 9421 §2.2 that are the same for every signature. The authority is in lower case and
        # without the scheme's own port (§2.2.3).
        scheme, path = request.scheme.lower(), request.path or "/"
        authority = request.authority.lower().removesuffix(_PORTS.get(scheme, "\n"))
        target = path if request.query is None else f"{path}?{request.query}"
        self.derived = {
            "@method": request.method,
            "@target-uri": f"{scheme}://{authority}{target}",
            "@authority": authority,
            "@scheme": scheme,
            "@request-target": target,
            "@path": path,
            "@query": f"?{request.query or ''}",
        }
        self._asked: SignedMessage | None = None
        self._query: dict[str, list[str | None]] | None = None
        self._dictionaries: dict[str, dict[str, tuple[Any, Params]]] = {}

    @property
    def asked(self) -> SignedMessage:
        """The request that a response answers."""
        if self._asked is None:
            self._asked = SignedMessage(self.request)
        return self._asked

    def header(self, name: bytes) -> bytes | None:
        """The value of a header with all its lines; None where there is no such header."""
        held = self.fields.get(name)
        if isinstance(held, bytes):
            return held.strip(b" \t") if b"\r\n" not in held else line(held)
        return None if held is None else joined(held)

    @property
    def query(self) -> dict[str, list[str | None]]:
        """The query as a form, encoded anew (RFC 9421 §2.2.8); read once, however many of its names are covered."""
        if self._query is None:
            self._query = {}
            for pair in filter(None, (self.request.query or "").split("&")):
                name, _, text = pair.partition("=")
                if (key := _encoded(name)) is not None:
                    self._query.setdefault(key, []).append(_encoded(text))
        return self._query

    def member(self, name: str, raw: bytes, key: str) -> str | None:
        """A member of a header that is a dictionary; a long one is read once, however many members are covered."""
        if len(raw) <= 256:
            return member_of(raw, key)
        held = self._dictionaries.get(name)
        if held is None:
            self._dictionaries[name] = held = dictionary(raw, _UNSUPPORTED)
        return member(held[key]) if key in held else None


def value(component: Component, message: SignedMessage) -> str:
    """The value of a component, or `unsupported_covered_field` where there is none."""
    name, params = component.name, component.params
    if params or message.answer is not None:
        return _special(component, message)
    if name[0] == "@":
        text = message.derived.get(name)
        if text is None:
            raise Refused(_UNSUPPORTED, f"{component.text} is no component of a request, RFC 9421 §2.2.")
        if not text.isascii() or not text.isprintable() or " " in text:
            raise Refused(_UNSUPPORTED, f"{component.text} holds what no request line can hold.")
        return text
    raw = message.header(name.encode())
    if raw is None:
        raise Refused(_UNSUPPORTED, f"{component.text} is covered, and the message has no such header.")
    text = raw.decode("latin-1")
    return text if text.isascii() and text.isprintable() else _plain(raw, component)


def _special(component: Component, message: SignedMessage) -> str:
    """The same with parameters, or of a response."""
    if "req" in component.params:
        return _of_the_request(component, message)
    if "tr" in component.params:
        raise Refused(_UNSUPPORTED, f"{component.text}: trailers are not kept, so nothing of them can be covered.")
    return _derived(component, message) if component.name[0] == "@" else _field(component, message)


def _of_the_request(component: Component, message: SignedMessage) -> str:
    if message.answer is None or component.params["req"] is not True:
        raise Refused(_UNSUPPORTED, f"{component.text}: req belongs to the signature of a response, RFC 9421 §2.4.")
    params = {key: one for key, one in component.params.items() if key != "req"}
    return value(Component(component.name, params, component.text), message.asked)


def _derived(component: Component, message: SignedMessage) -> str:
    if message.answer is not None:
        if component.name == "@status" and not component.params:
            return str(message.answer.status)
        raise Refused(_UNSUPPORTED, f"{component.text}: a response has it only with req, RFC 9421 §2.4.")
    if component.name == "@query-param":
        return _query_param(component, message)
    raise Refused(_UNSUPPORTED, f"{component.text} is no component of a request, RFC 9421 §2.2.")


def _query_param(component: Component, message: SignedMessage) -> str:
    """RFC 9421 §2.2.8. A name that comes twice cannot be covered, nor can what is not UTF-8: both have two readings."""
    name = component.params.get("name")
    if type(name) is not str or len(component.params) > 1:
        raise Refused(_UNSUPPORTED, "@query-param is covered by its name and nothing else, RFC 9421 §2.2.8.")
    found = message.query.get(name, [])
    if len(found) != 1 or found[0] is None:
        raise Refused(_UNSUPPORTED, f"{component.text} is not in the query exactly once, in UTF-8.")
    return found[0]


def _encoded(text: str) -> str | None:
    """Decoded as a form and percent-encoded again; None where that is not UTF-8."""
    try:
        decoded = unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError:
        return None
    return quote(decoded, safe="*").replace("~", "%7E")


def _field(component: Component, message: SignedMessage) -> str:
    held = message.fields.get(component.name.encode())
    if held is None:
        raise Refused(_UNSUPPORTED, f"{component.text} is covered, and the message has no such header.")
    params = component.params
    if "bs" in params:
        if len(params) > 1 or params["bs"] is not True:
            raise Refused(_UNSUPPORTED, f"{component.text}: bs stands alone, RFC 9421 §2.1.3.")
        return http_sf.ser([(line(one), {}) for one in ([held] if isinstance(held, bytes) else held)])
    raw = line(held) if isinstance(held, bytes) else joined(held)
    if not params:
        return _plain(raw, component)
    if params.keys() - {"key", "sf"} or params.get("sf", True) is not True:
        raise Refused(_UNSUPPORTED, f"{component.text} has a parameter that is not known here.")
    if "key" in params:
        one = message.member(component.name, raw, params["key"]) if type(params["key"]) is str else None
        if one is None:
            raise Refused(_UNSUPPORTED, f"{component.text} is covered, and the header has no such member.")
        return one
    shape = _SHAPES.get(component.name)
    if component.name == "signature-agent":
        shape = "item" if raw[:1] == b'"' else "dictionary"
    if shape is None:
        raise Refused(_UNSUPPORTED, f"{component.text}: what kind of structured field that is, is not known here.")
    return structured(raw, shape, _UNSUPPORTED)


def _plain(raw: bytes, component: Component) -> str:
    text = raw.decode("latin-1")
    if text.isascii() and (text.isprintable() or text.replace("\t", "").isprintable()):
        return text
    # A tab may stand inside a value; no other control character may, nor anything beyond ASCII.
    raise Refused(_UNSUPPORTED, f"{component.text} holds characters that cannot be signed, RFC 9421 §2.5.")


def signature_base(given: Input, message: SignedMessage) -> bytes:
    """§2.5: a line for each component, then the parameters. No value holds a line end: no line passes for another."""
    lines = [f"{component.text}: {value(component, message)}" for component in given.components]
    lines.append(f'"@signature-params": {given.text}')
    return "\n".join(lines).encode("ascii")


# Thumbprints (RFC 7638) of keys whose private half is printed in a specification: whoever can read may sign with them.
# They are those of RFC 9421 appendix B.1 and of two RFCs about JWK.
PUBLISHED: Final = frozenset(
    {
        "BHj8s0GPnMEQtkaULIM-PLgEhLBbuGUQ1vMxmBWZzEo",  # test-key-rsa
        "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA",  # test-key-rsa-pss
        "ydQXMtvbsOsZyFir-Y7A8t7fKEM1gbKPvyFkdpu4fvI",  # test-key-ecc-p256
        "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",  # test-key-ed25519
        "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",  # RFC 7638 §3.1
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",  # RFC 8037 appendix A
    }
)


class Terms(NamedTuple):
    """The parameters of a signature, each of the type that it has to be."""

    keyid: str
    created: int
    expires: int
    nonce: str | None
    algorithm: str | None


def read_terms(given: Input, *, nonce: bool) -> Terms:
    """The parameters that are needed, and a nonce where that is needed too."""
    params = given.params
    keyid, created, expires = _text_param(params, "keyid"), params.get("created"), params.get("expires")
    once = _text_param(params, "nonce")
    if keyid is None or created is None or expires is None or (nonce and once is None):
        needed = ("keyid", "created", "expires", "nonce") if nonce else ("keyid", "created", "expires")
        missing = ", ".join(name for name in needed if name not in params)
        raise Refused(Reason.MISSING_REQUIRED_PARAM, f"The signature lacks the parameter {missing}.")
    # Not isinstance: true is an int as well.
    if type(created) is not int or type(expires) is not int:
        raise Refused(Reason.TIMESTAMP_NOT_INTEGER)
    return Terms(keyid, created, expires, once, _text_param(params, "alg"))


def check_window(terms: Terms, now: float, longest: int, skew: int) -> None:
    """created ≤ now ≤ expires, and not too far apart. Only a clock that is ahead is forgiven, by `skew` seconds."""
    if terms.expires <= terms.created:
        raise Refused(Reason.SIGNATURE_EXPIRED, "The signature expires before it was created, or at once.")
    if terms.expires - terms.created > longest:
        raise Refused(
            Reason.WINDOW_TOO_LARGE,
            f"The signature is valid for {terms.expires - terms.created} seconds; {longest} are taken here.",
        )
    if terms.created > now + skew:
        raise Refused(Reason.CREATED_IN_FUTURE)
    if terms.expires < now:
        raise Refused(Reason.SIGNATURE_EXPIRED)


def _text_param(params: Params, name: str) -> str | None:
    value = params.get(name)
    if value is None:
        return None
    # Tokens and display strings are no str; strings of structured fields are ASCII.
    if type(value) is not str or not 0 < len(value) <= MAX_TEXT:
        raise Refused(
            Reason.SIGNATURE_INPUT_MALFORMED,
            f"The parameter {name} has to be a string of at most {MAX_TEXT} characters.",
        )
    return value


class Coverage(NamedTuple):
    """What a list of components binds a signature to."""

    # As they stand in the signature base.
    texts: tuple[str, ...]
    host: bool
    body: bool
    # The members of Signature-Agent; None for that header whole.
    agents: tuple[str | None, ...]


@lru_cache(maxsize=256)
def coverage(listed: str) -> Coverage:
    """For the text of an inner list."""
    found = components(listed)
    return Coverage(
        texts=tuple(one.text for one in found),
        host=any(one.name in {"@authority", "@target-uri"} for one in found),
        body=covers_digest(found),
        agents=tuple(one.params.get("key") for one in found if one.name == "signature-agent"),
    )


def covered_agent(
    label: str, covered: Coverage, message: SignedMessage, labels: AbstractSet[str] = frozenset()
) -> Advertised | None:
    """Check that enough is covered, and find the directory that is named: only what is covered is believed.

    `labels` are all of the request: a header that names directories for others says nothing about this one.
    """
    if not covered.host:
        raise Refused(Reason.MISSING_REQUIRED_COVERED_FIELD, "Neither @authority nor @target-uri is covered.")
    raw = message.header(b"signature-agent")
    if raw is None:
        return None
    sent = advertised(raw)
    if not covered.agents:
        if all(one.label != label and one.label in labels for one in sent):
            return None
        raise Refused(Reason.MISSING_REQUIRED_COVERED_FIELD, "Signature-Agent is sent, and not covered.")
    wanted = _wanted(label, covered.agents, [one.label for one in sent])
    if wanted is None:
        raise Refused(
            Reason.MISSING_REQUIRED_COVERED_FIELD,
            "Which member of Signature-Agent belongs to the signature is not plain.",
        )
    for one in sent:
        if one.label == wanted:
            return one
    raise Refused(Reason.UNSUPPORTED_COVERED_FIELD, "A member of Signature-Agent is covered that is not sent.")


def _wanted(label: str, covered: tuple[str | None, ...], sent: list[str]) -> str | None:
    """The draft names the member like the label; published vectors do not, and what they mean is plain all the same."""
    choice = sent if None in covered else covered
    if label in choice:
        return label
    return choice[0] if len(choice) == 1 else None


_log = logging.getLogger(__name__)

# By key id and the URL that Signature-Agent names; the URL is None where that header is not sent.
Lookup: TypeAlias = Callable[[str, str | None], Awaitable[PublicKey | None]]
Clock: TypeAlias = Callable[[], float]


class Attribution(msgspec.Struct, frozen=True):
    """Whose a signature is."""

    caller: Caller
    # Whether rules refuse the request: then its nonce need not be remembered.
    denied: bool = False


# Raises Refused where the key is nobody's who may come in.
Attribute: TypeAlias = Callable[[Verified], Awaitable[Attribution]]

# Each may need a directory fetched, so one request must not name many.
MAX_TRIED: Final = 4
_TAKEN: Final = frozenset({ED25519, ECDSA_P256, RSA_PSS_512})


class VerifySettings(msgspec.Struct, frozen=True):
    """What is asked of a signature. Times in seconds."""

    profile: Profile = "ietf"
    max_window: int = MAX_WINDOW
    # How far the clock of an agent may be ahead of ours.
    skew: int = SKEW
    content_digest: Literal["optional", "required"] = "optional"
    # A nonce is needed as soon as there is a store that remembers them.
    nonce: Literal["optional", "required"] = "required"
    rsa_pss_sha256: bool = False
    # Whether the `kid` of a key may stand for its thumbprint; the legacy profile allows it.
    kid_fallback: bool = False
    allow_test_keys: bool = False
    # An Ed25519 key for development, used where no directory has the key.
    test_key: PublicKey | None = None
    # Whether Signature-Agent may name an http origin; for development.
    plain_http: bool = False
    production: bool = False

    def problems(self, *, nonces: bool) -> list[str]:
        """Why these settings cannot be used; empty where they can."""
        found = []
        if self.max_window <= 0 or self.skew < 0:
            found.append("max_window has to be above zero and skew not below it")
        if self.test_key is not None and self.test_key.algorithms != (ED25519,):
            found.append("test_key has to be an Ed25519 key")
        if self.production:
            if self.test_key is not None or self.allow_test_keys:
                found.append("keys for tests are not for production; take test_key and allow_test_keys away")
            if not nonces:
                found.append("without a store for nonces a request can be sent again; give one in production")
        return found


class _Holds(NamedTuple):
    """A signature that holds, but for its nonce."""

    label: str
    key: PublicKey
    algorithm: str
    terms: Terms
    covered: Coverage


class _Attributed(NamedTuple):
    """A signature that holds, and whose it is."""

    holds: _Holds
    verified: Verified
    whose: Attribution


class Verifier:
    """Verifies requests by keys that `lookup` finds and nonces that `nonces` remembers."""

    def __init__(
        self,
        settings: VerifySettings,
        lookup: Lookup,
        nonces: NonceStore | None = None,
        clock: Clock = time.time,
        *,
        share: StrangersShare | None = None,
        later: UseWriters | None = None,
    ) -> None:
        if problems := settings.problems(nonces=nonces is not None):
            raise ConfigError("; ".join(problems), advice="Change the settings for signatures and start again.")
        if nonces is None:
            _log.warning("no store for nonces: a request that somebody recorded can be sent again until it expires")
        self._settings = settings
        self._lookup = lookup
        self._nonces = nonces
        self._share = share or StrangersShare()
        # Uses up nonces in the transaction of a decision.
        self._later = later
        self._clock = clock
        self._needs_nonce = nonces is not None and settings.nonce == "required"
        self._needs_digest = settings.content_digest == "required"
        self._longest, self._skew = settings.max_window, settings.skew
        # A nonce is remembered for longer than any node, whose clock may be behind by `skew`, takes the signature.
        self._kept = 1 + settings.skew
        # What of a request has to be signed, for Accept-Signature (RFC 9421 §5.1).
        digest = ' "content-digest"' if settings.content_digest == "required" else ""
        self.accepted = f'sig1=("@authority"{digest});created;expires;tag="{TAG}"'
        self._taken = _TAKEN | {RSA_PSS_256} if settings.rsa_pss_sha256 else _TAKEN
        self._by_kid = settings.kid_fallback or settings.profile == "legacy"

    async def verify(self, signed: Signed) -> Verified:
        """The first label whose signature holds and is new; otherwise Refused, for what is wrong with the first one."""
        return (await self.attribute(signed, _by_key))[0]

    async def attribute(
        self, signed: Signed, attribute: Attribute, *, later: bool = False
    ) -> tuple[Verified, Attribution, tuple[Use, ...]]:
        """The same, with whose it is. Of several signatures that hold, that of an agent that somebody listed counts.

        A nonce is stored only for who is let in: otherwise strangers could fill the store. `later`: where one listed
        agent signed, and signed once, its nonce may be handed over instead, for the transaction of a decision.
        """
        message = SignedMessage(signed)
        others: dict[str, Reason] = {}
        found: list[_Attributed] = []
        first: Refused | None = None
        for holds in await self._holding(message, others):
            if isinstance(holds, Refused):
                first = first or holds
                continue
            verified = _verified(holds, message)
            try:
                found.append(_Attributed(holds, verified, await attribute(verified)))
            except Refused as refused:
                others[holds.label] = refused.reason
                # That it holds, and is nobody's, says more than what is wrong with another one.
                first = refused if first is None or first.status != refused.status else first
        if len(found) > 1:
            found.sort(key=lambda one: not one.whose.caller.listed)
        if later and len(found) == 1 and not others and (uses := self._handed_over(found[0])) is not None:
            return found[0].verified, found[0].whose, uses
        if found and (fresh := await self._fresh(found, others)) is not None:
            told = {label: reason.value for label, reason in others.items()}
            verified = msgspec.structs.replace(fresh.verified, others=told) if told else fresh.verified
            return verified, fresh.whose, ()
        why = first if first is not None and not found else Refused(Reason.NONCE_REPLAY)
        if len(others) > 1:
            why.data = {**why.data, "labels": {label: reason.value for label, reason in others.items()}}
        raise why

    async def _holding(self, message: SignedMessage, others: dict[str, Reason]) -> list[_Holds | Refused]:
        """The signatures that hold, and in place of the others what is wrong with them."""
        raw_inputs, raw_signatures = message.header(b"signature-input"), message.header(b"signature")
        if raw_inputs is None or raw_signatures is None:
            raise Refused(Reason.MISSING_SIGNATURE_HEADERS)
        given, held = inputs(raw_inputs), signatures(raw_signatures)
        found: list[_Holds | Refused] = []
        for label, one in _ours(given, held.keys(), others).items():
            try:
                found.append(await self._check(label, one, held.get(label), message, given.keys()))
            except Refused as refused:
                others[label] = refused.reason
                found.append(refused)
        return found

    async def _check(
        self, label: str, given: Input, signature: bytes | None, message: SignedMessage, labels: AbstractSet[str]
    ) -> _Holds:
        """Everything about one label but its nonce; what is cheap comes first, and before any directory is asked."""
        terms = read_terms(given, nonce=self._needs_nonce)
        if terms.algorithm is not None and terms.algorithm not in self._taken:
            raise Refused(Reason.UNSUPPORTED_ALG, f"The algorithm {terms.algorithm[:64]} is not taken here.")
        check_window(terms, self._clock(), self._longest, self._skew)
        covered = coverage(given.listed)
        directory = covered_agent(label, covered, message, labels)
        named = None if directory is None else named_directory(directory, plain_http=self._settings.plain_http)
        digest = message.header(b"content-digest")
        if self._needs_digest and (digest is None or not covered.body):
            raise _digest_needed(digest)
        if not signature:
            raise Refused(
                Reason.SIGNATURE_MALFORMED, f"There is no byte sequence in Signature for the label {label[:64]}."
            )
        base = signature_base(given, message)
        found = await self._lookup(terms.keyid, named)
        # Finding it may have taken a while.
        if terms.expires < (now := self._clock()):
            raise Refused(Reason.SIGNATURE_EXPIRED)
        key = self._accepted(found, terms.keyid, now)
        algorithm = key.algorithm(terms.algorithm, self._taken)
        if not key.verifies(algorithm, signature, base):
            raise Refused(Reason.SIGNATURE_INVALID)
        if digest is not None:
            check_digest(digest, message.body)
        return _Holds(label, key, algorithm, terms, covered)

    def _accepted(self, key: PublicKey | None, keyid: str, now: float) -> PublicKey:
        """The key that was found, if it bears out the id by which it was looked for and may be used."""
        if key is not None and key.thumbprint != keyid and not (self._by_kid and key.kid == keyid):
            key = None
        if key is None:
            test = self._settings.test_key
            if test is not None and keyid in {test.thumbprint, test.kid}:
                return replace(test, directory="test")
            raise Refused(Reason.UNKNOWN_KEYID)
        if key.thumbprint in PUBLISHED and not self._settings.allow_test_keys:
            raise Refused(
                Reason.UNKNOWN_KEYID,
                "The private half of this key is printed in a specification; make one of your own.",
            )
        if (key.not_before is not None and key.not_before > now) or (key.not_after is not None and key.not_after < now):
            raise Refused(Reason.UNKNOWN_KEYID, "The directory limits the life of this key to another time.")
        return key

    async def _fresh(self, found: list[_Attributed], others: dict[str, Reason]) -> _Attributed | None:
        """Take the nonces. Of several signatures that hold each one is taken: none of them is good for another time."""
        if self._nonces is None or found[0].whose.denied:
            return found[0]
        first: _Attributed | None = None
        for one in found:
            if one.whose.denied or await self._take(self._nonces, one):
                first = first or one
            else:
                others[one.holds.label] = Reason.NONCE_REPLAY
        return first

    def _handed_over(self, one: _Attributed) -> tuple[Use, ...] | None:
        """What uses up the nonce later; None where it has to be used up now."""
        terms, whose = one.holds.terms, one.whose
        if whose.denied or terms.nonce is None or self._nonces is None:
            return ()
        if self._later is None or not whose.caller.listed:
            return None
        digest = parts_hash(one.holds.key.thumbprint, terms.nonce)
        item = NonceUse(digest, (terms.expires + self._kept) * 1000, round(self._clock() * 1000))
        return (Use(self._later.write_nonces, item, bool, _sent_before),)

    async def _take(self, nonces: NonceStore, one: _Attributed) -> bool:
        terms, key = one.holds.terms, one.holds.key
        if terms.nonce is None:
            return True
        until, now = (terms.expires + self._kept) * 1000, round(self._clock() * 1000)
        listed = one.whose.caller.listed
        if not listed:
            self._share.demand(key.directory, now)
        if not await nonces.take_nonce(key.thumbprint, terms.nonce, until, now):
            return False
        if not listed:
            self._share.add(key.directory, until)
        return True


def _sent_before(_new: bool) -> SentBefore:
    return SentBefore(Reason.NONCE_REPLAY)


async def _by_key(verified: Verified) -> Attribution:
    """Where nobody says whose a key is."""
    caller = Caller(
        verified.keyid, "web-bot-auth", verified.keyid, verified.directory, listed="://" not in verified.directory
    )
    return Attribution(caller)


def named_directory(named: Advertised, *, plain_http: bool = False) -> str:
    """The origin that a member of Signature-Agent names. The draft has a verifier ignore a member with anything more.

    A path, a query or a fragment could lead to a file that somebody else put on that host.
    """
    if named.type != "directory":
        raise Refused(
            Reason.UNKNOWN_KEYID, f"Signature-Agent names a {named.type[:64]}; only key directories are read here."
        )
    if named.uri[:5].lower() == "data:":
        return named.uri
    try:
        parts = urlsplit(named.uri)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" and not (plain_http and parts.scheme == "http"):
        raise Refused(Reason.SIGNATURE_INPUT_MALFORMED, "Signature-Agent has to name an https origin.")
    if parts.path not in ("", "/") or any(mark in named.uri for mark in "?#@\\"):
        raise Refused(
            Reason.UNKNOWN_KEYID,
            "Signature-Agent names more than an origin, so no directory is looked up.",
            advice="Name the origin alone, such as https://agent.example, without a path, query, fragment or user.",
        )
    return named.uri


def _ours(given: dict[str, Input | None], signed: AbstractSet[str], others: dict[str, Reason]) -> dict[str, Input]:
    """The labels with our tag; why each of the rest is not looked at goes to `others`."""
    found: dict[str, Input] = {}
    if len(signed) > 1 or not signed <= given.keys():
        others.update(dict.fromkeys(signed - given.keys(), Reason.SIGNATURE_INPUT_MALFORMED))
    for label, one in given.items():
        tag = None if one is None else one.params.get("tag")
        if one is not None and tag == TAG and type(tag) is str:
            found[label] = one
        elif one is None or (tag is not None and type(tag) is not str):
            others[label] = Reason.SIGNATURE_INPUT_MALFORMED
        else:
            others[label] = Reason.MISSING_REQUIRED_PARAM if tag is None else Reason.WRONG_TAG
    if len(found) > MAX_TRIED:
        raise Refused(
            Reason.SIGNATURE_INPUT_MALFORMED, f"At most {MAX_TRIED} signatures of a request are tried, here are more."
        )
    if not found:
        told = [others[label] for label in given]
        order = (Reason.WRONG_TAG, Reason.MISSING_REQUIRED_PARAM, Reason.SIGNATURE_INPUT_MALFORMED)
        raise Refused(next(reason for reason in order if reason in told))
    return found


def _digest_needed(digest: bytes | None) -> Refused:
    if digest is None:
        return Refused(Reason.CONTENT_DIGEST_REQUIRED, "The request has no Content-Digest.", status=400)
    return Refused(Reason.CONTENT_DIGEST_REQUIRED, "Content-Digest is not covered by the signature.", status=401)


def _verified(one: _Holds, message: SignedMessage) -> Verified:
    return Verified(
        label=one.label,
        keyid=one.key.thumbprint,
        algorithm=one.algorithm,
        directory=one.key.directory,
        created=one.terms.created,
        expires=one.terms.expires,
        nonce=one.terms.nonce,
        covered=one.covered.texts,
        digest_verified=b"content-digest" in message.fields and one.covered.body,
    )
