"""The log for readers: calls as decision and outcome together, filtered; the command line and the console share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from callgate.audit.records import DecisionRecord, OutcomeRecord, Record, decode
from callgate.audit.storage import Filter, Tables
from callgate.errors import AuditError


class CallEntry(msgspec.Struct, frozen=True):
    """One call: what was decided, and what became of it."""

    record: int
    decision: DecisionRecord
    outcome: OutcomeRecord | None = None


def entries(tables: Tables, wanted: Filter, limit: int) -> list[CallEntry]:
    """The newest calls that match, oldest first."""
    found = [(number, _decode(number, body)) for number, body in tables.decisions(wanted, limit)]
    return with_outcomes(tables, [(n, record) for n, record in found[::-1] if isinstance(record, DecisionRecord)])


def with_outcomes(tables: Tables, decisions: Sequence[tuple[int, DecisionRecord]]) -> list[CallEntry]:
    """Decisions, each with what became of it."""
    ended: dict[str, OutcomeRecord] = {}
    for number, body in tables.outcomes([record.call for _, record in decisions]):
        record = _decode(number, body)
        if isinstance(record, OutcomeRecord):
            ended.setdefault(record.call, record)
    return [CallEntry(number, record, ended.get(record.call)) for number, record in decisions]


def entry(tables: Tables, call: str) -> CallEntry:
    """One call by its id, or by the beginning of it if that is enough."""
    matches = entries(tables, Filter(call=call), 1)
    if not matches and len(call) >= 4:
        ids = tables.beginning(call)
        if len(ids) > 1:
            raise AuditError(f"several calls begin with {call}", advice=f"Write more of it, for example {ids[0]}.")
        matches = entries(tables, Filter(call=ids[0]), 1) if ids else []
    if not matches:
        raise AuditError(f"no call {call} is on record", advice="`callgate audit list` shows the calls.")
    return matches[0]


def lost(tables: Tables, outcomes: Sequence[str], first: int, limit: int) -> list[CallEntry]:
    """The newest calls from this record on that ended like one of these, the newest first."""
    ended = [_decode(number, body) for number, body in tables.failures(outcomes, first, limit)]
    outcome = {one.call: one for one in ended if isinstance(one, OutcomeRecord)}
    found = [(number, _decode(number, body)) for number, body in tables.decided(list(outcome))]
    return [CallEntry(number, one, outcome[one.call]) for number, one in found[::-1] if isinstance(one, DecisionRecord)]


def _decode(number: int, body: bytes) -> Record:
    try:
        return decode(body)
    except (msgspec.MsgspecError, TypeError) as error:
        raise AuditError(f"record {number} cannot be read: {error}", advice="Run `callgate audit verify`.") from None


PAGE: Final = 50
# Ids looked at in one step; fewer where each record has to be read.
_STEP: Final = 10_000
_STEP_WITHIN: Final = 2_000
_AGENT: Final = ("agent", "agent name", "client", "id", "principal", "on behalf of")
# So much of a session's key stands for it.
_KEY_CHARS: Final = 8


class Search(msgspec.Struct, frozen=True):
    """What to look for; beside the filter, what only the records themselves can tell."""

    filter: Filter = Filter()
    agent: str | None = None
    session: str | None = None
    person: str | None = None
    approved: bool = False

    @property
    def within(self) -> bool:
        """Whether records have to be read to know."""
        return bool(self.agent or self.session or self.person or self.approved)


class SearchPage(msgspec.Struct, frozen=True):
    """A page, the newest first. `newer` and `older` lead on; None where nothing is."""

    entries: Sequence[CallEntry]
    newer: int | None = None
    older: int | None = None
    # The time that the search came to before it had looked long enough; None where it looked at all there is.
    reached: int | None = None


def search(
    tables: Tables,
    wanted: Search,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = PAGE,
    tired: Callable[[], bool] = lambda: False,
) -> SearchPage:
    """The newest calls that match, those `before` a record's number, or the next ones `after` it.

    `tired` is asked after every step whether it was enough.
    """
    one = _Searching(tables, wanted, limit, tired)
    first, end = tables.bounds(wanted.filter)
    if after is not None:
        found = one.newer(max(first, after + 1), end)
        if found is not None:
            return found
        # Not a page full is newer: then the newest page is what they want.
        before = None
    return one.older(first, end, before)


class _Searching:
    """One search in one view of the log."""

    def __init__(self, tables: Tables, wanted: Search, limit: int, tired: Callable[[], bool]) -> None:
        self._tables = tables
        self._wanted = wanted
        self._limit = limit
        self._tired = tired
        self._step = _STEP_WITHIN if wanted.within else _STEP

    def older(self, first: int, end: int, before: int | None) -> SearchPage:
        at = end if before is None else min(end, before)
        hits: list[tuple[int, DecisionRecord]] = []
        while at > first and len(hits) <= self._limit:
            low = max(first, at - self._step)
            hits += self._matches(low, at, len(hits), oldest=False)
            at = low
            if self._tired():
                break
        shown, more = hits[: self._limit], len(hits) > self._limit
        older = shown[-1][0] if more else at if at > first else None
        reached = self._tables.time_near(at) if not more and older is not None else None
        newer = None if before is None else shown[0][0] if shown else before - 1
        return SearchPage(with_outcomes(self._tables, shown), newer, older, reached)

    def newer(self, first: int, end: int) -> SearchPage | None:
        """A page full of what comes next; None where there is less."""
        at = first
        hits: list[tuple[int, DecisionRecord]] = []
        while at < end and len(hits) <= self._limit:
            high = min(end, at + self._step)
            hits += self._matches(at, high, len(hits), oldest=True)
            at = high
            if self._tired():
                break
        if len(hits) > self._limit:
            shown = hits[: self._limit]
            return SearchPage(with_outcomes(self._tables, shown[::-1]), shown[-1][0], shown[0][0])
        if at >= end:
            return None
        # Looked long enough: what was found so far, and on from there.
        reached = self._tables.time_near(at)
        return SearchPage(with_outcomes(self._tables, hits[::-1]), at - 1, hits[0][0] if hits else first, reached)

    def _matches(self, low: int, high: int, have: int, *, oldest: bool) -> Iterator[tuple[int, DecisionRecord]]:
        most = self._step if self._wanted.within else self._limit + 1 - have
        return _matches(self._tables.between(self._wanted.filter, low, high, limit=most, oldest=oldest), self._wanted)


def _matches(rows: Sequence[tuple[int, bytes]], wanted: Search) -> Iterator[tuple[int, DecisionRecord]]:
    # What is not in a record's text is not in the record; only what may be there is worth reading.
    words = [msgspec.json.encode(word)[1:-1] for word in (wanted.agent, wanted.session, wanted.person) if word]
    if wanted.approved:
        words.append(b'"approval":')
    for number, body in rows:
        if any(word not in body for word in words):
            continue
        try:
            record = decode(body)
        except (msgspec.MsgspecError, TypeError) as error:
            raise AuditError(
                f"record {number} cannot be read: {error}", advice="Run `callgate audit verify`."
            ) from None
        if isinstance(record, DecisionRecord) and (not wanted.within or _fits(record, wanted)):
            yield number, record


def _fits(record: DecisionRecord, wanted: Search) -> bool:
    trust, approval = part(record, "trust"), part(record, "approval")
    if wanted.session and not any(_same_session(wanted.session, one) for one in (record.session, trust.get("session"))):
        return False
    if wanted.agent and not _names(wanted.agent, record.caller or {}, trust.get("agent")):
        return False
    if wanted.person and wanted.person != approval.get("user"):
        return False
    # A passkey's signature, a device's, or those of several people.
    signed = any(name in approval for name in ("assertion", "signature", "signatures"))
    return not wanted.approved or (record.verdict == "allow" and signed)


def part(record: DecisionRecord, name: str) -> Mapping[str, Any]:
    """What one check has put on record beside its verdict; empty where it has not."""
    found = (record.extra or {}).get(name)
    return found if isinstance(found, Mapping) else {}


def _same_session(wanted: str, found: object) -> bool:
    return isinstance(found, str) and (found == wanted or (len(wanted) >= _KEY_CHARS and found.startswith(wanted)))


def _names(wanted: str, *said: object) -> bool:
    """Whether one of the names that a caller goes by has this in it."""
    words = (one.get(name) for one in said if isinstance(one, Mapping) for name in _AGENT)
    return any(isinstance(word, str) and wanted in word for word in words)
