"""What happened by the hour, counted once: a page that counted the log anew each time would be slow where it is long.

What is in the tree does not change any more, so its counts are kept; only the few records after it are counted at each
look. The first look goes back a week, in steps, in the background: until it is through, pages say how far it came.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from callgate.audit.storage import Counted, Filter
from callgate.console.logbook import in_log
from callgate.errors import StoreError
from callgate.store import Store
from callgate.store.approval import AskedInHour, asked_by_hour
from callgate.store.audit import AuditTables

HOUR_MS: Final = 3_600_000
HOURS: Final = 24 * 7
# Records counted in one query: some 50 ms of a reading thread.
_CHUNK: Final = 20_000
# How long what was counted is believed, and how long a page waits for it the first time.
_FRESH_MS: Final = 3_000
_PATIENCE: Final = 0.1

T = TypeVar("T")
Key = tuple[int, str, str, str]


class Counts(msgspec.Struct, frozen=True):
    """Calls and requests since `since`, the start of an hour; `complete` unless older ones are still being counted."""

    calls: Sequence[Counted]
    asked: Sequence[AskedInHour]
    hour: int
    complete: bool = True

    def within(self, hours: int) -> Counts:
        """The last so many hours of it, this one included."""
        first = self.hour - hours + 1
        calls = [one for one in self.calls if one.hour >= first]
        return Counts(calls, [one for one in self.asked if one.hour >= first], self.hour, self.complete)

    def total(self, verdict: str) -> int:
        return sum(one.calls for one in self.calls if one.verdict == verdict)

    def reasons(self) -> list[tuple[str, int]]:
        """Why calls were refused, the most frequent first."""
        found: Counter[str] = Counter()
        for one in self.calls:
            if one.verdict == "refuse":
                found[one.reason] += one.calls
        return found.most_common()

    def of_server(self, name: str) -> tuple[int, int]:
        """Calls that were let through to it, and refused."""
        own = [one for one in self.calls if one.server == name]
        return sum(one.calls for one in own if one.verdict == "allow"), sum(
            one.calls for one in own if one.verdict != "allow"
        )


class Tally:
    """One for each store."""

    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._kept: Counter[Key] = Counter()
        # What was counted for good: low <= id < high.
        self._low = self._high = -1
        self._floor = 0
        self._back: asyncio.Task[None] | None = None
        self._last: tuple[int, Counts] | None = None
        self._counting = asyncio.Lock()

    async def counts(self) -> Counts:
        """As of a few seconds ago at most."""
        async with self._counting:
            now = self._now()
            if self._last is None or not 0 <= now - self._last[0] < _FRESH_MS or not self._last[1].complete:
                self._last = now, await self._count(now)
            return self._last[1]

    async def _count(self, now: int) -> Counts:
        hour = now // HOUR_MS
        since = (hour - HOURS + 1) * HOUR_MS
        tail = await self._forward(since)
        await self._backward()
        self._forget(hour - HOURS + 1)
        every = Counter(self._kept)
        every.update(tail)
        asked = await self._store.read(lambda conn: asked_by_hour(conn, since))
        calls = [Counted(*key, count) for key, count in sorted(every.items()) if key[0] > hour - HOURS]
        return Counts(calls, asked, hour, self._low <= self._floor)

    async def _forward(self, since: int) -> Counter[Key]:
        """Count what came since the last look; what is not settled yet is only handed back."""

        def look(tables: AuditTables) -> tuple[int, int, int]:
            head, newest = tables.head(), tables.newest()
            settled = min(newest, 0 if head is None else head.record)
            # A log that is not put into its tree has a long tail: its older part is not going to change either.
            return max(settled, newest - _CHUNK) + 1, newest + 1, tables.bounds(Filter(since=since))[0]

        settled, end, self._floor = await self._tables(look)
        if self._high < 0:
            self._low = self._high = settled
        while self._high < settled:
            upto = min(settled, self._high + _CHUNK)
            self._kept.update(await self._hours(self._high, upto))
            self._high = upto
        return await self._hours(self._high, end)

    async def _backward(self) -> None:
        if self._low > self._floor and self._back is None:
            self._back = asyncio.create_task(self._go_back(), name="callgate-console-tally")
        if self._back is not None:
            await asyncio.wait({self._back}, timeout=_PATIENCE)
            if self._back.done():
                self._back = None

    async def _go_back(self) -> None:
        # A store that fails is told by whatever else the page reads; the next look goes on from here.
        with contextlib.suppress(StoreError):
            while self._low > self._floor:
                low = max(self._floor, self._low - _CHUNK)
                self._kept.update(await self._hours(low, self._low))
                self._low = low

    async def _hours(self, first: int, end: int) -> Counter[Key]:
        return _counter(await self._tables(lambda tables: tables.hours(first, end))) if first < end else Counter()

    async def _tables(self, query: Callable[[AuditTables], T]) -> T:
        return await in_log(self._store, query)

    def _forget(self, first: int) -> None:
        for key in [key for key in self._kept if key[0] < first]:
            del self._kept[key]


# What a store was counted as stays true when the console is made anew for a changed configuration.
_TALLIES: Final[WeakKeyDictionary[Store, Tally]] = WeakKeyDictionary()


def tally_of(store: Store, now: Callable[[], int]) -> Tally:
    """The one tally of a store."""
    return _TALLIES.setdefault(store, Tally(store, now))


def _counter(found: Iterable[Counted]) -> Counter[Key]:
    made: Counter[Key] = Counter()
    for one in found:
        made[one.hour, one.server, one.verdict, one.reason] += one.calls
    return made
