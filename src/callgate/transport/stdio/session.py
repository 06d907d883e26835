"""`callgate wrap`: stdio in front of a server, so that a client which starts commands need not change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from callgate.errors import Reason, Refused, StoreError, place
from callgate.gate import Context
from callgate.jsonrpc import TOOLS_CALL, Batch, Message, MessageKind, Peek, RequestId, error_reply, peek
from callgate.pipeline.context import NOBODY_KNOWN, RequestContext, StreamContext, ToolDigests, greeting_client
from callgate.pipeline.dispatcher import (
    Admitted,
    Deliver,
    Dispatcher,
    InFlight,
    LocalResponse,
    Rejected,
    refuse_all,
    session_digest,
)
from callgate.pipeline.list_changed import notification, wanted_changes
from callgate.protocol import VERSION_META
from callgate.telemetry.spans import Tracer, span_of
from callgate.transport.lines import one_line
from callgate.transport.stdio.pipes import StdioFront


class MessageTurn:
    """One message's place in the order in which messages are handed on."""

    __slots__ = ("_ended", "_over", "_reached", "_told")

    def __init__(self) -> None:
        # Everything before it has been handed on.
        self._reached = False
        # It is decided, or stands aside: what is behind it may go on.
        self._over = False
        # Made where somebody waits, which few messages have.
        self._told: asyncio.Event | None = None
        self._ended: asyncio.Event | None = None

    def reach(self) -> None:
        self._reached = True
        if self._told is not None:
            self._told.set()

    async def wait_reached(self) -> None:
        if not self._reached:
            self._told = self._told or asyncio.Event()
            await self._told.wait()

    def end(self, _task: object = None) -> None:
        self._over = True
        if self._ended is not None:
            self._ended.set()

    async def wait_over(self) -> None:
        if not self._over:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()


class StdioChannel:
    """The line of one message of the client."""

    # stdout is always there.
    can_say = True
    stopping = False

    def __init__(
        self,
        turn: MessageTurn,
        ask: Callable[[Message], Awaitable[bytes]],
        write: Callable[[bytes], Awaitable[None]],
        ended: asyncio.Event,
    ) -> None:
        self._turn = turn
        self._ask = ask
        self._write = write
        self._ended = ended
        self.waited = 0.0
        self.caller: str | None = None
        self.held: object = None
        self.judged: dict[str, ToolDigests] = {}

    async def turn(self) -> None:
        await self._turn.wait_reached()

    async def ask(self, message: Message) -> bytes:
        return await self._ask(message)

    async def say(self, message: bytes) -> None:
        await self._write(message)

    async def breathe(self) -> None:
        """A pipe has no comments."""

    async def gone(self) -> None:
        await self._ended.wait()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        self._turn.end()
        yield


log = logging.getLogger("callgate.wrap")

Queued: TypeAlias = tuple[MessageTurn | None, asyncio.Task[Admitted | None]]

_AHEAD: Final = 1000
_CANCEL_GRACE: Final = 5.0


class WrappedServer(Protocol):
    """The server as `wrap` sees it."""

    async def start(self, deliver: Deliver) -> None: ...

    async def send(self, entry: Admitted) -> None: ...

    async def send_eof(self) -> None: ...

    async def finish(self) -> int: ...


class StdioSession:
    """One client on stdio, one server behind it."""

    def __init__(
        self,
        server: str,
        dispatcher: Dispatcher,
        behind: WrappedServer,
        front: StdioFront,
        spans: Tracer,
        *,
        hear: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self._server = server
        self._hear = hear
        self._spans = spans
        self._behind = behind
        self._front = front
        self._session = session_digest(secrets.token_hex(16))
        self._protocol: str | None = None
        self._client = NOBODY_KNOWN
        self._calls: dict[RequestId, InFlight] = {}
        self._entries: dict[RequestId, Admitted] = {}
        # Requests of our own, and calls that stand aside.
        self._asked: dict[RequestId, asyncio.Future[bytes]] = {}
        self._aside: set[asyncio.Task[None]] = set()
        self._client_left = asyncio.Event()
        # What the client sent, in its order, until it is handed on; whether there is some, and whether there is room.
        self._queue: deque[Queued | None] = deque()
        self._queued, self._taken = asyncio.Event(), asyncio.Event()
        self._under_way: set[RequestId] = set()
        self._alone = Context(server, "stdio", self._session)
        self._hearing = contextlib.ExitStack()
        self._running = False
        self.use(dispatcher)
        # The subscription of the modern era that changes are told under; None in the handshake era.
        self._subscriptions: dict[str, RequestId] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._upward: asyncio.Task[None] | None = None

    def use(self, dispatcher: Dispatcher) -> None:
        """Messages are decided on by this dispatcher from now on: at the start, and when the configuration changes."""
        self._dispatcher, stages = dispatcher, dispatcher.stages
        self._unasked = None if stages is None else stages.unasked(self._alone)
        if self._running:
            self._be_heard()

    def _be_heard(self) -> None:
        self._hearing.close()
        if self._dispatcher.stages is not None:
            self._hearing.enter_context(self._dispatcher.stages.heard_by(self._alone, self._tell))

    async def client_left(self) -> None:
        """Wait until the client has closed its end."""
        await self._client_left.wait()

    def abandon(self) -> None:
        """Nobody holds the server any more: it gets nothing from here on."""
        self._front.abandoned = True
        if self._upward is not None:
            self._upward.cancel()

    async def run(self) -> int:
        """Relay until either side is done; the exit status is the server's."""
        await self._front.open()
        try:
            await self._behind.start(self._deliver)
            self._upward = asyncio.create_task(self._relay_up())
            self._running = True
            self._be_heard()
            return await self._behind.finish()
        finally:
            self._hearing.close()
            waiting = [*self._aside, *([self._upward] if self._upward is not None else [])]
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for question in self._asked.values():
                question.cancel()
            for flight in list(self._calls.values()):
                flight.finish("lost")
            await self._front.close()

    def _tell(self, message: bytes) -> None:
        """The tools or prompts are others now: told where the client has begun to listen, as its era has it."""
        seen = peek(message)
        changed = "" if seen is None or seen.method is None else seen.method
        if self._protocol is None and changed not in self._subscriptions:
            return
        told = notification(self._subscriptions.get(changed), changed)
        task = asyncio.get_running_loop().create_task(self._front.write(told))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _relay_up(self) -> None:
        create_task = asyncio.get_running_loop().create_task
        sender = create_task(self._send_in_order())
        try:
            async for line in self._front.lines():
                if isinstance(line, bytes) and not line.strip():
                    continue
                turn = None if self._dispatcher.stages is None else MessageTurn()
                self._queue.append((turn, create_task(self._admit(line, turn))))
                self._queued.set()
                while len(self._queue) >= _AHEAD:
                    self._taken.clear()
                    await self._taken.wait()
            self._client_left.set()
            self._queue.append(None)
            self._queued.set()
            await sender
        finally:
            sender.cancel()

    async def _next(self) -> Queued | None:
        while not self._queue:
            self._queued.clear()
            await self._queued.wait()
        self._taken.set()
        return self._queue.popleft()

    async def _send_in_order(self) -> None:
        while (item := await self._next()) is not None:
            turn, task = item
            if turn is not None:
                turn.reach()
                if not task.done():
                    task.add_done_callback(turn.end)
                    await turn.wait_over()
            if turn is None or task.done():
                await self._send(await task)
            else:
                later = asyncio.create_task(self._send_later(task))
                self._aside.add(later)
                later.add_done_callback(self._aside.discard)
        # A client that has closed its end takes nothing back any more: what waits for a person ends, then the server.
        while self._aside:
            await asyncio.wait(self._aside)
        await self._behind.send_eof()

    async def _send_later(self, task: asyncio.Task[Admitted | None]) -> None:
        try:
            await self._send(await task)
        finally:
            task.cancel()

    async def _send(self, entry: Admitted | None) -> None:
        if entry is None or not (self._dispatcher.objection(entry) is None or await self._may_leave(entry)):
            return
        for flight in entry.calls:
            self._calls[flight.rpc_id] = flight
        messages = entry.message.messages if isinstance(entry.message, Batch) else (entry.message,)
        if entry.amend is not None or entry.after is not None:
            for one in messages:
                if one.kind is MessageKind.REQUEST and one.id is not None:
                    self._entries[one.id] = entry
        await self._behind.send(entry)
        for message in messages:
            if message.method == TOOLS_CALL:
                continue
            if message.id is not None and (wanted := wanted_changes(message)):
                self._subscriptions |= dict.fromkeys(wanted, message.id)
            if message.method == "notifications/cancelled" and isinstance(message.params, dict):
                self._expect_no_more_of(message.params.get("requestId"))

    async def _ask(self, message: Message) -> bytes:
        """The server's reply to a request of our own; the client never sees it."""
        assert message.id is not None
        question: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[message.id] = question
        try:
            await self._behind.send(Admitted(message))
            return await question
        finally:
            del self._asked[message.id]

    async def _may_leave(self, entry: Admitted) -> bool:
        try:
            await self._dispatcher.pre_dispatch_check(entry)
        except Rejected as rejected:
            self._under_way.difference_update(flight.rpc_id for flight in entry.calls)
            await self._rejected(rejected)
            return False
        return True

    def _expect_no_more_of(self, rpc_id: object) -> None:
        """A cancelled call need not be answered: without a reply it counts as cancelled after a while."""
        flight = self._calls.get(rpc_id) if isinstance(rpc_id, (int, str)) else None
        if flight is not None:
            asyncio.get_running_loop().call_later(_CANCEL_GRACE, self._give_up, flight)

    def _give_up(self, flight: InFlight) -> None:
        flight.finish("cancelled")
        if self._calls.get(flight.rpc_id) is flight:
            del self._calls[flight.rpc_id]
            self._under_way.discard(flight.rpc_id)

    async def _admit(self, line: bytes | Refused, turn: MessageTurn | None) -> Admitted | None:
        """What may go on of a client's line; everything else is answered here. Never raises."""
        calls: tuple[RequestId, ...] = ()
        asked: Message | Batch | None = None
        try:
            if isinstance(line, Refused):
                raise Rejected(line, error_reply(None, line))
            message = self._dispatcher.read(line)
            context = self._context(message, turn)
            asks = isinstance(message, Message) and message.kind is MessageKind.REQUEST
            if not asks and turn is not None and await self._takes(message, context, turn):
                return None
            called = _call_ids(message)
            if not self._under_way.isdisjoint(called):
                refused = Refused(Reason.INVALID_REQUEST, "a call with this id is under way")
                raise Rejected(refused, error_reply(message.id if isinstance(message, Message) else None, refused))
            self._under_way.update(called)
            calls, asked = called, message
            if self._spans.enabled:
                return await self._traced(message, context)
            return await self._dispatcher.admit(message, context)
        except Exception as error:  # noqa: BLE001 - fail closed: one message that breaks us must not stop the others
            self._under_way.difference_update(calls)
            await self._answer(asked, error)
            return None

    async def _traced(self, message: Message | Batch, context: Context) -> Admitted:
        """The same with a span around it."""
        with span_of(self._spans, message, context, {}) as span:
            try:
                entry = await self._dispatcher.admit(message, context)
            except LocalResponse:
                span.allowed()
                raise
            except Exception as error:
                span.refused(error.refused.reason if isinstance(error, Rejected) else _failure(error).reason)
                raise
            span.allowed()
            return entry

    async def _answer(self, asked: Message | Batch | None, error: Exception) -> None:
        """Answer what goes no further; `asked` is the message where it was to be decided on."""
        if isinstance(error, Rejected | LocalResponse):
            reply = error.reply
        else:
            log.error("request failed", extra={"fields": {"error": place(error)}})
            # The client waits for an answer.
            reply = error_reply(None, _INTERNAL) if asked is None else refuse_all(asked, _failure(error))
        if reply is not None:
            await self._front.write(reply)

    async def _takes(self, message: Message | Batch, context: Context, turn: MessageTurn) -> bool:
        if isinstance(message, Message) and message.kind is MessageKind.NOTIFICATION:
            # What it cancels has to be where it can be found.
            await turn.wait_reached()
        return await self._dispatcher.takes(message, context)

    async def _rejected(self, rejected: Rejected) -> None:
        if rejected.reply is not None:
            await self._front.write(rejected.reply)

    async def _deliver(self, lines: Sequence[bytes]) -> None:
        """Messages of the server, on their way to the client, in their order. Replies to calls that follow each other
        are looked at side by side; whatever else comes waits for those before it."""
        replies: list[tuple[bytes, Peek | None]] = []
        for line in lines:
            if b"\r" in line:
                # To some readers of lines a CR ends one: what stands between two must not be a message of its own.
                line = one_line(line.rstrip(b"\r"))[:-1] + b"\r" * line.endswith(b"\r")
            seen = peek(line)
            if seen is not None and seen.id in self._calls and seen.is_reply:
                replies.append((line, seen))
                continue
            await self._pass_on(replies)
            await self._pass_on([(line, seen)])
            replies = []
        await self._pass_on(replies)

    async def _pass_on(self, lines: Sequence[tuple[bytes, Peek | None]]) -> None:
        if len(lines) == 1:
            given = [await self._passed(*lines[0])]
        else:
            create_task = asyncio.get_running_loop().create_task
            looking = [create_task(self._passed(line, seen)) for line, seen in lines]
            try:
                given = [await one for one in looking]
            finally:
                for one in looking:
                    one.cancel()
        passed = [line for line in given if line is not None]
        if self._hear is not None:
            for line in passed:
                self._hear(self._server, line)
        if passed:
            await self._front.write(*passed)

    async def _passed(self, line: bytes, seen: Peek | None) -> bytes | None:
        """What the client gets of a message; None where it was an answer to us."""
        if seen is not None and seen.id is not None and seen.is_reply:
            rpc_id = seen.id
            if rpc_id in self._asked:
                question = self._asked[rpc_id]
                if not question.done():
                    question.set_result(line)
                return None
            flight = self._calls.get(rpc_id)
            if flight is not None and flight.replied(line, seen):
                del self._calls[rpc_id]
                self._under_way.discard(rpc_id)
            entry = self._entries.pop(rpc_id, None)
            if entry is not None:
                return await entry.passing(line)
        elif seen is None:
            # An array: each entry finds its own in it.
            for entry in {id(entry): entry for entry in self._entries.values()}.values():
                line = await entry.passing(line)
        return line if self._unasked is None else await self._unasked(line)

    def _context(self, message: Message | Batch, turn: MessageTurn | None) -> Context:
        protocol = self._protocol
        meta: Mapping[str, Any] = {}
        if isinstance(message, Message):
            meta = message.meta
            if message.method == "initialize" and isinstance(message.params, dict):
                self._protocol = protocol = _text(message.params.get("protocolVersion"))
                self._client = greeting_client(message)
            if meta:
                protocol = _text(meta.get(VERSION_META)) or protocol
        if turn is None:
            return StreamContext(self._server, "stdio", self._session, protocol, greeted=self._client, meta=meta)
        return RequestContext(
            self._server,
            "stdio",
            self._session,
            protocol,
            line=StdioChannel(turn, self._ask, self._front.write, self._client_left),
            greeted=self._client,
            meta=meta,
            alone=isinstance(message, Message),
        )


_INTERNAL: Final = Refused(Reason.INTERNAL_ERROR)


def _failure(error: Exception) -> Refused:
    """What the client is told of something that nobody thought of."""
    return Refused(Reason.STORE_UNAVAILABLE) if isinstance(error, StoreError) else _INTERNAL


def _call_ids(message: Message | Batch) -> tuple[RequestId, ...]:
    if isinstance(message, Message):
        return (message.id,) if message.method == TOOLS_CALL and message.id is not None else ()
    return tuple([m.id for m in message.messages if m.method == TOOLS_CALL and m.id is not None])


def _text(value: object) -> str | None:
    return value[:40] if isinstance(value, str) else None
