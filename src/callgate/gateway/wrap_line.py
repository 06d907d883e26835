"""A call over stdio that is not decided yet: its turn among the client's messages, and the pipe to both sides."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

from callgate.gateway.known_lines import Line as ToolLine
from callgate.gateway.line import Entry
from callgate.jsonrpc import Message


class Turn:
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


class WrapLine:
    """The line of one message of the client."""

    # stdout is always there.
    can_say = True
    stopping = False

    def __init__(
        self,
        turn: Turn,
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
        self.held: ToolLine | None = None
        self.judged: dict[str, Entry] = {}

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
