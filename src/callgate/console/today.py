"""Which rules decided today and who called, counted over the newest calls: bounded, and believed for some seconds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from callgate.audit.storage import Filter
from callgate.console.logbook import in_log
from callgate.store import Store
from callgate.store.audit import AuditTables

# Calls read for one page: some 30 ms of a reading thread.
MOST: Final = 3_000
_DAY_MS: Final = 86_400_000
_FRESH_MS: Final = 3_000


class _Caller(msgspec.Struct):
    agent: str = ""


class _Trust(msgspec.Struct):
    rule: str = ""


class _Extra(msgspec.Struct):
    trust: _Trust | None = None


class _Call(msgspec.Struct):
    """The few fields of a decision that are counted; the rest of its record is not read."""

    at: int
    verdict: str
    caller: _Caller | None = None
    extra: _Extra | None = None


class Seen(msgspec.Struct):
    """An agent's calls."""

    last: int
    calls: int = 0
    refused: int = 0


class Day(msgspec.Struct, frozen=True):
    """Calls since midnight in UTC; `complete` unless there were more than are counted."""

    calls: int
    rules: Mapping[str, int]
    agents: Mapping[str, Seen]
    complete: bool = True


class Today:
    """One for each page that counts."""

    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._last: tuple[int, Day] | None = None
        self._counting = asyncio.Lock()

    async def day(self) -> Day:
        async with self._counting:
            now = self._now()
            if self._last is None or not 0 <= now - self._last[0] < _FRESH_MS:
                self._last = now, await in_log(self._store, lambda tables: _count(tables, now - now % _DAY_MS))
            return self._last[1]


def _count(tables: AuditTables, since: int) -> Day:
    wanted = Filter(since=since)
    rows = tables.between(wanted, *tables.bounds(wanted), limit=MOST + 1)
    rules: Counter[str] = Counter()
    agents: dict[str, Seen] = {}
    for _, body in rows[:MOST]:
        try:
            call = msgspec.json.decode(body, type=_Call)
        except msgspec.MsgspecError:
            continue  # the log's own page says what is wrong with it
        if call.extra is not None and call.extra.trust is not None:
            rules[call.extra.trust.rule] += 1
        if call.caller is not None and call.caller.agent:
            seen = agents.setdefault(call.caller.agent, Seen(call.at))
            seen.calls += 1
            seen.refused += call.verdict != "allow"
    return Day(min(len(rows), MOST), rules, agents, complete=len(rows) <= MOST)
