"""Who may speak to the gateway's port at all: the guard against DNS rebinding and foreign web pages."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from callgate.errors import Reason, Refused
from callgate.transport.http.exchange import Exchange

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Guard:
    """Host and Origin have to name this gateway, or what the operator listed."""

    def __init__(self, listen_host: str, allowed_hosts: tuple[str, ...], allowed_origins: tuple[str, ...]) -> None:
        own = f"[{listen_host}]" if ":" in listen_host and not listen_host.startswith("[") else listen_host
        self._hosts = _LOOPBACK | {own.lower()} | {host.lower() for host in allowed_hosts}
        self._any_host = "*" in allowed_hosts
        self._origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)
        # What passed once passes again: a handful of spellings, kept bounded, spares the parsing on each request.
        self._seen: dict[tuple[bytes | None, bytes | None], bool] = {}

    def check(self, exchange: Exchange) -> None:
        """Raise where Host or Origin is not ours."""
        host = exchange.fields.get(b"host")
        origin = exchange.fields.get(b"origin")
        if (host, origin) in self._seen and not exchange.repeats:
            return
        exchange.refuse_repeated()
        if not self._host_allowed(host):
            raise Refused(Reason.HOST_NOT_ALLOWED)
        if origin is not None and not self._origin_allowed(origin):
            raise Refused(Reason.ORIGIN_NOT_ALLOWED)
        if len(self._seen) < 256:
            self._seen[(host, origin)] = True

    def _host_allowed(self, header: bytes | None) -> bool:
        if header is None:
            return False
        text = header.decode("latin-1").strip().lower()
        return self._any_host or text in self._hosts or _without_port(text) in self._hosts

    def _origin_allowed(self, header: bytes) -> bool:
        text = header.decode("latin-1").strip().lower().rstrip("/")
        if text in self._origins:
            return True
        try:
            parts = urlsplit(text)
            host = parts.hostname
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or host is None:
            return False
        # A page served from this machine's own loopback, or by a host the gateway itself answers for.
        return (f"[{host}]" if ":" in host else host) in self._hosts


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def origin_of(url: str) -> str:
    """An address's origin, without its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host_of(url: str) -> str:
    return urlsplit(url).netloc


def check_media_type(exchange: Exchange) -> None:
    """A body the gate cannot read as plain UTF-8 JSON could be another call to whoever can read it."""
    fields = exchange.fields
    if fields.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE, "a compressed body cannot be checked")
    seen = fields.get(b"content-type")
    if seen == b"application/json":
        return
    if seen is None:
        raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE)
    kind, _, parameters = seen.decode("latin-1").lower().partition(";")
    if kind.strip() != "application/json":
        raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE)
    for parameter in parameters.split(";"):
        key, _, charset = parameter.partition("=")
        if key.strip() == "charset" and charset.strip().strip('"') not in ("utf-8", "utf8"):
            raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE, "the body has to be UTF-8")


def check_nominated(exchange: Exchange) -> None:
    """`Connection` may name headers that end here (RFC 9110 §7.6.1): not those that the request was judged by."""
    connection = exchange.fields.get(b"connection")
    if connection in (None, b"keep-alive", b"close"):
        return
    for name, value in exchange.headers:
        if name == b"connection" and any(_judged(token.strip()) for token in value.lower().split(b",")):
            raise Refused(Reason.INVALID_REQUEST, "Connection names a header that has to reach the server")


def _judged(name: bytes) -> bool:
    return name.startswith(b"mcp-") or name in (b"accept", b"content-type", b"content-encoding", b"last-event-id")
