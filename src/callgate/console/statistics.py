"""What happened, counted for the pages: by the hour, today, by rule and by agent; and the charts of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from callgate.audit.storage import Counted, Filter
from callgate.errors import StoreError
from callgate.store import Store
from callgate.store.approval import AskedInHour, asked_by_hour
from callgate.store.audit import AuditTables

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

# How long one page may search; the gateway's own work waits for no page.
SEARCH_SECONDS: Final = 0.1
HOUR_MS: Final = 3_600_000
HOURS: Final = 24 * 7
# Records counted in one query: some 50 ms of a reading thread.
_CHUNK: Final = 20_000
# How long what was counted is believed, and how long a page waits for it the first time.
_FRESH_MS: Final = 3_000
_PATIENCE: Final = 0.1
Key = tuple[int, str, str, str]
# What a store was counted as stays true when the console is made anew for a changed configuration.
_TALLIES: Final[WeakKeyDictionary[Store, HourlyCounts]] = WeakKeyDictionary()
# Calls read for one page: some 30 ms of a reading thread.
MOST_CALLS: Final = 3_000
_DAY_MS: Final = 86_400_000
WIDTH: Final = 240
HEIGHT: Final = 56
_GAP: Final = 1.5
# What there is any of can be seen.
_LEAST: Final = 2.0


async def in_log(store: Store, query: Callable[[AuditTables], T]) -> T:
    """What a query finds in one view of the log; text in it is not believed to be text."""

    def read(conn: Connection) -> T:
        with store.backend.doubting(conn):
            return query(AuditTables(conn, store.backend))

    return await store.read(read)


def out_of_time(seconds: float = SEARCH_SECONDS) -> Callable[[], bool]:
    """Says when that much time is over, from now on."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


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


class Recent(Generic[T]):
    """What was looked up, believed for some seconds: many pages show it, and it is work."""

    def __init__(self, look: Callable[[int], Awaitable[T]], now: Callable[[], int], fresh_ms: int = _FRESH_MS) -> None:
        self._look = look
        self._now = now
        self._fresh_ms = fresh_ms
        self._last: tuple[int, T] | None = None
        self._turn = asyncio.Lock()

    async def get(self) -> T:
        async with self._turn:
            now = self._now()
            if self._last is None or not 0 <= now - self._last[0] < self._fresh_ms:
                self._last = now, await self._look(now)
            return self._last[1]

    def forget(self) -> None:
        self._last = None


class HourlyCounts:
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

        settled, end, self._floor = await in_log(self._store, look)
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
        made: Counter[Key] = Counter()
        found = await in_log(self._store, lambda tables: tables.hours(first, end)) if first < end else ()
        for one in found:
            made[one.hour, one.server, one.verdict, one.reason] += one.calls
        return made

    def _forget(self, first: int) -> None:
        for key in [key for key in self._kept if key[0] < first]:
            del self._kept[key]


def hourly_counts(store: Store, now: Callable[[], int]) -> HourlyCounts:
    """The one tally of a store."""
    return _TALLIES.setdefault(store, HourlyCounts(store, now))


class _Call(msgspec.Struct):
    """The few fields of a decision that are counted; the rest of its record is not read."""

    at: int
    verdict: str
    caller: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None


class AgentCalls(msgspec.Struct, frozen=True):
    """An agent's calls."""

    last: int
    calls: int = 0
    refused: int = 0


class DayCounts(msgspec.Struct, frozen=True):
    """Calls since midnight in UTC; `complete` unless there were more than are counted."""

    calls: int
    rules: Mapping[str, int]
    agents: Mapping[str, AgentCalls]
    complete: bool = True


def daily_counts(store: Store, now: Callable[[], int]) -> Recent[DayCounts]:
    """Which rules decided today and who called, counted over the newest calls."""
    return Recent(lambda at: in_log(store, lambda tables: _count(tables, at - at % _DAY_MS)), now)


def _count(tables: AuditTables, since: int) -> DayCounts:
    wanted = Filter(since=since)
    rows = tables.between(wanted, *tables.bounds(wanted), limit=MOST_CALLS + 1)
    rules: Counter[str] = Counter()
    agents: dict[str, AgentCalls] = {}
    for _, body in rows[:MOST_CALLS]:
        try:
            call = msgspec.json.decode(body, type=_Call)
        except msgspec.MsgspecError:
            continue  # the log's own page says what is wrong with it
        if isinstance(trust := (call.extra or {}).get("trust"), dict):
            rules[str(trust.get("rule", ""))] += 1
        if agent := (call.caller or {}).get("agent"):
            seen = agents.get(str(agent), AgentCalls(call.at))
            agents[str(agent)] = AgentCalls(seen.last, seen.calls + 1, seen.refused + (call.verdict != "allow"))
    return DayCounts(min(len(rows), MOST_CALLS), rules, agents, complete=len(rows) <= MOST_CALLS)


class ChartRow(NamedTuple):
    """One line of the table beside the charts."""

    at: int
    allowed: int
    refused: int
    asked: int
    approved: int


def chart(values: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Bars for pairs of a time and a number, as high as they are of the highest; with their sum and the highest."""
    most = max((value for _, value in values), default=0)
    step = WIDTH / max(1, len(values))
    bars = []
    for number, (at, value) in enumerate(values):
        height = max(_LEAST, value / most * HEIGHT) if value else 0.0
        x, y, width = _short(number * step), _short(HEIGHT - height), _short(step - _GAP)
        bars.append({"x": x, "y": y, "width": width, "height": _short(height), "at": at, "value": value})
    return {"bars": bars, "total": sum(value for _, value in values), "most": most, "width": WIDTH, "height": HEIGHT}


def rows(counts: Counts, hours: int, each: int) -> list[ChartRow]:
    """What happened in each `each` hours of the last `hours`, the oldest first."""
    first = counts.hour - hours + 1
    made = []
    allowed = _by_hour((one.hour, one.calls) for one in counts.calls if one.verdict == "allow")
    refused = _by_hour((one.hour, one.calls) for one in counts.calls if one.verdict != "allow")
    asked = _by_hour((one.hour, one.requests) for one in counts.asked)
    approved = _by_hour((one.hour, one.requests) for one in counts.asked if one.state in ("approved", "used"))
    for start in range(first, counts.hour + 1, each):
        span = range(start, start + each)
        sums = [sum(one[hour] for hour in span) for one in (allowed, refused, asked, approved)]
        made.append(ChartRow(start * HOUR_MS, *sums))
    return made


def shares(found: Iterable[tuple[str, int]], most: int) -> list[dict[str, Any]]:
    """The most frequent ones, and the rest in one: how often each, and how wide its bar is, of a hundred."""
    every = list(found)
    shown = every[:most]
    if rest := sum(count for _, count in every[most:]):
        shown.append(("others", rest))
    highest = max((count for _, count in shown), default=1)
    return [{"name": name, "count": count, "width": _short(max(1.0, count / highest * 100))} for name, count in shown]


def _by_hour(pairs: Iterable[tuple[int, int]]) -> Counter[int]:
    made: Counter[int] = Counter()
    for hour, count in pairs:
        made[hour] += count
    return made


def _short(value: float) -> float:
    return round(value, 2)
