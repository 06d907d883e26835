"""The headers of a signature as strangers send them: bounded, no key twice, one reading (RFC 9651, RFC 9421 §4).

`http-sf` reads them. What is spelt the way a serialiser spells it, as nearly every request is, is told apart by one
regular expression and not parsed and written out again: then its own text is the text that was signed.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import http_sf
import msgspec

from callgate.errors import Reason, Refused

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
    found: dict[bytes, bytes | list[bytes]] = dict(headers)
    names = b"".join(found)
    if len(found) == len(headers) and names == names.lower():
        return found
    found = {}
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
