"""A server reached over Streamable HTTP: a pool of connections to it, and what passes over them in both directions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

from callgate.config import ServerSection
from callgate.errors import Reason, Refused, UpstreamError
from callgate.jsonrpc import Batch, Message, MessageKind, Peek, RequestId, error_reply, parts, peek, with_id
from callgate.pipeline.dispatcher import Admitted, AsyncTransform, InFlight, refuse_all
from callgate.transport.http.exchange import Deadline, Exchange, RequestHeaderFilter, forward_down, onto
from callgate.transport.sse import Event, EventCutter, encode_event, passed_on, replace_data

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


_DETACHED_MAX: Final = 10_000
_OWNERS_MAX: Final = 5_000
_OWNED_MAX: Final = 2_000
# Told of every message on a server's stream that may be of its own accord, with the server's name.
Hear = Callable[[str, bytes], None]


class Detached:
    """Calls whose stream ended before the reply: a resumed stream of the same session may still bring it."""

    def __init__(self, most: int = _DETACHED_MAX) -> None:
        self._most = most
        self._calls: OrderedDict[tuple[str, RequestId], InFlight] = OrderedDict()
        self._entries: OrderedDict[tuple[str, RequestId | None], Admitted] = OrderedDict()

    def keep(self, session: str, flights: Iterable[InFlight]) -> None:
        for flight in flights:
            self._calls[(session, flight.rpc_id)] = flight
        while len(self._calls) > self._most:
            self._calls.popitem(last=False)[1].finish("lost")

    def of(self, session: str) -> tuple[InFlight, ...]:
        return tuple(flight for (owner, _), flight in self._calls.items() if owner == session)

    def keep_entry(self, session: str, ids: Iterable[RequestId | None], entry: Admitted) -> None:
        """What a reply that may still come was asked for by."""
        for rpc_id in ids:
            self._entries[(session, rpc_id)] = entry
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def entries(self, session: str) -> tuple[Admitted, ...]:
        """What the replies on a resumed stream of this session may answer."""
        return tuple({id(entry): entry for (owner, _), entry in self._entries.items() if owner == session}.values())

    def settle(self, session: str) -> None:
        for key in [k for k, flight in self._calls.items() if k[0] == session and flight.done]:
            del self._calls[key]

    def close(self) -> None:
        for flight in self._calls.values():
            flight.finish("lost")
        self._calls.clear()


class Owned:
    """Whose a session of the server's is: the verified agents' that it gave it to.

    Of each agent the longest unused are forgotten, so that none makes another's be forgotten by opening many.
    """

    def __init__(self, most: int = _OWNED_MAX, agents: int = _OWNERS_MAX) -> None:
        self._most = most
        self._agents = agents
        self._owners: dict[str, set[str]] = {}
        self._sessions: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def check(self, exchange: Exchange) -> None:
        """Refused for whoever names a session that others were given, as if there were none of that name."""
        owners = self._owners.get(exchange.session)
        if owners is None:
            return
        if exchange.owner not in owners:
            raise Refused(Reason.SESSION_UNKNOWN)
        self._sessions[exchange.owner].move_to_end(exchange.session)
        self._sessions.move_to_end(exchange.owner)

    def opened(self, exchange: Exchange, given: bytes) -> None:
        """A session that the answer names and the request did not begins here, and is the asking agent's.

        A server that gives one to several means it. One that repeats the id of each request gives nothing.
        """
        if not exchange.owner or exchange.session:
            return
        session = given.decode("latin-1")
        self._owners.setdefault(session, set()).add(exchange.owner)
        own = self._sessions.setdefault(exchange.owner, OrderedDict())
        own[session] = None
        own.move_to_end(session)
        self._sessions.move_to_end(exchange.owner)
        while len(own) > self._most:
            self._forget(exchange.owner, own.popitem(last=False)[0])
        while len(self._sessions) > self._agents:
            agent, theirs = self._sessions.popitem(last=False)
            for one in theirs:
                self._forget(agent, one)

    def _forget(self, owner: str, session: str) -> None:
        owners = self._owners[session]
        owners.discard(owner)
        if not owners:
            del self._owners[session]


class HttpUpstream:
    """Relays exchanges to one Streamable HTTP endpoint."""

    sees_headers = True
    # Sessions of an HTTP server are the server's own: their id passes through, and only whose they are is kept here.
    sessions = 0

    def __init__(self, name: str, server: ServerSection, max_bytes: int, hear: Hear | None = None) -> None:
        self.name = name
        self._hear = hear
        self.busy = 0
        self._client = HttpClient(server, max_bytes)
        self._upward = RequestHeaderFilter(self._client.own_headers, authorization=server.forward_authorization)
        self._detached = Detached()
        self._owned = Owned()

    async def close(self) -> None:
        self._detached.close()
        self._client.close()

    async def post(self, exchange: Exchange, entry: Admitted) -> None:
        """Forward a message and stream its answer back; the calls in it are finished here."""
        settled = False
        try:
            with Deadline(self._client.patience, Reason.UPSTREAM_TIMEOUT, exchange.client_gone) as watch:
                answer = await self._open(b"POST", exchange, entry.message.raw)
                try:
                    await self._answer(exchange, entry, answer, watch)
                finally:
                    answer.close()
                settled = True
        except Refused as error:
            for flight in entry.calls:
                flight.finish("lost", code=error.code)
            raise
        finally:
            if not settled:
                for flight in entry.calls:
                    flight.finish("cancelled")

    async def get(self, exchange: Exchange) -> None:
        """Forward a stream of the server's own messages, resumed where the client says."""
        session = exchange.session
        with Deadline(self._client.patience, Reason.UPSTREAM_TIMEOUT, exchange.client_gone, at_once=True) as watch:
            answer = await self._open(b"GET", exchange, None)
            try:
                if not answer.is_stream:
                    if answer.status < 300:
                        # Some clients take whatever answers a GET for a stream of events, whatever its type.
                        raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than a stream")
                    await self._plain(exchange, answer)
                    return
                watch.patient()
                await exchange.start(answer.status, forward_down(answer.headers))
                waiting = self._detached.of(session)
                passing = self._resumed(exchange, self._detached.entries(session))
                hearing = nullcontext() if exchange.hearing is None else exchange.hearing(onto(exchange))
                with hearing:
                    async for event in self._client.events(answer):
                        for flight in waiting:
                            if event.data is not None and flight.replied(event.data):
                                self._detached.settle(session)
                        await exchange.write(await self._passing(event, passing))
                await exchange.end()
            finally:
                answer.close()

    async def delete(self, exchange: Exchange) -> None:
        with Deadline(self._client.patience, Reason.UPSTREAM_TIMEOUT, exchange.client_gone):
            answer = await self._open(b"DELETE", exchange, None)
            try:
                await self._plain(exchange, answer)
            finally:
                answer.close()

    async def prepare(self, _exchange: Exchange, _message: Message | Batch) -> None:
        return

    async def ask(self, exchange: Exchange, message: Message) -> bytes:
        """The reply to a request of our own, under the headers of the client's session."""
        self._owned.check(exchange)
        answer = await self._client.open(b"POST", message.raw, self._upward.headers_for(exchange, message))
        try:
            if not answer.is_stream:
                body = await self._client.read(answer)
                if answer.status == 404 and peek(body) is None and exchange.session:
                    # 2025-11-25, sessions: the client has to learn that it needs a new one.
                    raise UpstreamError(Reason.SESSION_UNKNOWN)
                return body
            async for event in self._client.events(answer):
                seen = peek(event.data) if event.data is not None else None
                if event.data is not None and seen is not None and seen.is_reply and seen.id == message.id:
                    return event.data
                if event.data is not None and self._hear is not None:
                    self._hear(self.name, event.data)
            raise UpstreamError(Reason.UPSTREAM_CLOSED)
        finally:
            answer.close()

    def hold(self, _exchange: Exchange) -> AbstractContextManager[None]:
        return nullcontext()

    @staticmethod
    def _resumed(exchange: Exchange, entries: tuple[Admitted, ...]) -> AsyncTransform:
        """A stream of the server's own: replies to what was asked before it, and messages that answer nothing."""

        async def passing(raw: bytes, _seen: Peek | None = None, /) -> bytes:
            for entry in entries:
                raw = raw if entry.amend is None else entry.amend(raw)
            for entry in entries:
                raw = raw if entry.after is None else await entry.after(raw)
            return raw if exchange.unasked is None else await exchange.unasked(raw)

        return passing

    async def _passing(self, event: Event, passing: Callable[[bytes], Awaitable[bytes]]) -> bytes:
        """What the client gets of an event: its own bytes, unless something in it has to change."""
        if event.data is None:
            return passed_on(event)
        if self._hear is not None:
            self._hear(self.name, event.data)
        amended = await passing(event.data)
        return passed_on(event) if amended is event.data else replace_data(event, amended)

    async def _open(self, method: bytes, exchange: Exchange, body: bytes | None) -> HttpAnswer:
        self._owned.check(exchange)
        answer = await self._client.open(method, body, self._upward.headers(exchange))
        if (given := answer.fields.get(b"mcp-session-id")) is not None:
            self._owned.opened(exchange, given)
        return answer

    async def _answer(self, exchange: Exchange, entry: Admitted, answer: HttpAnswer, watch: Deadline) -> None:
        if answer.is_stream:
            watch.patient()
            await self._stream(exchange, entry, answer)
            return
        body = await self._client.read(answer)
        seen: Peek | None = None
        if answer.status >= 400:
            for flight in entry.calls:
                if not flight.replied(body):
                    flight.finish("refused_upstream", code=answer.status, reply=body)
        else:
            seen = self._settle(entry, body)
        # Whatever was asked, and whatever the status: what a client could take for a message is looked at.
        if body and entry.amend is not None and (amended := entry.amend(body)) is not body:
            body, seen = amended, None
        if body and entry.after is not None:
            body = await entry.after(body, seen)
        if exchange.parked:
            body = _as_reply(entry.message, answer.status, body)
        await exchange.respond(answer.status, body, forward_down(answer.headers))

    def _settle(self, entry: Admitted, body: bytes) -> Peek | None:
        """Match a JSON answer with what was asked; what does not fit is not passed on as an answer.

        Answers with the outline of one that answers one call.
        """
        asked = entry.message
        if isinstance(asked, Message):
            if asked.kind is not MessageKind.REQUEST:
                return None
            seen = peek(body)
            fits = entry.calls[0].replied(body, seen) if entry.calls else _fits(asked, seen)
            if not fits:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
            return seen
        if any(message.kind is MessageKind.REQUEST for message in asked.messages):
            replies = parts(body) or []
            for flight in entry.calls:
                if not any(flight.replied(reply) for reply in replies):
                    raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
            if not entry.calls and peek(replies[0] if replies else b"") is None:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
        return None

    async def _stream(self, exchange: Exchange, entry: Admitted, answer: HttpAnswer) -> None:
        waiting = {message.id: message for message in entry.messages if message.kind is MessageKind.REQUEST}
        flights = {flight.rpc_id: flight for flight in entry.calls}
        resumable = False
        failure: UpstreamError | None = None
        await exchange.start(answer.status, forward_down(answer.headers))
        try:
            async for event in self._client.events(answer):
                resumable = resumable or bool(event.id)
                if event.data is not None and waiting and (seen := peek(event.data)) is not None and seen.is_reply:
                    waiting.pop(seen.id, None)
                    flight = flights.get(seen.id) if seen.id is not None else None
                    if flight is not None:
                        flight.replied(event.data)
                await exchange.write(await self._passing(event, entry.passing))
        except UpstreamError as error:
            failure = error
        session = exchange.session
        failure = failure or UpstreamError(Reason.UPSTREAM_CLOSED)
        if waiting and resumable and session and failure.reason is Reason.UPSTREAM_CLOSED:
            # On purpose or not, the client polls on with Last-Event-ID (2025-11-25, Streamable HTTP).
            self._detached.keep(session, (flight for flight in entry.calls if not flight.done))
            self._detached.keep_entry(session, waiting, entry)
        elif waiting:
            await self._lost(exchange, waiting.values(), entry, failure)
        await exchange.end()

    async def _lost(
        self, exchange: Exchange, waiting: Iterable[Message], entry: Admitted, failure: UpstreamError
    ) -> None:
        for flight in entry.calls:
            flight.finish("lost", code=failure.code)
        for message in waiting:
            await exchange.write(encode_event(error_reply(message.id, failure)))

    async def _plain(self, exchange: Exchange, answer: HttpAnswer) -> None:
        body = await self._client.read(answer)
        if exchange.unasked is not None and body:
            body = await exchange.unasked(body)
        await exchange.respond(answer.status, body, forward_down(answer.headers))


def _as_reply(asked: Message | Batch, status: int, body: bytes) -> bytes:
    """An answer as an event on a stream that is open already: a status can no longer say what it means."""
    seen = peek(body)
    if isinstance(asked, Message) and seen is not None and seen.is_reply:
        if seen.id == asked.id:
            return body
        if seen.id is None and seen.outcome == "error" and asked.id is not None:
            return with_id(body, asked.id)
    failure = UpstreamError(Reason.UPSTREAM_GARBAGE, f"the server answered with HTTP status {status}")
    return refuse_all(asked, failure) or b""


def _fits(asked: Message, seen: Peek | None) -> bool:
    """Whether this can be the answer; a server that could not read the request answers an error without an id."""
    if seen is None or not seen.is_reply:
        return False
    return seen.id == asked.id or (seen.id is None and seen.outcome == "error")
