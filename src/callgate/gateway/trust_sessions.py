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

    __slots__ = ("epoch", "flying", "known", "known_steps", "memory", "mine", "seen", "session", "turn")

    def __init__(self, session: Session, memory: Memory, seen: float) -> None:
        self.session = session
        self.memory = memory
        # When it was used last, on the clock of this process.
        self.seen = seen
        # For reading it anew, and for remembering: neither happens in the middle of the other.
        self.turn = asyncio.Lock()
        # Up to here memory has everything; versions of our own that came back ahead of others; steps under way.
        self.known = session.version
        self.known_steps = session.steps
        self.mine: set[int] = set()
        self.flying = 0
        # Moves on when memory is made anew.
        self.epoch = 0

    def has(self, version: int) -> bool:
        """Whether memory has what the store has at this version. What is under way from here is in memory already."""
        return self.known <= version <= self.known + self.flying + len(self.mine)

    def came_back(self, session: Session) -> None:
        """A step of our own is in the store."""
        if session.version > self.known:
            self.mine.add(session.version)
        while self.known + 1 in self.mine:
            self.known += 1
            self.known_steps += 1
            self.mine.discard(self.known)
        if session.version > self.session.version:
            self.session = session


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
        if live is None or self._over(name, live):
            return None
        version = self._shelf.peek(name.key)
        if version is None or not live.has(version):
            return None
        live.seen = self._clock()
        return live

    async def get(self, name: SessionName) -> Live:
        """The session as the store has it now, made where there is none."""
        live = self._live.get(name.key)
        if live is None or self._over(name, live):
            return await self._open(name)
        async with live.turn:
            if not live.has(await self._shelf.version(name.key)):
                await self._catch_up(name, live)
        live.seen = self._clock()
        self._live.move_to_end(name.key)
        return live

    async def add(self, live: Live, make: Callable[[Live], NewStep], *, keep: int, expires_at: int) -> None:
        """A step, durable when this returns; what others added meanwhile is read after it.

        `make` remembers what the step leaves in memory, while nobody else reads it anew.
        """
        key = live.session.key
        try:
            async with live.turn:
                new, epoch, floor = make(live), live.epoch, live.known
                live.flying += 1
            try:
                # Several at a time: steps that come together are written together.
                after = await self._shelf.add(new, keep=keep, expires_at=expires_at)
            finally:
                live.flying -= 1
        except BaseException:
            # Memory may know of something by now that the store does not.
            self._live.pop(key, None)
            raise
        if live.epoch == epoch and not _began_anew(live.session, after, floor):
            live.came_back(after)
            live.memory.seq = max(live.memory.seq, after.steps)
            live.memory.endorse(new.endorsed)
            if live.flying or live.known == live.session.version:
                return
        async with live.turn:
            if _began_anew(live.session, after, floor):
                # Between the look at it and the step.
                await self._restore(live)
            elif live.epoch != epoch or live.known != live.session.version:
                latest = after if after.version > live.session.version else live.session
                await self._load(live, latest, anew=live.epoch != epoch)

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
        only_more = not anew and (
            live.session.opened_at == session.opened_at
            and session.version - live.known == session.steps - live.known_steps
        )
        memory = live.memory if only_more else self._make_memory()
        after = live.known_steps if only_more else 0
        memory.seq = after
        for step in await self._shelf.steps(session.key, after):
            memory.take(step)
        memory.endorse(await self._shelf.endorsed(session.key))
        live.session, live.known, live.known_steps = session, session.version, session.steps
        live.mine.clear()
        if not only_more:
            live.memory = memory
            live.epoch += 1


def _began_anew(before: Session, after: Session, floor: int | None = None) -> bool:
    """Whether the store has another session under this key. A step of our own comes after all that was known when it
    was made (`floor`), if not always after those that left with it."""
    if after.opened_at != before.opened_at:
        return True
    return after.version < before.version if floor is None else after.version <= floor
