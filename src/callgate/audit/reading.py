"""The log for readers: calls as decision and outcome together, filtered; the command line and the console share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Select, func, select

from callgate.audit import records
from callgate.audit.records import DecisionRecord, OutcomeRecord, Record
from callgate.errors import AuditError
from callgate.store.front import Store, driver_of
from callgate.store.rows import DECISION, OUTCOME
from callgate.store.schema import audit_record

# Records are written in time order but for moments; a search by time starts this much earlier.
SLACK_MS: Final = 60_000
_IN: Final = 500


class Filter(msgspec.Struct, frozen=True):
    """Which calls to show; times in milliseconds."""

    server: str | None = None
    tool: str | None = None
    verdict: str | None = None
    reason: str | None = None
    call: str | None = None
    since: int | None = None
    until: int | None = None


class Entry(msgspec.Struct, frozen=True):
    """One call: what was decided, and what became of it."""

    record: int
    decision: DecisionRecord
    outcome: OutcomeRecord | None = None


def entries(conn: Connection, wanted: Filter, limit: int) -> list[Entry]:
    """The newest calls that match, oldest first."""
    query = _where(conn, select(audit_record.c.id, audit_record.c.body), wanted)
    query = query.where(audit_record.c.kind == DECISION).order_by(audit_record.c.id.desc()).limit(limit)
    found = [(row.id, _decode(row.id, row.body)) for row in conn.execute(query)]
    decisions = [(number, record) for number, record in found[::-1] if isinstance(record, DecisionRecord)]
    outcomes = _outcomes(conn, [record.call for _, record in decisions])
    return [Entry(number, record, outcomes.get(record.call)) for number, record in decisions]


def entry(conn: Connection, call: str) -> Entry:
    """One call by its id, or by the beginning of it if that is enough."""
    matches = entries(conn, Filter(call=call), 1)
    if not matches:
        ids = _beginning(conn, call)
        if len(ids) > 1:
            raise AuditError(f"several calls begin with {call}", advice=f"Write more of it, for example {ids[0]}.")
        matches = entries(conn, Filter(call=ids[0]), 1) if ids else []
    if not matches:
        raise AuditError(f"no call {call} is on record", advice="`callgate audit list` shows the calls.")
    return matches[0]


def _beginning(conn: Connection, call: str) -> list[str]:
    if len(call) < 4:
        return []
    column = audit_record.c.call
    query = select(column).where(column >= call, column < call + "\U0010ffff", audit_record.c.kind == DECISION)
    return list(conn.execute(query.distinct().limit(2)).scalars())


def export(store: Store, conn: Connection, wanted: Filter) -> Iterator[tuple[int, bytes]]:
    """Every record that matches, in order, as its id and exact body."""
    clauses, values = ["id >= ?"], [0]
    if wanted.since is not None:
        clauses += ["id >= ?", "at >= ?"]
        values += [_first_at(conn, wanted.since - SLACK_MS), wanted.since]
    if wanted.until is not None:
        clauses += ["id <= ?", "at < ?"]
        values += [_first_at(conn, wanted.until + SLACK_MS), wanted.until]
    statement = f"SELECT id, body FROM audit_record WHERE {' AND '.join(clauses)} ORDER BY id"  # noqa: S608
    with closing(store.backend.stream(driver_of(conn), statement, values)) as rows:
        for number, body in rows:
            yield number, bytes(body)


def count(conn: Connection, wanted: Filter) -> int:
    """How many records `export` would give."""
    return int(conn.execute(_where(conn, select(func.count(audit_record.c.id)), wanted)).scalar_one())


def _where(conn: Connection, query: Select[Any], wanted: Filter) -> Select[Any]:
    for name in ("server", "tool", "verdict", "reason", "call"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(audit_record.c[name] == value)
    if wanted.since is not None:
        first = _first_at(conn, wanted.since - SLACK_MS)
        query = query.where(audit_record.c.at >= wanted.since, audit_record.c.id >= first)
    if wanted.until is not None:
        last = _first_at(conn, wanted.until + SLACK_MS)
        query = query.where(audit_record.c.at < wanted.until, audit_record.c.id <= last)
    return query


def _first_at(conn: Connection, at: int) -> int:
    """About the first record of that time, by bisection: ids grow with time, so no index on it is needed."""
    low, high = conn.execute(
        select(func.coalesce(func.min(audit_record.c.id), 0), func.coalesce(func.max(audit_record.c.id), 0))
    ).one()
    high += 1
    while low < high:
        middle = (low + high) // 2
        row = conn.execute(
            select(audit_record.c.id, audit_record.c.at)
            .where(audit_record.c.id >= middle)
            .order_by(audit_record.c.id)
            .limit(1)
        ).first()
        if row is not None and row.at < at:
            low = row.id + 1
        else:
            high = middle
    return int(low)


def _outcomes(conn: Connection, calls: list[str]) -> dict[str, OutcomeRecord]:
    found: dict[str, OutcomeRecord] = {}
    for start in range(0, len(calls), _IN):
        query = select(audit_record.c.id, audit_record.c.body).where(
            audit_record.c.call.in_(calls[start : start + _IN]), audit_record.c.kind == OUTCOME
        )
        for row in conn.execute(query.order_by(audit_record.c.id)):
            record = _decode(row.id, row.body)
            if isinstance(record, OutcomeRecord):
                found.setdefault(record.call, record)
    return found


def _decode(number: int, body: bytes) -> Record:
    try:
        return records.decode(body)
    except msgspec.MsgspecError as error:
        raise AuditError(f"record {number} cannot be read: {error}", advice="Run `callgate audit verify`.") from None
