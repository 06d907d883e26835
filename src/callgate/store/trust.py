"""The repository of trust: sessions with their steps, tainted objects, held results.

All that a batch does to sessions is one read, one write and one insert.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from callgate.audit.records import AuditRow
from callgate.errors import CallgateError, Reason, Refused
from callgate.store.backend import Backend
from callgate.store.changes import Mark, StoredSession, StoredSessions
from callgate.store.front import Store
from callgate.store.sqlite import SqliteBackend
from callgate.store.statements import SWEEP_ROWS, Repository, Statement, pack, sweep, sweeping, unpack
from callgate.trust import keeping
from callgate.trust.model import Quarantined, Session, SessionLabel, Step
from callgate.trust.storage import NewStep

if TYPE_CHECKING:
    from callgate.store.leases import SessionLeases
    from callgate.store.postgres import PostgresBackend

# session, seq, expires_at, strange, body, memory
StepRow: TypeAlias = tuple[str, int, int, int, bytes, bytes]
# opened_at, seen_at, version, steps, forgot, body
SessionRow: TypeAlias = tuple[int, int, int, int, int, bytes]


class _SessionBody(msgspec.Struct, array_like=True):
    """What a session's row has beside its numbers."""

    agent: str
    label: SessionLabel


_decode: Final = msgspec.msgpack.Decoder(_SessionBody).decode


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

    __slots__ = (
        "_body",
        "changed",
        "dropped",
        "endorsed",
        "forget",
        "forgot",
        "key",
        "lessened",
        "owner",
        "session",
        "steps",
        "theirs",
        "was_owner",
    )

    def __init__(
        self, key: str, session: Session | None = None, forgot: int = 0, body: bytes | None = None, owner: str = ""
    ) -> None:
        self.key = key
        # The gateway that has the session to itself, before this batch and after it.
        self.owner = self.was_owner = owner
        self.changed = False
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
    def of(cls, key: str, row: SessionRow | None, owner: str = "") -> SessionDraft:
        """From the row that the store has."""
        return cls(key) if row is None else cls(key, session_of(key, row), row[4], row[5], owner)

    @classmethod
    def at_hand(cls, key: str, kept: StoredSession, owner: str = "") -> SessionDraft:
        """From what the writer has left there."""
        draft = cls(key, kept.session, kept.forgot, kept.body, owner)
        draft.theirs = kept.theirs
        return draft

    def kept(self, mark: Mark) -> StoredSession:
        """What the writer leaves."""
        assert self.session is not None
        version = self.session.version
        theirs = version if self.theirs is None else self.theirs
        return StoredSession(mark, version, theirs, self.session, self.forget, self.row[5])

    @property
    def row(self) -> SessionRow:
        now = self.session
        assert now is not None
        if self._body is None:
            self._body = pack(_SessionBody(now.agent, now.label))
        return now.opened_at, now.seen_at, now.version, now.steps, self.forget, self._body

    def _become(self, after: Session) -> Session:
        before, self.session = self.session, after
        self.changed = True
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


class HeldBy(msgspec.Struct, frozen=True):
    """What becomes of a change where another gateway has the session to itself: nothing yet."""

    owner: str


class SessionChange(msgspec.Struct, frozen=True, gc=False):
    """Something that is done to one session, and what it brings beside it."""

    key: str
    do: Callable[[SessionDraft], Any]
    objects: tuple[str, ...] = ()
    expires_at: int = 0
    witness: AuditRow | None = None
    # Whether it takes something away, which whoever has the session at hand must hear of.
    lessens: bool = False
    # Whether nobody else may have the session to itself then.
    alone: Callable[[Session | None], bool] = lambda _session: True


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
    f"SELECT key, {COLUMNS}, owner FROM trust_session WHERE key = ANY(%b::text[]) ORDER BY key FOR UPDATE"  # noqa: S608
).encode()
# One that nobody read is written only while it is owned; else all of the batch comes to nothing, and is done again one
# by one, on what there is.
_SAVE: Final = (
    b"WITH saved AS (UPDATE trust_session AS s SET opened_at = n.o, seen_at = n.a, version = n.v, steps = n.n,"
    b" forgot = n.f, body = n.b, owner = n.w FROM unnest(%b::text[], %b::int8[], %b::int8[], %b::int8[], %b::int8[],"
    b" %b::int8[], %b::bytea[], %b::text[], %b::text[]) AS n(k, o, a, v, n, f, b, h, w)"
    b" WHERE s.key = n.k AND s.owner = n.h RETURNING 1)"
    b" SELECT 1 / CASE WHEN count(*) = %b THEN 1 ELSE 0 END FROM saved"
)
_SESSION_TYPES: Final = ("text", "int8", "int8", "int8", "int8", "int8", "bytea", "text", "text")
_STEP_TYPES: Final = ("text", "int8", "int8", "int2", "bytea", "bytea")
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
        self._wal = backend.changes if isinstance(backend, SqliteBackend) else None
        self._postgres = None if backend.name == "sqlite" else cast("PostgresBackend", backend)

    def write(self, driver: Any, acts: Sequence[SessionChange]) -> list[Any]:
        """All of a batch; what became of each act."""
        if self._wal is not None and any(act.lessens for act in acts):
            self._wal.concerns_all()
        since, own = (0, "") if self._postgres is None else (self._postgres.leases.let_go, self._postgres.leases.owner)
        drafts = self._load(driver, {act.key for act in acts}, own)
        results = [_done(act, drafts[act.key], own) for act in acts]
        changed = [draft for draft in drafts.values() if draft.changed]
        for draft in changed:
            _clear(driver, draft)
        if self._sqlite is not None:
            self._save(driver, self._sqlite, changed)
            if self._wal is not None and any(draft.steps for draft in changed):
                self._wal.wrote()
        elif self._postgres is not None:
            lessened = {act.key for act in acts if act.lessens}
            self._save_together(driver, self._postgres, changed, since=since, own=own, lessened=lessened)
        for draft in changed:
            _settle(driver, draft)
        if self._sqlite is None:
            for draft in drafts.values():
                if draft.session is None:
                    _UNMAKE.on(driver, draft.key)
        self._beside(driver, [act for act, done in zip(acts, results, strict=True) if type(done) is not HeldBy])
        return results

    def _load(self, driver: Any, keys: Collection[str], own: str) -> dict[str, SessionDraft]:
        if self._sqlite is not None:
            return {key: self._draft(driver, self._sqlite, key) for key in keys}
        assert self._postgres is not None
        drafts: dict[str, SessionDraft] = {}
        for key in keys if own else ():
            kept = self._postgres.leases.sessions.now(key)
            if kept is not None and kept.session is not None:
                drafts[key] = SessionDraft.at_hand(key, kept, own)
        wanted = sorted(keys - drafts.keys())
        if wanted:
            driver.execute(_MAKE, (wanted,))
            rows = driver.execute(_LOCK, (wanted,), binary=True).fetchall()
            drafts |= {row[0]: SessionDraft.of(row[0], row[1:7] if row[3] else None, row[7]) for row in rows}
        return drafts

    def _draft(self, driver: Any, sqlite: StoredSessions, key: str) -> SessionDraft:
        kept = sqlite.now(key)
        if kept is not None and kept.session is not None:
            return SessionDraft.at_hand(key, kept)
        return SessionDraft.of(key, driver.execute(_LOAD, (key,)).fetchone())

    def _save(self, driver: Any, sqlite: StoredSessions, drafts: Sequence[SessionDraft]) -> None:
        # So that the next batch need not read them, nor anybody ask; before all of this is committed.
        mark = sqlite.changes.others()
        for draft in drafts:
            if mark is not None:
                sqlite.put(draft.key, draft.kept(mark))
        for draft in drafts:
            driver.execute(_PUT, (draft.key, *draft.row))
        steps = [step for draft in drafts for step in draft.steps]
        _in_chunks(driver, _STEP, steps)

    @staticmethod
    def _save_together(
        driver: Any,
        backend: PostgresBackend,
        drafts: Sequence[SessionDraft],
        *,
        since: int,
        own: str,
        lessened: Collection[str],
    ) -> None:
        leases = backend.leases
        mark = leases.others()
        if leases.owner != own:
            # It began anew meanwhile.
            mark = None
        for draft in drafts:
            assert draft.session is not None
            if not draft.owner and draft.theirs and leases.wants(draft.key, draft.theirs, draft.session.version):
                draft.owner = own if mark is not None else ""
            # Whoever has it at hand must hear of what was taken away.
            if draft.key in lessened:
                leases.sessions.forget(draft.key)
            elif mark is not None and draft.owner == own:
                backend.written.append((draft.key, draft.kept(mark), since))
        rows = [(one.key, *one.row, one.was_owner, one.owner) for one in sorted(drafts, key=lambda one: one.key)]
        if rows:
            driver.execute(_SAVE, (*backend.arrays(_SESSION_TYPES, rows), len(rows)))
        steps = [step for draft in drafts for step in draft.steps]
        if steps:
            driver.execute(_STEPS, backend.arrays(_STEP_TYPES, steps))

    def _beside(self, driver: Any, acts: Sequence[SessionChange]) -> None:
        objects: dict[str, int] = {}
        for act in acts:
            for digest in act.objects:
                objects[digest] = max(act.expires_at, objects.get(digest, 0))
        # In one order over all processes, so that nobody waits in a circle.
        tainted = sorted(objects.items())
        if self._sqlite is not None:
            _in_chunks(driver, _TAINT, tainted)
        elif tainted and self._postgres is not None:
            driver.execute(_TAINTS, self._postgres.arrays(("text", "int8"), tainted))
        witnesses = [act.witness for act in acts if act.witness is not None]
        if witnesses:
            self._backend.insert_within(driver, witnesses)


def _done(act: SessionChange, draft: SessionDraft, own: str) -> Any:
    if draft.owner and draft.owner != own and act.alone(draft.session):
        return HeldBy(draft.owner)
    return act.do(draft)


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


class VersionReader:
    """The version of each session that somebody asks for. Who comes while a question is under way goes with the next,
    so every answer is of after it was asked for."""

    def __init__(self, ask: Callable[[Collection[str]], Awaitable[Mapping[str, int]]]) -> None:
        self._ask = ask
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._task: asyncio.Task[None] | None = None

    async def version(self, key: str) -> int:
        """0 where there is no such session."""
        loop = asyncio.get_running_loop()
        answer = self._waiting.get(key)
        if answer is None or answer.get_loop() is not loop:
            answer = self._waiting[key] = loop.create_future()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._go_on(loop))
        # One that is given up takes no other with it.
        return await asyncio.shield(answer)

    async def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            mine = {key: answer for key, answer in asked.items() if answer.get_loop() is loop}
            try:
                found = await self._ask(mine)
            except Exception as error:  # noqa: BLE001 - whoever asked hears of it
                for answer in mine.values():
                    answer.set_exception(error)
                    # Where nobody waits any more, nobody misses it.
                    answer.exception()
            except BaseException:
                for answer in mine.values():
                    answer.cancel()
                raise
            else:
                for key, answer in mine.items():
                    answer.set_result(found.get(key, 0))


_HELD_COLUMNS: Final = "body, sealed, expires_at"
_HOLD: Final = Statement(
    "INSERT INTO trust_held (handle, session, state, at, expires_at, body, sealed) VALUES (?, ?, 'held', ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)
_HELD_COUNT: Final = Statement("SELECT count(*) FROM trust_held")
_MAKE_ROOM: Final = Statement(
    "DELETE FROM trust_held WHERE handle IN (SELECT handle FROM trust_held WHERE handle <> ? ORDER BY"
    " CASE WHEN state = 'held' THEN 1 ELSE 0 END, CASE WHEN session = ? THEN 0 ELSE 1 END, at, handle LIMIT ?)"
)
_HELD_ONE: Final = Statement(f"SELECT {_HELD_COLUMNS} FROM trust_held WHERE handle = ?")  # noqa: S608
_HELD_WAITING: Final = Statement(
    f"SELECT {_HELD_COLUMNS} FROM trust_held WHERE state = 'held' ORDER BY at DESC, handle LIMIT ?"  # noqa: S608
)
_SETTLE: Final = Statement("UPDATE trust_held SET state = ?, body = ?, sealed = ? WHERE handle = ? AND state = 'held'")


def _held(row: tuple[Any, ...]) -> Quarantined:
    return replace(unpack(row[0], Quarantined), sealed=bytes(row[1]))


_EXPIRED: Final = (
    sweeping(
        "UPDATE trust_step SET memory = x'', expires_at = 0",
        "trust_step",
        "session, seq",
        "expires_at > 0 AND expires_at <= ?",
    ),
    sweeping("DELETE FROM trust_endorsed", "trust_endorsed", "session, digest", "expires_at <= ?"),
    sweeping("DELETE FROM trust_object", "trust_object", "digest", "expires_at <= ?"),
    sweeping("DELETE FROM trust_held", "trust_held", "handle", "expires_at <= ?"),
)
_SESSION_COUNT: Final = Statement("SELECT count(*) FROM trust_session")
# What a gateway has to itself is in use.
_ALL_SESSIONS: Final = Statement(f"SELECT key, {COLUMNS} FROM trust_session WHERE owner = ''")  # noqa: S608
_LOCK_SESSIONS: Final = Statement(
    "SELECT key FROM trust_session WHERE key = ?", "SELECT key FROM trust_session WHERE key = ? FOR UPDATE SKIP LOCKED"
)
_DROP_SESSION: Final = (*_DROP, Statement("DELETE FROM trust_session WHERE key = ?"))


def prune(store: Store, now: int, sessions: int) -> int:
    """How many things were dropped. For a thread that may wait."""
    gone = sum(sweep(store, statement, now) for statement in _EXPIRED)
    done = 1
    while done:
        with store.writing() as conn:
            done = _drop_sessions(conn, sessions)
        gone += done
    return gone


def _drop_sessions(conn: Any, most: int) -> int:
    over = min(SWEEP_ROWS // 10, _SESSION_COUNT.all(conn)[0][0] - most)
    if over <= 0:
        return 0
    found = [session_of(row[0], row[1:]) for row in _ALL_SESSIONS.all(conn)]
    driver = conn.connection.driver_connection
    gone = 0
    for key in keeping.spare(found, over):
        # One that is in use just now stays.
        if _LOCK_SESSIONS.all(conn, key):
            gone += 1
            for statement in _DROP_SESSION:
                statement.on(driver, key)
    return gone


_VERSION: Final = "SELECT version FROM trust_session WHERE key = ?"
_VERSIONS: Final = Statement("SELECT key, version FROM trust_session WHERE key IN (SELECT value FROM json_each(?))")
_VERSIONS_LOOKED: Final = b"SELECT key, version FROM trust_session WHERE key = ANY($1::text[])"
_SESSION: Final = Statement(f"SELECT {COLUMNS} FROM trust_session WHERE key = ?")  # noqa: S608
_SESSIONS: Final = Statement(
    f"SELECT key, {COLUMNS} FROM trust_session WHERE seen_at < ? ORDER BY seen_at DESC, key LIMIT ?"  # noqa: S608
)
# Steps and memory that are to go are not read any more, though some are still there.
_LAST_STEPS: Final = Statement(
    "SELECT t.body, t.seq, CASE WHEN t.seq > s.forgot THEN t.memory ELSE x'' END FROM trust_session AS s"
    " JOIN trust_step AS t ON t.session = s.key"
    " WHERE s.key = ? AND t.seq > s.steps - ? AND t.seq > ? ORDER BY t.seq DESC LIMIT ?",
    "SELECT t.body, t.seq, CASE WHEN t.seq > s.forgot THEN t.memory ELSE '' END FROM trust_session AS s"
    " JOIN trust_step AS t ON t.session = s.key"
    " WHERE s.key = ? AND t.seq > s.steps - ? AND t.seq > ? ORDER BY t.seq DESC LIMIT ?",
)
_ENDORSED: Final = Statement("SELECT digest FROM trust_endorsed WHERE session = ?")
_TAINTED: Final = "SELECT digest FROM trust_object WHERE expires_at > ? AND digest IN (SELECT value FROM json_each(?))"
_TAINTED_ASKED: Final = Statement(
    _TAINTED,
    "SELECT digest FROM trust_object WHERE expires_at > ? AND digest IN (SELECT json_array_elements_text(?::json))",
)
_END_OF_TIME: Final = 2**62


class SqlTrust(Repository):
    """The trust room's `TrustShelf`. A witness is an `AuditRow` written in the same transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._write = SessionWriter(store.backend).write
        self._asking = VersionReader(self._versions)
        self._look = _look_of(store.backend)
        backend = store.backend
        self._read_now = backend.read_now if isinstance(backend, SqliteBackend) else None
        self._leases = None if isinstance(backend, SqliteBackend) else cast("PostgresBackend", backend).leases
        self._at_hand = (
            backend.sessions if isinstance(backend, SqliteBackend) else cast("SessionLeases", self._leases).sessions
        )
        self._late: set[asyncio.Task[None]] = set()

    async def hold(self, held: Quarantined, expires_at: int) -> None:
        keeping.demand(held.handle, held.session)
        new = keeping.held(held)
        body = pack(replace(new, sealed=b""))

        def put(conn: Connection) -> None:
            driver = conn.connection.driver_connection
            made = _HOLD.on(driver, new.handle, new.session, new.at, expires_at, body, new.sealed)
            if made.rowcount != 1:
                raise Refused(Reason.INVALID_PARAMS, "a result is held under this handle already")
            spare = _HELD_COUNT.all(conn)[0][0] - keeping.HELD
            if spare > 0:
                _MAKE_ROOM.on(driver, new.handle, new.session, spare)

        await self._change(put)

    async def held(self, handle: str) -> Quarantined | None:
        if not keeping.fits(handle):
            return None
        rows = await self._store.read(lambda conn: _HELD_ONE.all(conn, handle))
        return _held(rows[0]) if rows else None

    async def holding(self, *, limit: int = 100) -> Sequence[Quarantined]:
        rows = await self._store.read(lambda conn: _HELD_WAITING.all(conn, max(0, limit)))
        return [_held(row) for row in rows]

    async def settle(
        self, handle: str, state: str, by: str, now: int, *, witness: AuditRow | None = None
    ) -> Quarantined:
        if not keeping.fits(handle):
            raise keeping.not_held()

        def decide(conn: Connection) -> Quarantined:
            rows = _HELD_ONE.all(conn, handle)
            if not rows:
                raise keeping.not_held()
            after = keeping.settled(_held(rows[0]), rows[0][2], state=state, by=by, now=now)
            driver = conn.connection.driver_connection
            done = _SETTLE.on(driver, state, pack(replace(after, sealed=b"")), after.sealed, handle)
            if done.rowcount != 1:
                raise keeping.not_held()
            return after

        return await self._change(decide, witness)

    async def _versions(self, keys: Collection[str]) -> dict[str, int]:
        if self._look is not None:
            return await self._look(keys)
        wanted = json.dumps(list(keys))
        return {row[0]: row[1] for row in await self._store.read(lambda conn: _VERSIONS.all(conn, wanted))}

    # -- sessions ----------------------------------------------------------------------------------------------

    async def open(self, key: str, agent: str, now: int, idle_ms: int) -> Session:
        keeping.demand(key)

        def restarts(session: Session | None) -> bool:
            return session is None or 0 < idle_ms < now - session.seen_at

        act = SessionChange(key, lambda draft: draft.open(agent, now, idle_ms), alone=restarts)
        opened: Session = await self._act(act)
        return opened

    def peek(self, key: str) -> int | None:
        if self._read_now is None:
            return None
        kept = self._at_hand.now(key)
        if kept is not None:
            return kept.version
        self._at_hand.changes.open()
        before = self._at_hand.before(key)
        rows = self._read_now(_VERSION, key)
        if rows is None:
            return None
        version: int = rows[0][0] if rows else 0
        self._at_hand.learn(key, before, version)
        return version

    def at_hand(self, key: str, known: int) -> int | None:
        # Written out: it is asked for every call, and once more for its result.
        mark, kept = self._at_hand.changes.others(), self._at_hand.kept.get(key)
        return None if kept is None or kept.mark != mark or kept.theirs > known else kept.version

    async def version(self, key: str) -> int:
        at_once = self.peek(key)
        if at_once is not None:
            return at_once
        if not keeping.fits(key):
            return 0
        return await self._asking.version(key)

    async def session(self, key: str) -> Session | None:
        if not keeping.fits(key):
            return None
        rows: list[Any] = await self._store.read(lambda conn: _SESSION.all(conn, key))
        return session_of(key, rows[0]) if rows else None

    async def sessions(self, *, limit: int = 100, before: int | None = None) -> Sequence[Session]:
        until = _END_OF_TIME if before is None else before
        rows: list[Any] = await self._store.read(lambda conn: _SESSIONS.all(conn, until, max(0, limit)))
        return [session_of(row[0], row[1:]) for row in rows]

    async def declassify(
        self, key: str, label: SessionLabel, by: str, note: str, now: int, *, witness: AuditRow | None = None
    ) -> Session | None:
        if not keeping.fits(key):
            return None
        act = SessionChange(key, lambda draft: draft.declassify(label, by, note, now), witness=witness, lessens=True)
        after: Session | None = await self._act(act)
        return after

    # -- steps -------------------------------------------------------------------------------------------------

    async def steps(self, key: str, after: int = 0, limit: int = 1000) -> Sequence[Step]:
        if not keeping.fits(key):
            return []
        rows = await self._store.read(lambda conn: _LAST_STEPS.all(conn, key, keeping.STEPS, after, max(0, limit)))
        return [keeping.unpacked(*row) for row in reversed(rows)]

    async def endorsed(self, key: str) -> frozenset[str]:
        if not keeping.fits(key):
            return frozenset()
        rows = await self._store.read(lambda conn: _ENDORSED.all(conn, key))
        return frozenset(row[0] for row in rows)

    async def add(self, new: NewStep, *, keep: int, expires_at: int) -> Session:
        after: Session = await self._act(_adding(new, keep, expires_at))
        return after

    def add_soon(self, new: NewStep, *, keep: int, done: Callable[[Session | None], None]) -> None:
        act = _adding(new, keep, 0)

        def written(after: Session | HeldBy | None) -> None:
            if isinstance(after, HeldBy):
                task = asyncio.get_running_loop().create_task(self._add_late(act, done))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
            else:
                done(after)

        self._store.soon_together(self._write, act, written)

    async def _add_late(self, act: SessionChange, done: Callable[[Session | None], None]) -> None:
        try:
            after: Session | None = await self._act(act)
        except CallgateError:
            after = None
        done(after)

    async def landed(self) -> None:
        await self._store.run_together(_nothing, None)

    async def tainted(self, digests: Collection[str], now: int) -> frozenset[str]:
        asked = json.dumps([digest for digest in digests if keeping.fits(digest)])
        if asked == "[]":
            return frozenset()
        rows = None if self._read_now is None else self._read_now(_TAINTED, now, asked)
        if rows is None:
            rows = await self._store.read(lambda conn: _TAINTED_ASKED.all(conn, now, asked))
        return frozenset(row[0] for row in rows)

    # -- the end of things -------------------------------------------------------------------------------------

    async def prune(self, now: int, *, sessions: int) -> int:
        return await asyncio.to_thread(prune, self._store, now, max(0, sessions))

    async def _act(self, act: SessionChange) -> Any:
        done = await self._store.run_together(self._write, act)
        while type(done) is HeldBy and self._leases is not None:
            await self._leases.freed(act.key, done.owner)
            done = await self._store.run_together(self._write, act)
        return done


def _look_of(backend: Backend) -> Callable[[Collection[str]], Awaitable[dict[str, int]]] | None:
    if backend.name == "sqlite":
        return None
    from callgate.store.postgres import PostgresBackend, PostgresReader, text_array

    assert isinstance(backend, PostgresBackend)
    reader = PostgresReader(backend, _VERSIONS_LOOKED)

    async def look(keys: Collection[str]) -> dict[str, int]:
        return {key.decode(): int(version) for key, version in await reader.rows(text_array(keys))}

    return look


def _adding(new: NewStep, keep: int, expires_at: int) -> SessionChange:
    keeping.check(new)
    body = keeping.packed(new.step)
    return SessionChange(new.session, lambda draft: draft.add(new, body, keep, expires_at), new.objects, expires_at)


def _nothing(_driver: object, items: Sequence[Any]) -> Sequence[Any]:
    return items
