"""The repository of trust: sessions with their steps, tainted objects, held results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import Connection

from callgate.audit.records import AuditRow
from callgate.errors import Reason, Refused
from callgate.store.backend import Backend
from callgate.store.front import Store
from callgate.store.sqlite import SqliteBackend
from callgate.store.statements import Repository, Statement, pack, unpack
from callgate.store.trust.sessions import COLUMNS, SessionChange, SessionWriter, session_of
from callgate.trust import keeping
from callgate.trust.model import Quarantined, Session, SessionLabel, Step
from callgate.trust.storage import NewStep


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


# How many rows one transaction removes: writers wait for no more than that.
_SWEEP: Final = 500


def _sweep(start: str, table: str, key: str, condition: str) -> Statement:
    """A statement over some rows at most. On PostgreSQL it never waits for a row, so nobody waits in a circle."""
    some = f"SELECT {key} FROM {table} WHERE {condition} LIMIT ?"  # noqa: S608
    where = f" WHERE ({key}) IN ("
    return Statement(f"{start}{where}{some})", f"{start}{where}{some} FOR UPDATE SKIP LOCKED)".replace("x''", "''"))


_EXPIRED: Final = (
    _sweep(
        "UPDATE trust_step SET memory = x'', expires_at = 0",
        "trust_step",
        "session, seq",
        "expires_at > 0 AND expires_at <= ?",
    ),
    _sweep("DELETE FROM trust_endorsed", "trust_endorsed", "session, digest", "expires_at <= ?"),
    _sweep("DELETE FROM trust_object", "trust_object", "digest", "expires_at <= ?"),
    _sweep("DELETE FROM trust_held", "trust_held", "handle", "expires_at <= ?"),
)
_SESSION_COUNT: Final = Statement("SELECT count(*) FROM trust_session")
_ALL_SESSIONS: Final = Statement(f"SELECT key, {COLUMNS} FROM trust_session")  # noqa: S608
_LOCK_SESSIONS: Final = Statement(
    "SELECT key FROM trust_session WHERE key = ?", "SELECT key FROM trust_session WHERE key = ? FOR UPDATE SKIP LOCKED"
)
_DROP_SESSION: Final = (
    Statement("DELETE FROM trust_step WHERE session = ?"),
    Statement("DELETE FROM trust_endorsed WHERE session = ?"),
    Statement("DELETE FROM trust_session WHERE key = ?"),
)


def prune(store: Store, now: int, sessions: int) -> int:
    """How many things were dropped. For a thread that may wait."""
    gone = 0
    for statement in _EXPIRED:
        done = _SWEEP
        while done == _SWEEP:
            with store.writing() as conn:
                done = statement.on(conn.connection.driver_connection, now, _SWEEP).rowcount
            gone += done
    done = 1
    while done:
        with store.writing() as conn:
            done = _drop_sessions(conn, sessions)
        gone += done
    return gone


def _drop_sessions(conn: Any, most: int) -> int:
    over = min(_SWEEP // 10, _SESSION_COUNT.all(conn)[0][0] - most)
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
_VERSIONS_LOOKED: Final = b"SELECT key, version FROM trust_session WHERE key = ANY(%b::text[])"
_SESSION: Final = Statement(f"SELECT {COLUMNS} FROM trust_session WHERE key = ?")  # noqa: S608
_SESSIONS: Final = Statement(
    f"SELECT key, {COLUMNS} FROM trust_session WHERE seen_at < ? ORDER BY seen_at DESC, key LIMIT ?"  # noqa: S608
)
# Steps and memory that are to go are not read any more, though some are still there.
_STEPS: Final = Statement(
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
            self._record(conn, witness)
            return after

        return await self._change(decide)

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._write = SessionWriter(store.backend).write
        self._asking = VersionReader(self._versions)
        self._look = _look_of(store.backend)
        backend = store.backend
        self._read_now = backend.read_now if isinstance(backend, SqliteBackend) else None
        self._at_hand = backend.sessions if isinstance(backend, SqliteBackend) else None

    async def _versions(self, keys: Collection[str]) -> dict[str, int]:
        wanted = list(keys)
        rows: list[Any]
        if self._look is None:
            rows = await self._store.read(lambda conn: _VERSIONS.all(conn, json.dumps(wanted)))
        else:
            look = self._look
            rows = await self._store.apart(lambda: look(_VERSIONS_LOOKED, (wanted,)))
        return {row[0]: int(row[1]) for row in rows}

    # -- sessions ----------------------------------------------------------------------------------------------

    async def open(self, key: str, agent: str, now: int, idle_ms: int) -> Session:
        keeping.demand(key)
        opened: Session = await self._act(SessionChange(key, lambda draft: draft.open(agent, now, idle_ms)))
        return opened

    def peek(self, key: str) -> int | None:
        if self._at_hand is None or self._read_now is None:
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
        if self._at_hand is None:
            return None
        kept = self._at_hand.now(key)
        return None if kept is None or kept.theirs > known else kept.version

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
        rows = await self._store.read(lambda conn: _STEPS.all(conn, key, keeping.STEPS, after, max(0, limit)))
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
        self._store.soon_together(self._write, _adding(new, keep, 0), done)

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
        return await self._store.run_together(self._write, act)


def _look_of(backend: Backend) -> Callable[[bytes, Sequence[Any]], list[tuple[Any, ...]]] | None:
    if backend.name == "sqlite":
        return None
    from callgate.store.postgres import PostgresBackend, PostgresReader

    assert isinstance(backend, PostgresBackend)
    return PostgresReader(backend).rows


def _adding(new: NewStep, keep: int, expires_at: int) -> SessionChange:
    keeping.check(new)
    body = keeping.packed(new.step)
    return SessionChange(new.session, lambda draft: draft.add(new, body, keep, expires_at), new.objects, expires_at)


def _nothing(_driver: object, items: Sequence[Any]) -> Sequence[Any]:
    return items
