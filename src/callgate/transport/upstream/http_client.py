"""One server's HTTP endpoint: a pool of HTTP/1.1 connections on asyncio and httptools, each failure with its reason."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

from callgate.config import ServerSection
from callgate.errors import Reason, UpstreamError
from callgate.transport.sse import Event, EventCutter

# Most servers close an idle connection after five seconds; leaving first avoids writing into a closing one.
_IDLE_SECONDS: Final = 4.0
_IDLE_MOST: Final = 256
_HEAD_BYTES: Final = 64 * 1024
_BUFFER_HIGH: Final = 256 * 1024
_BUFFER_LOW: Final = 64 * 1024


class BrokenAnswer(Exception):
    """The connection ended, or what came over it is not HTTP: then it is `garbage`."""

    def __init__(self, text: str, *, garbage: bool = False) -> None:
        super().__init__(text)
        self.garbage = garbage


class HttpAnswer:
    """The head of an answer, and its body as it arrives."""

    __slots__ = ("close", "connection", "content_type", "fields", "headers", "is_stream", "status")

    def __init__(self, connection: UpstreamConnection, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.headers = headers
        self.fields = dict(headers)
        self.content_type = self.fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
        self.is_stream = status < 300 and self.content_type == b"text/event-stream"
        self.connection = connection
        # Done with it: the connection goes back if the answer was read to its end, else it is closed.
        self.close = connection.release

    @property
    def content_length(self) -> int | None:
        text = self.fields.get(b"content-length")
        return int(text) if text is not None and text.isdigit() else None

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, piece by piece, as it comes."""
        while (chunk := await self.connection.chunk()) is not None:
            yield chunk


class UpstreamConnection(asyncio.Protocol):
    """One connection; it carries one exchange at a time."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        # Kept: up to Python 3.11, asking for it is a system call each time.
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[HttpAnswer] | None = None
        self._more: asyncio.Future[None] | None = None
        self._error: BrokenAnswer | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: deque[bytes] = deque()
        self._buffered = self._head_bytes = 0
        self._answer: HttpAnswer | None = None
        self._paused = False
        self._busy = False
        self.complete = False
        self.idle_since = 0.0

    # ---- one exchange ----

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self._error is None

    async def exchange(self, head: bytes, body: bytes) -> HttpAnswer:
        """Send a request and wait for the head of its answer."""
        if self._transport is None or self._transport.is_closing() or self._error is not None:
            raise self._error or BrokenAnswer("the connection is closed")
        self._headers, self._answer, self.complete, self._head_bytes = [], None, False, 0
        self._busy = True
        self._head = self._loop.create_future()
        if len(body) < _HEAD_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        try:
            return await self._head
        except BaseException:
            # Given up or broken: whatever still comes belongs to nobody.
            self.abort()
            raise
        finally:
            self._head = None

    def take(self) -> bytes:
        chunks = self._chunks
        data = chunks.popleft() if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._buffered = 0
        if self._paused:
            self._resume()
        return data

    async def chunk(self) -> bytes | None:
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self.complete:
                return None
            self._more = self._loop.create_future()
            try:
                await self._more
            finally:
                self._more = None
        chunk = self._chunks.popleft()
        self._buffered -= len(chunk)
        if self._buffered < _BUFFER_LOW:
            self._resume()
        return chunk

    def release(self) -> None:
        self._busy = False
        if self.complete and self._error is None and self._parser_keeps_alive and not self._chunks:
            self._pool.give_back(self)
        else:
            self.abort()

    def abort(self) -> None:
        self._busy = False
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # Nobody asked: an answer before its question would be taken for the next one's.
            self.abort()
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, BrokenAnswer) as error:
            self._fail(BrokenAnswer(f"not HTTP: {error}", garbage=True))
            self.abort()
            return
        if self._head_bytes > _HEAD_BYTES and not self.complete:
            # Neither head nor trailer may go on for ever; a body resets the count, its size is the caller's to bound.
            self._fail(BrokenAnswer("the head of the answer is too large", garbage=True))
            self.abort()
            return
        if self._answer is not None and (self._head is not None or self._more is not None):
            self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if self._busy and self._answer is not None and not self.complete and error is None and self._until_close:
            self.complete = True
            self._parser_keeps_alive = False
            self._wake()
        else:
            self._fail(BrokenAnswer("the server closed the connection"))

    # ---- httptools ----

    _parser_keeps_alive = True
    _until_close = False

    def on_message_begin(self) -> None:
        if self._answer is not None:
            # The beginning of an answer that nobody asked for would be taken for the next one's.
            raise BrokenAnswer("more than one answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer comes after the answer was judged by its head: it is left out (RFC 9110 §6.5.1).
        if self._answer is None:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            if status == 101:
                raise BrokenAnswer("the server changed the protocol")
            self._headers = []
            return
        self._answer = HttpAnswer(self, status, self._headers)
        self._parser_keeps_alive = self._parser.should_keep_alive()
        fields = self._answer.fields
        self._until_close = b"content-length" not in fields and b"transfer-encoding" not in fields

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > _BUFFER_HIGH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._answer is not None:
            self.complete = True

    # ---- waking who waits ----

    def _wake(self) -> None:
        if self._head is not None and not self._head.done() and self._answer is not None:
            self._head.set_result(self._answer)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _fail(self, error: BrokenAnswer) -> None:
        self._error = self._error or error
        if self._head is not None and not self._head.done():
            self._head.set_exception(self._error)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()


class ConnectionPool:
    """The connections to one server."""

    def __init__(self, url: SplitResult, connect_seconds: float) -> None:
        self._host = url.hostname or ""
        self._secure = url.scheme == "https"
        self._port = url.port or (443 if self._secure else 80)
        self._connect_seconds = connect_seconds
        self._tls: ssl.SSLContext | None = None
        self._idle: list[UpstreamConnection] = []
        self._closed = False

    async def take(self) -> UpstreamConnection:
        """A connection that is ready: the one used last, or a new one."""
        oldest = time.monotonic() - _IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since > oldest and connection.usable:
                return connection
            connection.abort()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_seconds):
            _, made = await loop.create_connection(
                lambda: UpstreamConnection(self),
                self._host,
                self._port,
                ssl=self._context() if self._secure else None,
                server_hostname=self._host if self._secure else None,
            )
        return made

    def give_back(self, connection: UpstreamConnection) -> None:
        if self._closed or len(self._idle) >= _IDLE_MOST:
            connection.abort()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)

    def drop_idle(self) -> None:
        """What was kept may be as dead as the one that just failed."""
        for connection in self._idle:
            with contextlib.suppress(RuntimeError):
                connection.abort()
        self._idle.clear()

    def close(self) -> None:
        self._closed = True
        self.drop_idle()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


Headers = Iterable[tuple[bytes, bytes]]

_USUAL: Final = b"application/json"
# RFC 8259 §8.1, WHATWG HTML §9.2.5: JSON and event streams are UTF-8. Some readers follow a charset all the same.
_PLAIN: Final = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})


class HttpClient:
    """How long to wait (`patience`) is for the caller to see to; connecting and sizes are bounded here."""

    def __init__(self, server: ServerSection, max_bytes: int) -> None:
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
        self._pool = ConnectionPool(url, server.connect_seconds)

    def close(self) -> None:
        self._pool.close()

    async def open(self, method: bytes, body: bytes | None, headers: Headers) -> HttpAnswer:
        """Send a request and wait for the head of the answer."""
        answer = None
        while answer is None:
            answer = await self._send(method, body, headers)
        if answer.status >= 300:
            _check_status(answer)
        if answer.fields.get(b"content-encoding", b"identity").lower() != b"identity":
            answer.close()
            raise UpstreamError(Reason.UPSTREAM_ENCODING)
        # Nearly every answer has no header twice: then this is the only type, and it has no parameters.
        if answer.fields.get(b"content-type") != _USUAL or len(answer.fields) != len(answer.headers):
            why = _unclear_type(answer) if answer.status < 300 else ""
            if why:
                answer.close()
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, why)
        return answer

    async def _send(self, method: bytes, body: bytes | None, headers: Headers) -> HttpAnswer | None:
        """The head of the answer; None where the request may be sent once more."""
        try:
            connection = await self._pool.take()
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, "connecting to the server took too long") from None
        except ssl.SSLError as error:
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, f"no secure connection: {error.reason}") from None
        except OSError as error:
            text = error.strerror or str(error)
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, f"cannot connect to the server: {text}") from None
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
        return None

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

    async def read(self, answer: HttpAnswer) -> bytes:
        """The whole of an answer that is not a stream."""
        if answer.connection.complete:
            body = answer.connection.take()
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

    async def events(self, answer: HttpAnswer) -> AsyncIterator[Event]:
        """The events of a stream as they come; raises where it breaks off."""
        cutter = EventCutter(self._max)
        try:
            async for chunk in answer.chunks():
                for event in cutter.feed(chunk):
                    yield event
        except BrokenAnswer:
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None


def _check_status(answer: HttpAnswer) -> None:
    if answer.status < 400 and answer.status != 304:
        answer.close()
        raise UpstreamError(Reason.UPSTREAM_REDIRECT)
    if answer.status > 599:
        # RFC 9110 §15: outside 100 to 599 there is no status.
        answer.close()
        raise UpstreamError(Reason.UPSTREAM_GARBAGE)


def _unclear_type(answer: HttpAnswer) -> str:
    """Why a client could read an answer otherwise than we do: in another alphabet, or as another kind of thing."""
    types = [value for name, value in answer.headers if name.lower() == b"content-type"]
    if len(types) > 1 or (types and b"," in types[0]):
        return "the server gave its answer two content types"
    for parameter in types[0].lower().split(b";")[1:] if types else ():
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"charset" and value.strip().strip(b"\"'") not in _PLAIN:
            return "the server's answer is not in UTF-8"
    return ""
