"""Calls as the audit log gets them: one line each, when they are refused or have ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from callgate.audit.records import ADMIN, COLUMNS, DecisionRecord, OutcomeRecord, Record, decode

if TYPE_CHECKING:
    from callgate.store import Store

_ROWS: Final = 2000
_OPEN_MOST: Final = 10_000
# A call that takes longer than this is told of before it ends, too.
_LONG_MS: Final = 3_000
# PostgreSQL hands out ids before they commit: a smaller one may appear this long after a larger one.
_LATE_MS: Final = 10_000
_NAMES: Final = ("agent", "name", "client", "peer")
_BODY: Final = 1 + COLUMNS.index("body")
_KIND: Final = 1 + COLUMNS.index("kind")


class CallSeen(msgspec.Struct, frozen=True, kw_only=True, tag="call", tag_field="event"):
    """A call that was refused, that ended, or that still runs after a while (and is told of again at its end)."""

    at: int
    state: Literal["refused", "done", "running"]
    call: str
    agent: str
    server: str
    tool: str
    verdict: str
    reason: str | None = None
    outcome: str | None = None
    ms: float | None = None
    # More than one where refusals of one caller are counted together.
    calls: int = 1


class Calls:
    """Reads on from the newest record; what cannot be read is passed over, `callgate audit verify` is for that."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._floor = 0
        # Records beyond the floor that were read, and since when a smaller one has been missing.
        self._read: set[int] = set()
        self._gap_since: int | None = None
        self._open: OrderedDict[str, tuple[DecisionRecord, bool]] = OrderedDict()

    def begin(self) -> None:
        with self._store.audit_reading() as tables:
            self._floor = tables.newest()

    def look(self, now: int) -> Iterator[CallSeen]:
        more = True
        while more:
            records, more = self._next(now)
            for record in records:
                seen = self._take(record)
                if seen is not None:
                    yield seen
        for call, (decision, told) in list(self._open.items()):
            if not told and now - decision.at > _LONG_MS:
                self._open[call] = decision, True
                yield _seen(decision, None, "running")

    def _next(self, now: int) -> tuple[list[Record], bool]:
        with self._store.audit_reading() as tables:
            rows = list(islice(tables.rows(self._floor), _ROWS))
            fresh = [row for row in rows if row[0] not in self._read]
            records = [record for row in fresh if (record := _record(row)) is not None]
            known = self._open.keys() | {one.call for one in records if isinstance(one, DecisionRecord)}
            # Of a call that began before we did.
            missing = {one.call for one in records if isinstance(one, OutcomeRecord)} - known
            before = [tables.of_call(call) for call in missing]
        for found in before:
            for _, _, body in found:
                earlier = _decoded(body)
                if isinstance(earlier, DecisionRecord):
                    self._open[earlier.call] = earlier, True
        self._advance([row[0] for row in rows], now)
        return records, len(rows) == _ROWS and bool(fresh)

    def _advance(self, ids: list[int], now: int) -> None:
        """The floor goes up over what was read without a gap; a gap that stays for long is none."""
        self._read.update(ids)
        while self._floor + 1 in self._read:
            self._floor += 1
            self._read.discard(self._floor)
            self._gap_since = None
        if not self._read:
            self._gap_since = None
        elif self._gap_since is None:
            self._gap_since = now
        elif now - self._gap_since > _LATE_MS:
            self._floor = min(self._read) - 1
            self._gap_since = None
            self._advance([], now)

    def _take(self, record: Record) -> CallSeen | None:
        if isinstance(record, DecisionRecord):
            if record.verdict == "refuse":
                return _seen(record, None, "refused")
            self._open[record.call] = record, False
            while len(self._open) > _OPEN_MOST:
                self._open.popitem(last=False)
        elif isinstance(record, OutcomeRecord) and record.call in self._open:
            return _seen(self._open.pop(record.call)[0], record, "done")
        return None


def _record(row: tuple[Any, ...]) -> Record | None:
    return None if row[_KIND] == ADMIN else _decoded(row[_BODY])


def _decoded(body: bytes) -> Record | None:
    try:
        return decode(body)
    except (msgspec.MsgspecError, TypeError):
        return None


def _seen(
    decision: DecisionRecord, outcome: OutcomeRecord | None, state: Literal["refused", "done", "running"]
) -> CallSeen:
    caller = decision.caller or {}
    return CallSeen(
        at=decision.at if outcome is None else outcome.at,
        state=state,
        call=decision.call,
        agent=next((str(caller[name]) for name in _NAMES if caller.get(name)), ""),
        server=decision.server,
        tool=decision.tool,
        verdict=decision.verdict,
        reason=decision.reason,
        outcome=None if outcome is None else outcome.outcome,
        ms=None if outcome is None else outcome.ms,
        calls=decision.calls,
    )
