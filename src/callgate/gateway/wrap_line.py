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

    def __init__(self) -> None:
        # Everything before it has been handed on.
        self._reached = asyncio.Event()
        # It is decided, or stands aside: what is behind it may go on.
        self._over = asyncio.Event()

    def reach(self) -> None:
        self._reached.set()

    async def wait_reached(self) -> None:
        await self._reached.wait()

    def end(self, _task: object = None) -> None:
        self._over.set()

    async def wait_over(self) -> None:
        await self._over.wait()


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
