"""Sessions as rows: all that a batch does to them is one read, one write and one insert."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from callgate.audit.records import AuditRow
from callgate.store.backend import Backend
from callgate.store.changes import StoredSession, StoredSessions
from callgate.store.sqlite import SqliteBackend
from callgate.store.statements import Statement
from callgate.trust import keeping
from callgate.trust.model import Session, SessionLabel
from callgate.trust.storage import NewStep

# session, seq, expires_at, strange, body, memory
StepRow: TypeAlias = tuple[str, int, int, int, bytes, bytes]
# opened_at, seen_at, version, steps, forgot, body
SessionRow: TypeAlias = tuple[int, int, int, int, int, bytes]


class _SessionBody(msgspec.Struct, array_like=True):
    """What a session's row has beside its numbers."""

    agent: str
    label: SessionLabel


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_SessionBody).decode


def _pack(session: Session) -> bytes:
    body = _SessionBody(session.agent, session.label)
    try:
        return _encode(body)
    except UnicodeEncodeError:
        # Half characters, which msgpack has no way to write.
        return json.dumps(msgspec.to_builtins(body)).encode()


def session_of(key: str, row: SessionRow) -> Session:
    opened_at, seen_at, version, steps, _, body = row
    kept = msgspec.convert(json.loads(body), _SessionBody) if body[:1] == b"[" else _decode(body)
    return Session(
        key=key,
        agent=kept.agent,
        opened_at=opened_at,
        seen_at=seen_at,
        label=kept.label,
        version=version,
        steps=steps,
    )


class SessionDraft:
    """One session while a batch changes it: read once, written once, however many steps there are."""

    __slots__ = ("_body", "dropped", "endorsed", "forget", "forgot", "key", "lessened", "session", "steps", "theirs")

    def __init__(self, key: str, session: Session | None = None, forgot: int = 0, body: bytes | None = None) -> None:
        self.key = key
        self.session = session
        self._body = body
        # Up to which version others may have written it; None where it is not there yet.
        self.theirs = None if session is None else session.version
        self.forgot = self.forget = forgot
        self.steps: list[StepRow] = []
        # Digest to step and expiry.
        self.endorsed: dict[str, tuple[int, int]] = {}
        # What is to be done to the rows there are, before new ones are written.
        self.dropped = False
        self.lessened = False

    @classmethod
    def of(cls, key: str, row: SessionRow | None) -> SessionDraft:
        """From the row that the store has."""
        return cls(key) if row is None else cls(key, session_of(key, row), row[4], row[5])

    @property
    def row(self) -> SessionRow:
        now = self.session
        assert now is not None
        if self._body is None:
            self._body = _pack(now)
        return now.opened_at, now.seen_at, now.version, now.steps, self.forget, self._body

    def _become(self, after: Session) -> Session:
        before, self.session = self.session, after
        # A label that stays is the same object, and need not be written out again.
        if before is None or after.label is not before.label or after.agent is not before.agent:
            self._body = None
        return after

    def open(self, agent: str, now: int, idle_ms: int) -> Session:
        before = self.session
        if before is None:
            return self._become(keeping.begun(self.key, agent, now))
        after = keeping.opened(before, agent, now, idle_ms)
        if after.opened_at != before.opened_at:
            self.steps.clear()
            self.endorsed.clear()
            self.dropped, self.lessened, self.forgot, self.forget = True, False, 0, 0
        return self._become(after)

    def add(self, new: NewStep, body: bytes, keep: int, expires_at: int) -> Session:
        before = self.session or keeping.begun(self.key, "", new.step.at)
        after = self._become(keeping.stepped(before, new.step.at, new.adds))
        seq, memory = after.steps, new.step.memory
        strange = int(keeping.strange(new.step.label))
        self.steps.append((self.key, seq, expires_at if memory else 0, strange, body, memory))
        self.forget = max(self.forget, seq - keep)
        for digest in new.endorsed:
            self.endorsed[digest] = seq, expires_at
        return after

    def declassify(self, label: SessionLabel, by: str, note: str, now: int) -> Session | None:
        if self.session is None:
            return None
        after, step = keeping.declassified(self.session, label, by, note, now)
        self.lessened = True
        self.steps = [(*row[:2], 0, row[3], row[4], b"") if row[3] else row for row in self.steps]
        self.steps.append((self.key, step.seq, 0, 0, keeping.packed(step), b""))
        return self._become(after)


class SessionChange(msgspec.Struct, frozen=True, gc=False):
    """Something that is done to one session, and what it brings beside it."""

    key: str
    do: Callable[[SessionDraft], Any]
    objects: tuple[str, ...] = ()
    expires_at: int = 0
    witness: AuditRow | None = None
    # Whether it takes something away, which whoever has the session at hand must hear of.
    lessens: bool = False


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
_UNMAKE: Final = Statement("DELETE FROM trust_session WHERE key = ? AND version = 0")
_DROP: Final = (
    Statement("DELETE FROM trust_step WHERE session = ?"),
    Statement("DELETE FROM trust_endorsed WHERE session = ?"),
)
_LESSEN: Final = Statement(
    "UPDATE trust_step SET memory = x'', expires_at = 0 WHERE session = ? AND strange = 1 AND expires_at > 0",
    "UPDATE trust_step SET memory = '', expires_at = 0 WHERE session = ? AND strange = 1 AND expires_at > 0",
)
_FORGET: Final = Statement(
    "UPDATE trust_step SET memory = x'', expires_at = 0 WHERE session = ? AND seq > ? AND seq <= ? AND expires_at > 0",
    "UPDATE trust_step SET memory = '', expires_at = 0 WHERE session = ? AND seq > ? AND seq <= ? AND expires_at > 0",
)
_TRIM: Final = Statement("DELETE FROM trust_step WHERE session = ? AND seq <= ?")
_ENDORSE: Final = Statement(
    "INSERT INTO trust_endorsed (session, digest, seq, expires_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (session, digest) DO UPDATE SET seq = excluded.seq, expires_at = excluded.expires_at"
)
_FEWER: Final = Statement(
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


class SessionWriter:
    """Writes acts on sessions. The sessions are locked first (SQLite: the file is), so no label is lost."""

    lock_order: Final = 2

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._sqlite = backend.sessions if isinstance(backend, SqliteBackend) else None

    def write(self, driver: Any, acts: Sequence[SessionChange]) -> list[Any]:
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

    def _load(self, driver: Any, keys: Collection[str]) -> dict[str, SessionDraft]:
        if self._sqlite is not None:
            return {key: self._draft(driver, key) for key in keys}
        wanted = sorted(keys)
        driver.execute(_MAKE, (wanted,))
        rows = driver.execute(_LOCK, (wanted,), binary=True).fetchall()
        return {row[0]: SessionDraft.of(row[0], row[1:] if row[3] else None) for row in rows}

    def _draft(self, driver: Any, key: str) -> SessionDraft:
        assert self._sqlite is not None
        kept = self._sqlite.now(key)
        if kept is not None and kept.session is not None:
            draft = SessionDraft(key, kept.session, kept.forgot, kept.body)
            draft.theirs = kept.theirs
            return draft
        return SessionDraft.of(key, driver.execute(_LOAD, (key,)).fetchone())

    def _save(self, driver: Any, drafts: Sequence[SessionDraft]) -> None:
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

    def _save_at_hand(self, at_hand: StoredSessions, drafts: Sequence[SessionDraft]) -> None:
        """So that the next batch need not read them, nor anybody ask; before all of this is committed."""
        mark = at_hand.changes.others()
        for draft in drafts:
            assert draft.session is not None
            if mark is not None:
                version = draft.session.version
                theirs = version if draft.theirs is None else draft.theirs
                at_hand.put(draft.key, StoredSession(mark, version, theirs, draft.session, draft.forget, draft.row[5]))

    def _beside(self, driver: Any, acts: Sequence[SessionChange]) -> None:
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


def _clear(driver: Any, draft: SessionDraft) -> None:
    if draft.dropped:
        for statement in _DROP:
            statement.on(driver, draft.key)
    if draft.lessened:
        _LESSEN.on(driver, draft.key)


def _settle(driver: Any, draft: SessionDraft) -> None:
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
