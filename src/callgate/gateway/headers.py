"""HTTP headers: which travel on and which end here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from callgate.gateway.exchange import Exchange
from callgate.gateway.routing import routing_headers
from callgate.jsonrpc import Message

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


class Upward:
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
