"""One HTTP request and its answer, straight on ASGI: the hot path has no framework between socket and gate."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from callgate.errors import Reason, Refused
from callgate.gate import Caller
from callgate.jsonrpc import RequestId, error_reply
from callgate.transport.lines import one_line
from callgate.transport.sse import encode_event
from callgate.transport.timeouts import Deadline, Watch

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON: Final = (b"content-type", b"application/json")
EVENT_STREAM: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))
# Two values of one of these would let the gate and a server each believe another one.
_SINGLE: Final = (b"host", b"origin", b"content-type", b"content-length", b"content-encoding", b"mcp-session-id")


class ClientGone(Exception):
    """The client closed the connection before its request was whole."""


class Exchange:
    """A request to read and an answer to write; `fields` has the headers by name."""

    __slots__ = (
        "_receive",
        "_send",
        "answering",
        "barred",
        "caller",
        "fields",
        "greeted",
        "headers",
        "hearing",
        "held",
        "identity",
        "method",
        "parked",
        "path",
        "peer",
        "query",
        "raw_path",
        "scheme",
        "server",
        "spent",
        "started",
        "status",
        "streaming",
        "trace",
        "unasked",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        # As they came, for whoever has to know what was signed.
        self.raw_path: bytes = scope.get("raw_path") or b""
        self.query: bytes = scope.get("query_string", b"")
        self.scheme: str = scope.get("scheme", "http")
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.fields: dict[bytes, bytes] = dict(self.headers)
        client = scope.get("client")
        self.peer: str | None = client[0] if client else None
        # The address and port of ours that it came to, where that is known.
        self.server: tuple[str, int | None] | None = scope.get("server")
        self.started = self.streaming = False
        # The stream was opened before the server was asked: what it answers becomes an event on it.
        self.parked = False
        # Told the session that the answer opens, before the client can use it.
        self.greeted: Callable[[str], None] | None = None
        # Around a stream that can take messages of the gateway's own, given how to send them there.
        self.hearing: Callable[[Callable[[bytes], None]], AbstractContextManager[None]] | None = None
        # What to do with messages on a stream that answer nothing.
        self.unasked: Callable[[bytes], Awaitable[bytes]] | None = None
        self.status = 0
        # How many bytes of the gateway's room for bodies it takes.
        self.held = 0
        self.trace: dict[bytes, bytes] = {}
        # Who sent it, once that is verified; and what is held against their calls all the same.
        self.caller: Caller | None = None
        self.barred: Refused | None = None
        # Headers that were for the gateway alone, those that tell the server who calls, and those of the answer.
        self.spent: frozenset[bytes] = frozenset()
        self.identity: tuple[tuple[bytes, bytes], ...] = ()
        self.answering: tuple[tuple[bytes, bytes], ...] = ()
        self._receive = receive
        self._send = send

    @property
    def owner(self) -> str:
        """Whose a session is that this request opens: a verified agent's is nobody else's. Empty for the unnamed."""
        return "" if self.caller is None else self.caller.id

    @property
    def repeats(self) -> bool:
        """Whether some header appears more than once."""
        return len(self.fields) != len(self.headers)

    def refuse_repeated(self) -> None:
        """Raise where a header that has to be single is not."""
        if self.repeats:
            names = [name for name, _ in self.headers]
            for name in _SINGLE:
                if names.count(name) > 1:
                    raise Refused(Reason.INVALID_REQUEST, f"the header {name.decode()} appears more than once")

    async def body(self, limit: int, seconds: float) -> bytes:
        """The whole body; refused as soon as it is known to be too large or too slow."""
        length = self.fields.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > limit):
            raise Refused(Reason.MESSAGE_TOO_LARGE, f"the body is announced larger than {limit} bytes")
        with Deadline(seconds, Reason.BODY_TIMEOUT):
            event = await self._receive()
            if not event.get("more_body"):
                return self._chunk(event)
            parts = [self._chunk(event)]
            size = len(parts[0])
            while event.get("more_body"):
                event = await self._receive()
                parts.append(self._chunk(event))
                size += len(parts[-1])
                if size > limit:
                    raise Refused(Reason.MESSAGE_TOO_LARGE, f"the body is larger than {limit} bytes")
        return b"".join(parts)

    @staticmethod
    def _chunk(event: AsgiMessage) -> bytes:
        if event["type"] == "http.disconnect":
            raise ClientGone
        body: bytes = event.get("body", b"")
        return body

    async def respond(self, status: int, body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """A whole answer at once; on a parked stream, its last event."""
        if self.parked:
            await self.end(encode_event(one_line(body)[:-1]) if body.strip() else b"")
            return
        head = [] if headers is None else headers
        self._greet(head)
        head += self.answering
        if body or status not in (202, 204, 304):
            head.append((b"content-length", b"%d" % len(body)))
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, refused: Refused, rpc_id: RequestId | None = None, reply: bytes | None = None) -> None:
        """The answer that a refusal becomes."""
        headers = [JSON]
        if refused.status == Reason.METHOD_NOT_ALLOWED.status:
            headers.append((b"allow", b"POST, GET, DELETE"))
        if refused.status in (Reason.OVERLOADED.status, Reason.BODY_TIMEOUT.status):
            headers.append((b"retry-after", b"1"))
        await self.respond(refused.status, error_reply(rpc_id, refused) if reply is None else reply, headers)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin an answer that is streamed, or go on with one that was parked."""
        if self.parked:
            self.parked = False
            return
        self._greet(headers)
        headers += self.answering
        self.started = self.streaming = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def _greet(self, headers: list[tuple[bytes, bytes]]) -> None:
        if self.greeted is not None:
            for name, value in headers:
                if name == b"mcp-session-id":
                    self.greeted(value.decode("latin-1"))

    async def park(self) -> None:
        """Open the stream before there is an answer: what follows may take long."""
        if not self.started:
            await self.start(200, list(EVENT_STREAM))
            self.parked = True

    async def silence(self) -> None:
        """End without an answer: the client took its request back, and wants none (2025-11-25, cancellation)."""
        await self.park()
        await self.end()

    @property
    def takes_events(self) -> bool:
        """Whether the client takes a stream for an answer."""
        accept = self.fields.get(b"accept", b"").lower()
        return b"text/event-stream" in accept or b"*/*" in accept

    async def write(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        self.streaming = self.parked = False
        await self._send({"type": "http.response.body", "body": chunk})

    def watch(self, patience: float | None = None, *, at_once: bool = False) -> Watch:
        """Cancel the running task when the client goes away or the patience is at its end; see Watch."""
        return Watch(self.client_gone, patience, at_once=at_once)

    async def client_gone(self) -> None:
        """Wait until the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Streams:
    """Answers that would never end by themselves: they end as soon as whoever listens is asked to stop."""

    def __init__(self) -> None:
        self.stopping = False
        self._tasks: set[asyncio.Task[object]] = set()

    def stop(self) -> None:
        self.stopping = True
        for task in self._tasks:
            task.cancel()

    async def follow(self, work: Awaitable[None]) -> None:
        """Do this until then: from then on it is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await work
        except asyncio.CancelledError:
            if self.stopping:
                task.uncancel()
            raise
        finally:
            self._tasks.discard(task)

    async def show(self, app: Asgi, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """A page of an application. An answer that has begun ends there, and is whole: a page follows what happens."""

        async def noticing(message: AsgiMessage) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                exchange.started = exchange.streaming = True
                exchange.status = message["status"]
            elif not message.get("more_body", False):
                exchange.streaming = False

        try:
            if not self.stopping:
                await self.follow(app(scope, receive, noticing))
        except asyncio.CancelledError:
            if not self.stopping:
                raise
        if self.stopping and not exchange.started:
            raise Refused(Reason.SHUTTING_DOWN)
        if self.stopping and exchange.streaming:
            await exchange.end()


def onto(exchange: Exchange) -> Callable[[bytes], None]:
    """Writes onto a stream that is open; where none is, the client will ask for the list anyway."""
    writing: set[asyncio.Task[None]] = set()

    def push(message: bytes) -> None:
        if not exchange.streaming:
            return
        task = asyncio.get_running_loop().create_task(_write(exchange, message))
        writing.add(task)
        task.add_done_callback(writing.discard)

    return push


async def _write(exchange: Exchange, message: bytes) -> None:
    with contextlib.suppress(Exception):  # a client that has left needs no news
        if exchange.streaming:
            await exchange.write(encode_event(message))
