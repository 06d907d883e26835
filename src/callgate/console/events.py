"""What changes while pages are open: looked up once for each person, told on every stream of theirs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from callgate.approval.display import escape
from callgate.approval.model import ConsoleSession
from callgate.approval.model import Request as Asked
from callgate.approval.overview import phase
from callgate.console.cards import key_of
from callgate.console.desk import Desk
from callgate.errors import Reason, Refused

# Streams of one person, and of all people: each holds a connection and is looked up for.
PER_PERSON: Final = 8
IN_ALL: Final = 256
# With a store that tells of changes the clock is for what runs out; without one it is all there is.
_TOLD_SECONDS: Final = 5.0
_UNTOLD_SECONDS: Final = 0.5
# A busy gateway writes all the time; nobody needs to hear of it more often than this.
_BREATH_SECONDS: Final = 0.2
_MOST: Final = 1000
_NEWEST: Final = 5
_NAME_CHARS: Final = 80


class Waiting(msgspec.Struct, frozen=True):
    """A call that waits, as a notification may show it on a locked screen: its arguments stay on its page."""

    id: str
    tool: str
    server: str


class Version(msgspec.Struct, frozen=True):
    """Another version of a server that waits for its one question, as a notification may show it."""

    id: str
    server: str
    tools: int


class News(msgspec.Struct, frozen=True):
    """How much waits for one person; `stamp` is another one whenever anything of it is."""

    approvals: int
    tools: int
    held: int
    switch: bool
    stamp: str
    newest: tuple[Waiting, ...]
    versions: tuple[Version, ...] = ()


class Newsroom:
    """Looks only while somebody listens. One for each console."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._listening: Counter[str] = Counter()
        self._edition = 0
        self._printed: dict[tuple[str, str], tuple[int, News]] = {}
        self._printing = asyncio.Lock()
        self._out = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @property
    def edition(self) -> int:
        """Counts on whenever something may have changed."""
        return self._edition

    def check_room(self, user: str) -> None:
        """Refused where this person, or all together, have as many streams as there may be."""
        if self._listening[user] >= PER_PERSON or self._listening.total() >= IN_ALL:
            raise Refused(
                Reason.APPROVAL_LIMIT,
                "Too many pages follow what happens here.",
                advice="Close some of them; this one asks now and then instead.",
                data={"retryAfter": 30},
            )

    @contextlib.contextmanager
    def heard_by(self, user: str) -> Iterator[None]:
        """Around a stream."""
        self._listening[user] += 1
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name="callgate-console-events")
        try:
            yield
        finally:
            self._listening[user] -= 1
            if not self._listening[user]:
                del self._listening[user]
            if not self._listening:
                self._following.cancel()
                self._following = None
                self._printed.clear()

    async def after(self, edition: int, seconds: float) -> None:
        """Wait for a newer edition, not longer than that."""
        if self._edition != edition:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._out.wait()

    async def news(self, session: ConsoleSession) -> News:
        """What waits for this person, as of the newest edition or later."""
        key = (session.user, session.role)
        async with self._printing:
            edition = self._edition
            known = self._printed.get(key)
            if known is not None and known[0] == edition and self._following is not None:
                return known[1]
            made = await self._print(session)
            if self._following is not None:
                self._printed[key] = edition, made
            return made

    async def _print(self, session: ConsoleSession) -> News:
        desk, now = self._desk, self._desk.now()
        found = await desk.approvals.shelf.requests(session.user, states=("waiting",), limit=_MOST)
        waiting = [one for one in found if phase(one, now) == "waiting"]
        waits = await desk.tools_wait(session)
        texts, versions = "", tuple[Version, ...]()
        if desk.tools is not None and desk.tools.may_decide(session):
            brief = await desk.tools.brief()
            texts = brief.stamp
            versions = tuple(
                Version(key_of(one.server_id), _name(one.server), one.tools) for one in brief.versions[:_NEWEST]
            )
        switch = await self._blocked()
        marks = [str(waits.held), texts, str(switch), *(one.id for one in waiting)]
        return News(
            approvals=len(waiting),
            tools=waits.total,
            held=waits.held,
            switch=switch,
            stamp=hashlib.sha256("\0".join(marks).encode()).hexdigest()[:16],
            newest=tuple(_brief(one) for one in waiting[:_NEWEST]),
            versions=versions,
        )

    async def _blocked(self) -> bool:
        rooms = self._desk.rooms
        if rooms is None:
            return False
        await rooms.switch.refresh()
        return rooms.switch.engaged

    async def _follow(self) -> None:
        poke = asyncio.Event()
        unwatch = self._watch(poke)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_UNTOLD_SECONDS if unwatch is None else _TOLD_SECONDS):
                        await poke.wait()
                poke.clear()
                self._edition += 1
                out, self._out = self._out, asyncio.Event()
                out.set()
                await asyncio.sleep(_BREATH_SECONDS)
        finally:
            if unwatch is not None:
                unwatch()

    def _watch(self, poke: asyncio.Event) -> Callable[[], None] | None:
        """What other processes and our own do to the store; None where it cannot tell."""
        if self._desk.rooms is None:
            return None
        loop = asyncio.get_running_loop()

        def changed() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(poke.set)

        return self._desk.rooms.store.watch(changed)


def _brief(request: Asked) -> Waiting:
    return Waiting(request.id, _name(request.tool), _name(request.server))


def _name(text: str) -> str:
    """A name from a server or its list, on one line, with what misleads the eye written out."""
    shown = escape(text[:_NAME_CHARS])
    return shown if len(text) <= _NAME_CHARS else f"{shown}…"
