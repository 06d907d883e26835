"""`callgate wrap`: stdio in front of a server, so that a client which starts commands need not change.

Messages are read as they come, decided side by side, and handed on in the order in which they came: a thousand
requests at once share their commits, and a cancellation never overtakes what it cancels.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from callgate.errors import Reason, Refused, place
from callgate.gate import Context
from callgate.gateway.door import Door, Entry, InFlight, Turned, session_digest
from callgate.gateway.routing import VERSION_META
from callgate.gateway.stdio_front import StdioFront
from callgate.gateway.tracing import span_of
from callgate.jsonrpc import TOOLS_CALL, Batch, Message, RequestId, error_reply, peek
from callgate.telemetry.spans import Tracer

log = logging.getLogger("callgate.wrap")

_AHEAD: Final = 1000
_CANCEL_GRACE: Final = 5.0


class Behind(Protocol):
    """The server as `wrap` sees it."""

    async def start(self, deliver: Callable[[bytes], Awaitable[None]]) -> None: ...

    async def send(self, entry: Entry) -> None: ...

    async def send_eof(self) -> None: ...

    async def finish(self) -> int: ...


class Wrap:
    """One client on stdio, one server behind it."""

    def __init__(self, server: str, door: Door, behind: Behind, front: StdioFront, spans: Tracer) -> None:
        self._server = server
        self._spans = spans
        self._door = door
        self._behind = behind
        self._front = front
        self._session = session_digest(secrets.token_hex(16))
        self._protocol: str | None = None
        self._calls: dict[RequestId, InFlight] = {}
        self._under_way: set[RequestId] = set()

    async def run(self) -> int:
        """Relay until either side is done; the exit status is the server's."""
        await self._front.open()
        upward: asyncio.Task[None] | None = None
        try:
            await self._behind.start(self._deliver)
            upward = asyncio.create_task(self._relay_up())
            return await self._behind.finish()
        finally:
            if upward is not None:
                upward.cancel()
                await asyncio.gather(upward, return_exceptions=True)
            for flight in list(self._calls.values()):
                flight.finish("lost")
            await self._front.close()

    async def _relay_up(self) -> None:
        queue: asyncio.Queue[asyncio.Task[Entry | None] | None] = asyncio.Queue(_AHEAD)
        sender = asyncio.create_task(self._send_in_order(queue))
        try:
            async for line in self._front.lines():
                if isinstance(line, bytes) and not line.strip():
                    continue
                await queue.put(asyncio.create_task(self._admit(line)))
            await queue.put(None)
            await sender
        finally:
            sender.cancel()

    async def _send_in_order(self, queue: asyncio.Queue[asyncio.Task[Entry | None] | None]) -> None:
        while (task := await queue.get()) is not None:
            entry = await task
            if entry is not None and await self._may_leave(entry):
                for flight in entry.calls:
                    self._calls[flight.rpc_id] = flight
                await self._behind.send(entry)
                for message in entry.messages:
                    if message.method == "notifications/cancelled" and isinstance(message.params, dict):
                        self._expect_no_more_of(message.params.get("requestId"))
        await self._behind.send_eof()

    async def _may_leave(self, entry: Entry) -> bool:
        try:
            self._door.last_look(entry)
        except Turned as turned:
            self._under_way.difference_update(flight.rpc_id for flight in entry.calls)
            await self._turned(turned)
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

    async def _admit(self, line: bytes | Refused) -> Entry | None:
        """What may go on of a client's line; everything else is answered here. Never raises."""
        try:
            return await self._judge(line)
        except Exception as error:  # noqa: BLE001 - fail closed: one message that breaks us must not stop the others
            log.error("request failed", extra={"fields": {"error": place(error)}})
            await self._front.write(error_reply(None, Refused(Reason.INTERNAL_ERROR)))
            return None

    async def _judge(self, line: bytes | Refused) -> Entry | None:
        if isinstance(line, Refused):
            await self._front.write(error_reply(None, line))
            return None
        try:
            message = self._door.read(line)
        except Turned as turned:
            await self._turned(turned)
            return None
        context = self._context(message)
        calls = _call_ids(message)
        if calls & self._under_way:
            refused = Refused(Reason.INVALID_REQUEST, "a call with this id is under way")
            await self._front.write(error_reply(message.id if isinstance(message, Message) else None, refused))
            return None
        self._under_way |= calls
        with span_of(self._spans, message, context, {}) as span:
            try:
                entry = await self._door.admit(message, context)
            except Turned as turned:
                self._under_way -= calls
                span.refused(turned.refused.reason)
                await self._turned(turned)
                return None
            span.allowed()
            return entry

    async def _turned(self, turned: Turned) -> None:
        if turned.reply is not None:
            await self._front.write(turned.reply)

    async def _deliver(self, line: bytes) -> None:
        """A message of the server, on its way to the client."""
        if self._calls:
            seen = peek(line)
            if seen is not None and seen.is_reply and seen.id in self._calls and self._calls[seen.id].replied(line):
                del self._calls[seen.id]
                self._under_way.discard(seen.id)
        await self._front.write(line)

    def _context(self, message: Message | Batch) -> Context:
        protocol = self._protocol
        if isinstance(message, Message):
            if message.method == "initialize" and isinstance(message.params, dict):
                self._protocol = protocol = _text(message.params.get("protocolVersion"))
            protocol = _text(message.meta.get(VERSION_META)) or protocol
        return Context(self._server, "stdio", self._session, protocol)


def _call_ids(message: Message | Batch) -> set[RequestId]:
    messages = message.messages if isinstance(message, Batch) else (message,)
    return {m.id for m in messages if m.method == TOOLS_CALL and m.id is not None}


def _text(value: object) -> str | None:
    return value[:40] if isinstance(value, str) else None
