"""The log for readers: calls as decision and outcome together, filtered; the command line and the console share it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from callgate.audit import records
from callgate.audit.records import DecisionRecord, OutcomeRecord, Record
from callgate.audit.storage import CallTables, Filter
from callgate.errors import AuditError

__all__ = ["Entry", "Filter", "entries", "entry", "lost", "with_outcomes"]


class Entry(msgspec.Struct, frozen=True):
    """One call: what was decided, and what became of it."""

    record: int
    decision: DecisionRecord
    outcome: OutcomeRecord | None = None


def entries(tables: CallTables, wanted: Filter, limit: int) -> list[Entry]:
    """The newest calls that match, oldest first."""
    found = [(number, _decode(number, body)) for number, body in tables.decisions(wanted, limit)]
    return with_outcomes(tables, [(n, record) for n, record in found[::-1] if isinstance(record, DecisionRecord)])


def with_outcomes(tables: CallTables, decisions: Sequence[tuple[int, DecisionRecord]]) -> list[Entry]:
    """Decisions, each with what became of it."""
    ended: dict[str, OutcomeRecord] = {}
    for number, body in tables.outcomes([record.call for _, record in decisions]):
        record = _decode(number, body)
        if isinstance(record, OutcomeRecord):
            ended.setdefault(record.call, record)
    return [Entry(number, record, ended.get(record.call)) for number, record in decisions]


def entry(tables: CallTables, call: str) -> Entry:
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


def lost(tables: CallTables, outcomes: Sequence[str], first: int, limit: int) -> list[Entry]:
    """The newest calls from this record on that ended like one of these, the newest first."""
    ended = [_decode(number, body) for number, body in tables.failures(outcomes, first, limit)]
    outcome = {one.call: one for one in ended if isinstance(one, OutcomeRecord)}
    found = [(number, _decode(number, body)) for number, body in tables.decided(list(outcome))]
    return [Entry(number, one, outcome[one.call]) for number, one in found[::-1] if isinstance(one, DecisionRecord)]


def _decode(number: int, body: bytes) -> Record:
    try:
        return records.decode(body)
    except (msgspec.MsgspecError, TypeError) as error:
        raise AuditError(f"record {number} cannot be read: {error}", advice="Run `callgate audit verify`.") from None
