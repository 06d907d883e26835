"""HTTP headers: which travel on and which end here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

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
_SECRET_UP: Final = frozenset({b"authorization"})


def forward_up(headers: RawHeaders, own: Mapping[str, str], *, authorization: bool) -> list[tuple[str, str]]:
    """The headers of an upstream request: the client's, less what is not for upstream, and the configured ones last."""
    drop = _NOT_UP if authorization else _NOT_UP | _SECRET_UP
    named = _connection_named(headers)
    replaced = {name.lower().encode() for name in own}
    up = [
        (name.decode("latin-1"), value.decode("latin-1").strip())
        for name, value in headers
        if name not in drop and name not in named and name not in replaced
    ]
    up.append(("accept-encoding", "identity"))
    up.extend(own.items())
    return up


def forward_down(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The headers of an answer to the client."""
    return [(low, value) for name, value in headers if (low := name.lower()) not in _NOT_DOWN]


def _connection_named(headers: RawHeaders) -> frozenset[bytes]:
    # Connection may name further headers that end here (RFC 9110 §7.6.1); nobody honest names these.
    for name, value in headers:
        if name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
            return frozenset(token.strip().lower() for token in value.split(b","))
    return frozenset()
