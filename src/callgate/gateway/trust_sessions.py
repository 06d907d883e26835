"""Agent sessions at hand: what the store has of them, in memory, and never older than the store."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from callgate.gateway.trust_keys import SessionName
from callgate.trust.keeping import restored
from callgate.trust.model import Session
from callgate.trust.provenance import Memory
from callgate.trust.storage import NewStep, TrustShelf

_AT_HAND: Final = 2000
_KEPT: Final = 1000


class Live:
    """One session: its labels and what it remembers."""

    __slots__ = ("memory", "seen", "session", "turn")

    def __init__(self, session: Session, memory: Memory, seen: float) -> None:
        self.session = session
        self.memory = memory
        # When it was used last, on the clock of this process.
        self.seen = seen
        self.turn = asyncio.Lock()


class Sessions:
    """One for each gateway process."""

    def __init__(
        self,
        shelf: TrustShelf,
        make_memory: Callable[[], Memory],
        *,
        idle_ms: Callable[[], int],
        most: int = _AT_HAND,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._make_memory = make_memory
        self._idle_ms = idle_ms
        self._most = most
        self._clock = clock
        self._live: OrderedDict[str, Live] = OrderedDict()

    def at_once(self, name: SessionName) -> Live | None:
        """A session that is known to be as the store has it; None where one has to look."""
        live = self._live.get(name.key)
        if live is None or self._shelf.peek(name.key) != live.session.version or self._over(name, live):
            return None
        live.seen = self._clock()
        return live

    async def get(self, name: SessionName) -> Live:
        """The session as the store has it now, made where there is none."""
        live = self._live.get(name.key)
        if live is None or self._over(name, live):
            return await self._open(name)
        async with live.turn:
            if await self._shelf.version(name.key) != live.session.version:
                await self._catch_up(name, live)
        live.seen = self._clock()
        self._live.move_to_end(name.key)
        return live

    async def add(self, live: Live, make: Callable[[Live], NewStep], *, keep: int, expires_at: int) -> None:
        """A step, durable when this returns; what others added meanwhile is read after it.

        `make` remembers what the step leaves in memory, while nobody else reads it anew.
        """
        async with live.turn:
            before = live.session
            try:
                new = make(live)
                after = await self._shelf.add(new, keep=keep, expires_at=expires_at)
            except BaseException:
                # Memory may know of something by now that the store does not.
                self._live.pop(before.key, None)
                raise
            if _began_anew(before, after):
                # Between the look at it and the step.
                await self._restore(live)
            elif after.version == before.version + 1:
                live.session = after
                live.memory.seq = after.steps
                live.memory.endorse(new.endorsed)
            else:
                await self._load(live, after)

    def _over(self, name: SessionName, live: Live) -> bool:
        idle = self._idle_ms()
        return name.idles and idle > 0 and (self._clock() - live.seen) * 1000 > idle

    async def _open(self, name: SessionName) -> Live:
        now = self._clock()
        session = await self._shelf.open(name.key, name.agent, round(now * 1000), self._idle_ms() if name.idles else 0)
        live = Live(session, self._make_memory(), now)
        await self._load(live, session, anew=True)
        # Whoever was faster has the one that others hold already.
        kept = self._live.get(name.key)
        if kept is not None and kept.session.version >= session.version and not self._over(name, kept):
            return kept
        self._live[name.key] = live
        while len(self._live) > self._most:
            self._live.popitem(last=False)
        return live

    async def _catch_up(self, name: SessionName, live: Live) -> None:
        session = await self._shelf.session(name.key)
        # One that ends by being idle may have ended elsewhere; any other is in use, so it has not ended.
        if session is None or (not name.idles and _began_anew(live.session, session)):
            await self._restore(live)
        else:
            await self._load(live, session)

    async def _restore(self, live: Live) -> None:
        """The store has parted with a session that is in use: what it was stays, and what it read is unknown now."""
        now = round(self._clock() * 1000)
        await self._shelf.open(live.session.key, live.session.agent, now, 0)
        session = await self._shelf.add(restored(live.session, now), keep=_KEPT, expires_at=now)
        await self._load(live, session, anew=True)

    async def _load(self, live: Live, session: Session, *, anew: bool = False) -> None:
        """What others added; from the beginning where something else has changed: what an operator took away, or a
        session that began anew, must be gone here too."""
        before = live.session
        only_more = not anew and (
            before.opened_at == session.opened_at and session.version - before.version == session.steps - before.steps
        )
        memory = live.memory if only_more else self._make_memory()
        memory.seq = before.steps if only_more else 0
        for step in await self._shelf.steps(session.key, before.steps if only_more else 0):
            memory.take(step)
        memory.endorse(await self._shelf.endorsed(session.key))
        live.session = session
        live.memory = memory


def _began_anew(before: Session, after: Session) -> bool:
    return after.opened_at != before.opened_at or after.version <= before.version
