"""HTTP headers: which travel on, which end here, and whether those of the modern era say what the body says."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from callgate.errors import MessageError, Reason
from callgate.jsonrpc import Batch, Message, MessageKind
from callgate.protocol import CAPABILITIES_META, HANDSHAKE_VERSIONS, VERSION_META
from callgate.transport.http.exchange import Exchange

_ROUTING: Final = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
NAME_PARAMETER: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Routing:
    """The modern era's routing headers of one request, duplicates noticed."""

    __slots__ = ("duplicate", "method", "name", "version")

    def __init__(self, exchange: Exchange) -> None:
        fields = exchange.fields
        self.version = _text(fields.get(b"mcp-protocol-version"))
        self.method = _text(fields.get(b"mcp-method"))
        self.name = _text(fields.get(b"mcp-name"))
        self.duplicate: str | None = None
        if exchange.repeats:
            names = [name for name, _ in exchange.headers if name in _ROUTING]
            self.duplicate = next((name.decode() for name in _ROUTING if names.count(name) > 1), None)

    @property
    def modern(self) -> bool:
        """Era by header alone: no header or a handshake version means sessions, everything else is stateless."""
        return self.version is not None and self.version not in HANDSHAKE_VERSIONS


def _text(value: bytes | None) -> str | None:
    # RFC 9110 §5.5: white space around a value is not part of it; httptools leaves it there.
    return None if value is None else value.decode("latin-1").strip()


def check_routing(message: Message | Batch, routing: Routing, *, complete: bool) -> None:
    """Raise −32020 where the headers say something else than the body.

    `complete` also judges what is absent: set for an upstream that sees no headers and cannot judge by itself.
    """
    if routing.duplicate is not None:
        raise _mismatch(f"the header {routing.duplicate} appears more than once")
    if isinstance(message, Batch):
        if routing.modern or routing.method is not None or routing.name is not None:
            raise MessageError(Reason.INVALID_REQUEST, "a batch cannot carry the routing headers of one request")
        return
    if message.kind is not MessageKind.REQUEST and routing.method is None:
        return
    if routing.method is not None and routing.method != message.method:
        raise _mismatch("Mcp-Method differs from the body's method")
    expected = _named(message)
    if routing.name is not None and expected is not None and decode_value(routing.name) != expected:
        raise _mismatch("Mcp-Name differs from what the body names")
    if routing.modern and message.kind is MessageKind.REQUEST:
        _check_envelope(message, routing, complete=complete)


def _check_envelope(message: Message, routing: Routing, *, complete: bool) -> None:
    meta = message.meta
    version = meta.get(VERSION_META)
    if version is None or CAPABILITIES_META not in meta:
        # The modern envelope is missing from the body: not a mismatch, and a server that sees it says so itself.
        if complete:
            raise MessageError(Reason.INVALID_PARAMS, f"params._meta lacks {VERSION_META} or {CAPABILITIES_META}")
        return
    if version != routing.version:
        raise _mismatch("MCP-Protocol-Version differs from the body's protocol version")
    if routing.method is None:
        raise _mismatch("the header Mcp-Method is missing")
    if routing.name is None and _named(message) is not None:
        raise _mismatch("the header Mcp-Name is missing")


def _named(message: Message) -> str | None:
    key = NAME_PARAMETER.get(message.method)
    if key is None or not isinstance(message.params, dict):
        return None
    value = message.params.get(key)
    return value if isinstance(value, str) else None


def _mismatch(detail: str) -> MessageError:
    return MessageError(Reason.HEADER_MISMATCH, detail)


# ---- header values that carry text ----

_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")


def encode_value(value: str) -> str:
    """A text as a header value: as it is, or wrapped as `=?base64?…?=` where it would not survive."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decode_value(value: str) -> str | None:
    """The text a header value stands for, or None if it is wrapped and damaged."""
    wrapped = _WRAPPED.fullmatch(value)
    if wrapped is None:
        return value
    try:
        text = base64.b64decode(wrapped.group(1), validate=True)
        if base64.b64encode(text).decode() != wrapped.group(1):
            return None
        return text.decode()
    except ValueError:  # no base64, no ASCII, or no UTF-8
        return None


# ---- arguments that are repeated as headers: `x-mcp-header` in a tool's definition ----

# Which arguments of a tool are repeated, by their path, and the end of each header's name.
Parameters: TypeAlias = Mapping[tuple[str, ...], str]


def parameter_map(input_schema: Any) -> Parameters:
    """Which arguments of a tool are repeated as `Mcp-Param-…` headers: `x-mcp-header` along `properties` only."""
    found: dict[tuple[str, ...], str] = {}
    stack: list[tuple[tuple[str, ...], Any]] = [((), input_schema)]
    while stack and len(found) < 64:
        path, schema = stack.pop()
        if not isinstance(schema, dict) or len(path) > 16:
            continue
        token = schema.get("x-mcp-header")
        if path and isinstance(token, str) and _TOKEN.fullmatch(token):
            found[path] = token
        properties = schema.get("properties")
        if isinstance(properties, dict):
            stack.extend(((*path, key), value) for key, value in properties.items())
    # Two arguments cannot share one header: such a mark is none.
    tokens = [token.lower() for token in found.values()]
    return {path: token for path, token in found.items() if tokens.count(token.lower()) == 1}


def check_parameters(parameters: Parameters, arguments: object, exchange: Exchange) -> None:
    """Raise −32020 where an `Mcp-Param-…` header and the argument that it repeats are not the same.

    2026-07-28, Streamable HTTP, Server Behavior for Custom Headers: an argument has to have its header, a header
    without its argument is refused, and headers of other names are not looked at.
    """
    for path, token in parameters.items():
        name = f"Mcp-Param-{token}"
        key = name.lower().encode()
        if exchange.repeats and sum(header == key for header, _ in exchange.headers) > 1:
            raise _mismatch(f"the header {name} appears more than once")
        value, given = _at(arguments, path), _text(exchange.fields.get(key))
        if given is None:
            if _repeatable(value):
                raise _mismatch(f"the header {name} is missing")
        elif not _VISIBLE.fullmatch(given):
            raise _mismatch(f"the header {name} holds characters that need the form =?base64?…?=")
        elif not _says(decode_value(given), value):
            raise _mismatch(f"{name} differs from the argument {'.'.join(path)}")


def _at(arguments: object, path: tuple[str, ...]) -> object:
    node = arguments
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _repeatable(value: object) -> bool:
    """Whether a header has to repeat it. What has a fraction need not: the mark is not for the type `number`."""
    return isinstance(value, (str, int)) or (isinstance(value, float) and value.is_integer())


def _says(text: str | None, value: object) -> bool:
    if text is None or value is None:
        return False
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # Numerically, as the note under Server Validation has it: 42.0 is 42.
        return len(text) <= _NUMBER_CHARS and _DECIMAL.fullmatch(text) is not None and Decimal(text) == Decimal(value)
    return text == value


_VISIBLE: Final = re.compile(r"[\t\x20-\x7e]*")
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NUMBER_CHARS: Final = 400
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


# ---- for a client that has no headers: the ones its requests stand for ----


def routing_headers(message: Message) -> dict[str, str]:
    """The modern era's headers for a message that came over a pipe; empty in the handshake era."""
    version = message.meta.get(VERSION_META)
    if not isinstance(version, str) or version in HANDSHAKE_VERSIONS:
        return {}
    headers = {"mcp-protocol-version": version, "mcp-method": encode_value(message.method)}
    name = _named(message)
    if name is not None:
        headers["mcp-name"] = encode_value(name)
    return headers


def parameter_headers(parameters: Parameters, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The `Mcp-Param-…` headers of one call."""
    headers: dict[str, str] = {}
    for path, token in parameters.items():
        value = _at(arguments, path)
        if isinstance(value, bool):
            headers[f"mcp-param-{token.lower()}"] = "true" if value else "false"
        elif isinstance(value, (str, int)):
            headers[f"mcp-param-{token.lower()}"] = encode_value(str(value))
    return headers


RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]

# RFC 9110 §7.6.1, and what belongs to one connection or to one pair of peers only.
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
# The gateway is the client upstream sees: its own host and length, no compression, and no credentials of ours.
_NOT_UP: Final = _HOP_BY_HOP | {
    b"host",
    b"content-length",
    b"accept-encoding",
    b"cookie",
    b"origin",
    b"referer",
    b"expect",
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
}
_NOT_DOWN: Final = _HOP_BY_HOP | {b"content-length", b"set-cookie", b"content-encoding", b"alt-svc"}
_OF_ONE_REQUEST: Final = (b"mcp-method", b"mcp-name", b"mcp-param-", b"last-event-id")
_PLAIN_CONNECTION: Final = (b"keep-alive", b"close")
_SECRET_UP: Final = frozenset({b"authorization"})


# What begins like this tells a server who was verified, and only we say that (agents/model.py); CGI reads `_` as `-`.
_OURS: Final = b"callgate"


class RequestHeaderFilter:
    """Which of a client's headers travel on to one server, beside the ones configured for it."""

    def __init__(self, own: Iterable[tuple[bytes, bytes]], *, authorization: bool) -> None:
        self._own = [(b"accept-encoding", b"identity"), *own]
        drop = _NOT_UP if authorization else _NOT_UP | _SECRET_UP
        self._drop = drop | {name for name, _ in self._own}

    def headers(self, exchange: Exchange) -> list[tuple[bytes, bytes]]:
        drop = self._drop | exchange.spent if exchange.spent else self._drop
        connection = exchange.fields.get(b"connection")
        if connection is not None and (exchange.repeats or connection not in _PLAIN_CONNECTION):
            drop = drop | _named_by_connection(exchange.headers)
        # RFC 9110 §5.5: white space around a value is not part of it; httptools leaves it there.
        up = [(name, value.strip()) for name, value in exchange.headers if name not in drop and name[:8] != _OURS]
        up += self._own
        up += exchange.identity
        if exchange.trace:
            up = [item for item in up if item[0] not in exchange.trace]
            up += exchange.trace.items()
        return up

    def headers_for(self, exchange: Exchange, message: Message) -> list[tuple[bytes, bytes]]:
        """The same for a request of the gateway's own: what named the client's request names ours instead."""
        kept = [pair for pair in self.headers(exchange) if not pair[0].startswith(_OF_ONE_REQUEST)]
        named = routing_headers(message)
        named.pop("mcp-protocol-version", None)
        return kept + [(name.encode(), value.encode()) for name, value in named.items()]


def forward_down(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The headers of an answer to the client."""
    down = [(low, value) for name, value in headers if (low := name.lower()) not in _NOT_DOWN]
    named = _named_by_connection(headers)
    return [pair for pair in down if pair[0] not in named] if named else down


def _named_by_connection(headers: RawHeaders) -> set[bytes]:
    """Connection may name further headers that end here (RFC 9110 §7.6.1)."""
    return {
        token.strip()
        for name, value in headers
        if name == b"connection" and value not in _PLAIN_CONNECTION
        for token in value.lower().split(b",")
    }
