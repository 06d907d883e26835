"""The shelf of trust on a store: sessions with their steps, tainted objects, results kept back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from callgate.audit.rows import AuditRow
from callgate.store.backend import Backend
from callgate.store.front import Store
from callgate.store.sqlite import SqliteBackend
from callgate.store.trust_asking import Asking
from callgate.store.trust_draft import Act, session_of
from callgate.store.trust_held import SqlHeld
from callgate.store.trust_pruning import prune
from callgate.store.trust_sessions import COLUMNS, Ledger
from callgate.store.trust_sql import Sql
from callgate.trust import keeping
from callgate.trust.model import Session, SessionLabel, Step
from callgate.trust.storage import NewStep

_VERSION: Final = "SELECT version FROM trust_session WHERE key = ?"
_VERSIONS: Final = Sql("SELECT key, version FROM trust_session WHERE key IN (SELECT value FROM json_each(?))")
_VERSIONS_LOOKED: Final = b"SELECT key, version FROM trust_session WHERE key = ANY(%b::text[])"
_SESSION: Final = Sql(f"SELECT {COLUMNS} FROM trust_session WHERE key = ?")  # noqa: S608
_SESSIONS: Final = Sql(
    f"SELECT key, {COLUMNS} FROM trust_session WHERE seen_at < ? ORDER BY seen_at DESC, key LIMIT ?"  # noqa: S608
)
# Steps and memory that are to go are not read any more, though some are still there.
_STEPS: Final = Sql(
    "SELECT t.body, t.seq, CASE WHEN t.seq > s.forgot THEN t.memory ELSE x'' END FROM trust_session AS s"
    " JOIN trust_step AS t ON t.session = s.key"
    " WHERE s.key = ? AND t.seq > s.steps - ? AND t.seq > ? ORDER BY t.seq DESC LIMIT ?",
    "SELECT t.body, t.seq, CASE WHEN t.seq > s.forgot THEN t.memory ELSE '' END FROM trust_session AS s"
    " JOIN trust_step AS t ON t.session = s.key"
    " WHERE s.key = ? AND t.seq > s.steps - ? AND t.seq > ? ORDER BY t.seq DESC LIMIT ?",
)
_ENDORSED: Final = Sql("SELECT digest FROM trust_endorsed WHERE session = ?")
_TAINTED: Final = "SELECT digest FROM trust_object WHERE expires_at > ? AND digest IN (SELECT value FROM json_each(?))"
_TAINTED_ASKED: Final = Sql(
    _TAINTED,
    "SELECT digest FROM trust_object WHERE expires_at > ? AND digest IN (SELECT json_array_elements_text(?::json))",
)
_END_OF_TIME: Final = 2**62


class SqlTrust(SqlHeld):
    """The trust room's `TrustShelf`. A witness is an `AuditRow` written in the same transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._write = Ledger(store.backend).write
        self._asking = Asking(self._versions)
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
        opened: Session = await self._act(Act(key, lambda draft: draft.open(agent, now, idle_ms)))
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
        kept = None if self._at_hand is None else self._at_hand.now(key)
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
        act = Act(key, lambda draft: draft.declassify(label, by, note, now), witness=witness, lessens=True)
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

    async def _act(self, act: Act) -> Any:
        return await self._store.run_together(self._write, act)


def _look_of(backend: Backend) -> Callable[[bytes, Sequence[Any]], list[tuple[Any, ...]]] | None:
    if backend.name == "sqlite":
        return None
    from callgate.store.postgres import PostgresBackend
    from callgate.store.postgres_look import Look

    assert isinstance(backend, PostgresBackend)
    return Look(backend).rows


def _adding(new: NewStep, keep: int, expires_at: int) -> Act:
    keeping.check(new)
    body = keeping.packed(new.step)
    return Act(new.session, lambda draft: draft.add(new, body, keep, expires_at), new.objects, expires_at)


def _nothing(_driver: object, items: Sequence[Any]) -> Sequence[Any]:
    return items


__all__ = ["SqlTrust"]
