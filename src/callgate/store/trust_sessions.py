"""Sessions as rows: all that a batch does to them is one read, one write and one insert."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from callgate.store.backend import Backend
from callgate.store.sqlite import SqliteBackend
from callgate.store.trust_at_hand import AtHand, Kept
from callgate.store.trust_draft import Act, Draft
from callgate.store.trust_sql import Sql
from callgate.trust import keeping

COLUMNS: Final = "opened_at, seen_at, version, steps, forgot, body"
_LOAD: Final = f"SELECT {COLUMNS} FROM trust_session WHERE key = ?"  # noqa: S608
_PUT: Final = (
    f"INSERT INTO trust_session (key, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (key) DO UPDATE SET opened_at = excluded.opened_at, seen_at = excluded.seen_at,"
    " version = excluded.version, steps = excluded.steps, forgot = excluded.forgot, body = excluded.body"
)
_STEP_OF: Final = "INSERT INTO trust_step (session, seq, expires_at, strange, body, memory) VALUES "
# By how many rows: in one go, for between two the interpreter lock changes hands.
_STEP: Final = {1 << power: _STEP_OF + ",".join(["(?, ?, ?, ?, ?, ?)"] * (1 << power)) for power in range(6)}
_CHUNK: Final = max(_STEP)
# PostgreSQL: rows that are not there yet are made first, in one order over all processes, then all are locked in that
# order; so batches of several gateways wait for each other but never in a circle. Version 0 is nobody's.
_MAKE: Final = (
    f"INSERT INTO trust_session (key, {COLUMNS}) SELECT k, 0, 0, 0, 0, 0, ''"  # noqa: S608
    " FROM unnest(%b::text[]) AS n(k) ORDER BY k ON CONFLICT DO NOTHING"
).encode()
_LOCK: Final = (
    f"SELECT key, {COLUMNS} FROM trust_session WHERE key = ANY(%b::text[]) ORDER BY key FOR UPDATE"  # noqa: S608
).encode()
_SAVE: Final = (
    b"UPDATE trust_session AS s SET opened_at = n.o, seen_at = n.a, version = n.v, steps = n.n, forgot = n.f,"
    b" body = n.b FROM unnest(%b::text[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::bytea[])"
    b" AS n(k, o, a, v, n, f, b) WHERE s.key = n.k"
)
_STEPS: Final = (
    b"INSERT INTO trust_step (session, seq, expires_at, strange, body, memory)"
    b" SELECT * FROM unnest(%b::text[], %b::int8[], %b::int8[], %b::int2[], %b::bytea[], %b::bytea[])"
)
_UNMAKE: Final = Sql("DELETE FROM trust_session WHERE key = ? AND version = 0")
_DROP: Final = (
    Sql("DELETE FROM trust_step WHERE session = ?"),
    Sql("DELETE FROM trust_endorsed WHERE session = ?"),
)
_LESSEN: Final = Sql(
    "UPDATE trust_step SET memory = x'', expires_at = 0 WHERE session = ? AND strange = 1 AND expires_at > 0",
    "UPDATE trust_step SET memory = '', expires_at = 0 WHERE session = ? AND strange = 1 AND expires_at > 0",
)
_FORGET: Final = Sql(
    "UPDATE trust_step SET memory = x'', expires_at = 0 WHERE session = ? AND seq > ? AND seq <= ? AND expires_at > 0",
    "UPDATE trust_step SET memory = '', expires_at = 0 WHERE session = ? AND seq > ? AND seq <= ? AND expires_at > 0",
)
_TRIM: Final = Sql("DELETE FROM trust_step WHERE session = ? AND seq <= ?")
_ENDORSE: Final = Sql(
    "INSERT INTO trust_endorsed (session, digest, seq, expires_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (session, digest) DO UPDATE SET seq = excluded.seq, expires_at = excluded.expires_at"
)
_FEWER: Final = Sql(
    "DELETE FROM trust_endorsed WHERE session = ? AND digest NOT IN"
    " (SELECT digest FROM trust_endorsed WHERE session = ? ORDER BY seq DESC, digest LIMIT ?)"
)
_TAINT_OF: Final = "INSERT INTO trust_object (digest, expires_at)"
_TAINT_ONCE: Final = (
    " ON CONFLICT (digest) DO UPDATE SET expires_at = excluded.expires_at"
    " WHERE excluded.expires_at > trust_object.expires_at"
)
_TAINT: Final = {count: f"{_TAINT_OF} VALUES {','.join(['(?, ?)'] * count)}{_TAINT_ONCE}" for count in _STEP}
_TAINTS: Final = f"{_TAINT_OF} SELECT * FROM unnest(%b::text[], %b::int8[]){_TAINT_ONCE}".encode()  # noqa: S608
_STRIDE: Final = 32


class Ledger:
    """Writes acts on sessions. The sessions are locked first (SQLite: the file is), so no label is lost."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._sqlite = backend.sessions if isinstance(backend, SqliteBackend) else None

    def write(self, driver: Any, acts: Sequence[Act]) -> list[Any]:
        """All of a batch; what became of each act."""
        if self._sqlite is not None and any(act.lessens for act in acts):
            self._sqlite.changes.concerns_all()
        drafts = self._load(driver, {act.key for act in acts})
        results = [act.do(drafts[act.key]) for act in acts]
        changed = [draft for draft in drafts.values() if draft.session is not None]
        for draft in changed:
            _clear(driver, draft)
        self._save(driver, changed)
        for draft in changed:
            _settle(driver, draft)
        if self._sqlite is None:
            for draft in drafts.values():
                if draft.session is None:
                    _UNMAKE.on(driver, draft.key)
        self._beside(driver, acts)
        return results

    def _load(self, driver: Any, keys: Collection[str]) -> dict[str, Draft]:
        if self._sqlite is not None:
            return {key: self._draft(driver, key) for key in keys}
        wanted = sorted(keys)
        driver.execute(_MAKE, (wanted,))
        rows = driver.execute(_LOCK, (wanted,), binary=True).fetchall()
        return {row[0]: Draft.of(row[0], row[1:] if row[3] else None) for row in rows}

    def _draft(self, driver: Any, key: str) -> Draft:
        assert self._sqlite is not None
        kept = self._sqlite.now(key)
        if kept is not None and kept.session is not None:
            draft = Draft(key, kept.session, kept.forgot, kept.body)
            draft.theirs = kept.theirs
            return draft
        return Draft.of(key, driver.execute(_LOAD, (key,)).fetchone())

    def _save(self, driver: Any, drafts: Sequence[Draft]) -> None:
        sessions = [(draft.key, *draft.row) for draft in drafts]
        steps = [step for draft in drafts for step in draft.steps]
        if self._sqlite is not None:
            self._save_at_hand(self._sqlite, drafts)
            for one in sessions:
                driver.execute(_PUT, one)
            _in_chunks(driver, _STEP, steps)
            if steps:
                self._sqlite.changes.wrote()
            return
        if sessions:
            driver.execute(_SAVE, _columns(sessions))
        if steps:
            driver.execute(_STEPS, _columns(steps))

    def _save_at_hand(self, at_hand: AtHand, drafts: Sequence[Draft]) -> None:
        """So that the next batch need not read them, nor anybody ask; before all of this is committed."""
        mark = at_hand.changes.others()
        for draft in drafts:
            assert draft.session is not None
            if mark is not None:
                version = draft.session.version
                theirs = version if draft.theirs is None else draft.theirs
                at_hand.put(draft.key, Kept(mark, version, theirs, draft.session, draft.forget, draft.row[5]))

    def _beside(self, driver: Any, acts: Sequence[Act]) -> None:
        objects: dict[str, int] = {}
        for act in acts:
            for digest in act.objects:
                objects[digest] = max(act.expires_at, objects.get(digest, 0))
        # In one order over all processes, so that nobody waits in a circle.
        tainted = sorted(objects.items())
        if self._sqlite is not None:
            _in_chunks(driver, _TAINT, tainted)
        elif tainted:
            driver.execute(_TAINTS, _columns(tainted))
        witnesses = [act.witness for act in acts if act.witness is not None]
        if witnesses:
            self._backend.insert_within(driver, witnesses)


def _clear(driver: Any, draft: Draft) -> None:
    if draft.dropped:
        for statement in _DROP:
            statement.on(driver, draft.key)
    if draft.lessened:
        _LESSEN.on(driver, draft.key)


def _settle(driver: Any, draft: Draft) -> None:
    """What new steps push out, and what people endorsed with them."""
    # Nobody reads what is to go here, so it goes some steps at a time.
    if draft.forget // _STRIDE > draft.forgot // _STRIDE:
        _FORGET.on(driver, draft.key, draft.forgot // _STRIDE * _STRIDE, draft.forget)
    assert draft.session is not None
    over = draft.session.steps - keeping.STEPS
    if over > 0 and over // _STRIDE > (over - len(draft.steps)) // _STRIDE:
        _TRIM.on(driver, draft.key, over)
    for digest, (seq, expires_at) in draft.endorsed.items():
        _ENDORSE.on(driver, draft.key, digest, seq, expires_at)
    if draft.endorsed:
        _FEWER.on(driver, draft.key, draft.key, keeping.ENDORSED)


def _in_chunks(driver: Any, statements: Mapping[int, str], rows: Sequence[tuple[Any, ...]]) -> None:
    start = 0
    while start < len(rows):
        count = min(_CHUNK, 1 << ((len(rows) - start).bit_length() - 1))
        driver.execute(statements[count], list(chain.from_iterable(rows[start : start + count])))
        start += count


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
