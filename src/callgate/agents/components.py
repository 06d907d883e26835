"""What the components of a signature stand for in a message, and the bytes that are signed (RFC 9421 §2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import http_sf
import msgspec
from http_sf.retrofit import retrofit

from callgate.agents.fields import (
    Component,
    Input,
    Params,
    dictionary,
    index,
    joined,
    line,
    member,
    member_of,
    structured,
)
from callgate.agents.model import Signed
from callgate.errors import Reason, Refused

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

    __slots__ = ("_asked", "_dictionaries", "_query", "answer", "fields", "request")

    def __init__(self, of: Signed | SignedResponse) -> None:
        self.answer = of if isinstance(of, SignedResponse) else None
        self.request = of.request if isinstance(of, SignedResponse) else of
        self.fields = index(of.headers)
        self._asked: SignedMessage | None = None
        self._query: dict[str, list[str | None]] | None = None
        self._dictionaries: dict[str, dict[str, tuple[Any, Params]]] = {}

    @property
    def body(self) -> bytes:
        return self.request.body if self.answer is None else self.answer.body

    @property
    def asked(self) -> SignedMessage:
        """The request that a response answers."""
        if self._asked is None:
            self._asked = SignedMessage(self.request)
        return self._asked

    def header(self, name: bytes) -> bytes | None:
        """The value of a header with all its lines; None where there is no such header."""
        held = self.fields.get(name)
        return held if held is None else line(held) if isinstance(held, bytes) else joined(held)

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
    params = component.params
    if params:
        if "req" in params:
            return _of_the_request(component, message)
        if "tr" in params:
            raise Refused(_UNSUPPORTED, f"{component.text}: trailers are not kept, so nothing of them can be covered.")
    if component.name[0] == "@":
        return _derived(component, message)
    return _field(component, message)


def authority(request: Signed) -> str:
    """In lower case, without the scheme's own port, RFC 9421 §2.2.3."""
    return request.authority.lower().removesuffix(_PORTS.get(request.scheme.lower(), "\n"))


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
    made = _DERIVED.get(component.name)
    if made is None or component.params:
        raise Refused(_UNSUPPORTED, f"{component.text} is no component of a request, RFC 9421 §2.2.")
    text = made(message.request)
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Refused(_UNSUPPORTED, f"{component.text} holds what no request line can hold.")
    return text


def _path(request: Signed) -> str:
    return request.path or "/"


def _target(request: Signed) -> str:
    return _path(request) if request.query is None else f"{_path(request)}?{request.query}"


_DERIVED: Final[Mapping[str, Callable[[Signed], str]]] = {
    "@method": lambda request: request.method,
    "@target-uri": lambda request: f"{request.scheme.lower()}://{authority(request)}{_target(request)}",
    "@authority": authority,
    "@scheme": lambda request: request.scheme.lower(),
    "@request-target": _target,
    "@path": _path,
    "@query": lambda request: f"?{request.query or ''}",
}


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
