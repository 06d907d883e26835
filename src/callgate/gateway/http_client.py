"""One server's HTTP endpoint: requests out, answers in, each failure with its reason."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

from callgate.config import Server
from callgate.errors import Reason, UpstreamError
from callgate.gateway.http1 import Answer, BrokenAnswer, Connection, Pool
from callgate.gateway.sse import Event, EventCutter

Headers = Iterable[tuple[bytes, bytes]]

_USUAL: Final = b"application/json"
# RFC 8259 §8.1, WHATWG HTML §9.2.5: JSON and event streams are UTF-8. Some readers follow a charset all the same.
_PLAIN: Final = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})


class HttpClient:
    """How long to wait (`patience`) is for the caller to see to; connecting and sizes are bounded here."""

    def __init__(self, server: Server, max_bytes: int) -> None:
        assert server.url is not None
        url = urlsplit(server.url.reveal())
        self.patience = server.timeout_seconds
        self.own_headers = [
            (name.lower().encode(), value.reveal().encode("latin-1")) for name, value in server.headers.items()
        ]
        if url.username is not None and not any(name == b"authorization" for name, _ in self.own_headers):
            pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
            self.own_headers.append((b"authorization", b"Basic " + base64.b64encode(pair)))
        target = ((url.path or "/") + (f"?{url.query}" if url.query else "")).encode()
        # How a request begins, behind its method.
        self._start = b" %b HTTP/1.1\r\nhost: %b" % (target, url.netloc.rpartition("@")[2].encode())
        self._max = max_bytes
        self._pool = Pool(url, server.connect_seconds)

    def close(self) -> None:
        self._pool.close()

    async def open(self, method: bytes, body: bytes | None, headers: Headers) -> Answer:
        """Send a request and wait for the head of the answer."""
        answer = await self._send(method, body, headers)
        if answer.status >= 300:
            _check_status(answer)
        if answer.fields.get(b"content-encoding", b"identity").lower() != b"identity":
            answer.close()
            raise UpstreamError(Reason.UPSTREAM_ENCODING)
        if answer.status < 300 and (why := _unclear_type(answer)):
            answer.close()
            raise UpstreamError(Reason.UPSTREAM_GARBAGE, why)
        return answer

    async def _send(self, method: bytes, body: bytes | None, headers: Headers) -> Answer:
        connection = await self._connection()
        used = connection.idle_since > 0
        try:
            return await connection.exchange(self._head(method, body, headers), body or b"")
        except BrokenAnswer as error:
            if error.garbage:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE) from None
            # A server may close a kept connection just as it is used again. Only what may be done twice is sent twice
            # (RFC 9110 §9.2.2): a call never is.
            if not used or method == b"POST":
                raise UpstreamError(Reason.UPSTREAM_CLOSED) from None
        self._pool.drop_idle()
        return await self._send(method, body, headers)

    async def _connection(self) -> Connection:
        try:
            return await self._pool.take()
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, "connecting to the server took too long") from None
        except ssl.SSLError as error:
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, f"no secure connection: {error.reason}") from None
        except OSError as error:
            text = error.strerror or str(error)
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, f"cannot connect to the server: {text}") from None

    def _head(self, method: bytes, body: bytes | None, headers: Headers) -> bytes:
        lines = [method + self._start]
        lines += [b"%b: %b" % pair for pair in headers]
        if body is not None:
            lines.append(b"content-length: %d" % len(body))
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            # Never from our own parser or a checked configuration; a line more would be a request more.
            raise UpstreamError(Reason.INVALID_REQUEST, "a header holds a line end")
        return head + b"\r\n\r\n"

    async def read(self, answer: Answer) -> bytes:
        """The whole of an answer that is not a stream."""
        if answer.complete:
            body = answer.take()
            if len(body) > self._max:
                raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
            return body
        if (answer.content_length or 0) > self._max:
            raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        parts: list[bytes] = []
        size = 0
        try:
            async for chunk in answer.chunks():
                parts.append(chunk)
                size += len(chunk)
                if size > self._max:
                    raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        except BrokenAnswer as error:
            raise UpstreamError(Reason.UPSTREAM_GARBAGE if error.garbage else Reason.UPSTREAM_CLOSED) from None
        return b"".join(parts)

    async def events(self, answer: Answer) -> AsyncIterator[Event]:
        """The events of a stream as they come; raises where it breaks off."""
        cutter = EventCutter(self._max)
        try:
            async for chunk in answer.chunks():
                for event in cutter.feed(chunk):
                    yield event
        except BrokenAnswer:
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None


def _check_status(answer: Answer) -> None:
    if answer.status < 400 and answer.status != 304:
        answer.close()
        raise UpstreamError(Reason.UPSTREAM_REDIRECT)
    if answer.status > 599:
        # RFC 9110 §15: outside 100 to 599 there is no status.
        answer.close()
        raise UpstreamError(Reason.UPSTREAM_GARBAGE)


def _unclear_type(answer: Answer) -> str:
    """Why a client could read an answer otherwise than we do: in another alphabet, or as another kind of thing."""
    if answer.fields.get(b"content-type") == _USUAL and len(answer.fields) == len(answer.headers):
        # Nearly every answer: no header twice, so this is the only type, and it has no parameters.
        return ""
    types = [value for name, value in answer.headers if name.lower() == b"content-type"]
    if len(types) > 1 or (types and b"," in types[0]):
        return "the server gave its answer two content types"
    for parameter in types[0].lower().split(b";")[1:] if types else ():
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"charset" and value.strip().strip(b"\"'") not in _PLAIN:
            return "the server's answer is not in UTF-8"
    return ""


def is_stream(answer: Answer) -> bool:
    return answer.status < 300 and answer.content_type == b"text/event-stream"
