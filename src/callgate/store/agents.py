"""The repository of agents: nonces, token buckets, API keys, listed agents, directories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection

from callgate.agents import limits, storage
from callgate.agents.limits import Asked, spend
from callgate.agents.model import ApiKey
from callgate.agents.storage import BucketState, Fetched, Listed, NonceUse, Take
from callgate.canonical import parts_hash
from callgate.store.backend import Backend
from callgate.store.front import Store
from callgate.store.sqlite import SqliteBackend
from callgate.store.statements import SWEEP_ROWS, Repository, Statement, pack, sweep, sweeping, unpack

_BUCKET: Final = "SELECT full_at FROM agent_budget WHERE key = ?"
_PUT_BUCKET: Final = (
    "INSERT INTO agent_budget (key, full_at) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at"
)
# PostgreSQL: makes the rows that are not there and locks those that are, in one order over all processes. Nothing is
# updated, but what conflicts is locked all the same, so nobody can drop it before it is read.
_LOCK_BUCKETS: Final = (
    b"INSERT INTO agent_budget (key, full_at) SELECT k, 0 FROM unnest(%b::bytea[]) AS n(k) ORDER BY k"
    b" ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at WHERE false"
)
_BUCKETS: Final = b"SELECT key, full_at FROM agent_budget WHERE key = ANY(%b::bytea[])"
_PUT_BUCKETS: Final = (
    b"UPDATE agent_budget AS b SET full_at = n.f FROM unnest(%b::bytea[], %b::float8[]) AS n(k, f) WHERE b.key = n.k"
)


# What one caller takes, from all buckets or from none, and when.
BudgetUse: TypeAlias = tuple[Asked, int]


class BudgetWriter:
    """Writes what a batch takes. The buckets are locked first (SQLite: the file is), so nothing is spent twice."""

    lock_order: Final = 1

    def __init__(self, backend: Backend) -> None:
        self._changes = backend.changes if isinstance(backend, SqliteBackend) else None

    def write(self, driver: Any, spendings: Sequence[BudgetUse]) -> list[list[BucketState]]:
        before = self._load(driver, {key for wanted, _ in spendings for key, _ in wanted})
        buckets = dict(before)
        changed: dict[bytes, float] = {}
        results = []
        for wanted, now in spendings:
            after, budgets = spend(buckets, wanted, now)
            buckets.update(after)
            changed.update(after)
            results.append(budgets)
        self._save(driver, changed)
        # A row that is written as it was is not always written.
        if self._changes is not None and any(before.get(key) != full_at for key, full_at in changed.items()):
            self._changes.wrote()
        return results

    def _load(self, driver: Any, keys: Collection[bytes]) -> dict[bytes, float]:
        if self._changes is not None:
            found = ((key, driver.execute(_BUCKET, (key,)).fetchone()) for key in keys)
            return {key: row[0] for key, row in found if row is not None}
        wanted = list(keys)
        driver.execute(_LOCK_BUCKETS, (wanted,))
        return {bytes(key): full_at for key, full_at in driver.execute(_BUCKETS, (wanted,), binary=True).fetchall()}

    def _save(self, driver: Any, changed: dict[bytes, float]) -> None:
        if not changed:
            return
        if self._changes is not None:
            driver.executemany(_PUT_BUCKET, list(changed.items()))
        else:
            driver.execute(_PUT_BUCKETS, (list(changed), list(changed.values())))


# A row whose time is over counts as none, whether it was swept out already or not.
_TAKE_NONCE: Final = (
    "INSERT INTO agent_nonce (digest, expires_at) VALUES (?, ?) ON CONFLICT (digest)"
    " DO UPDATE SET expires_at = excluded.expires_at WHERE agent_nonce.expires_at < ?"
)
# PostgreSQL: in one order over all processes, so that batches wait for each other but never in a circle.
_TAKE_NONCES: Final = (
    b"INSERT INTO agent_nonce (digest, expires_at) SELECT d, e FROM unnest(%b::bytea[], %b::int8[]) AS n(d, e)"
    b" ORDER BY d ON CONFLICT (digest)"
    b" DO UPDATE SET expires_at = excluded.expires_at WHERE agent_nonce.expires_at < %b::int8 RETURNING digest"
)


class NonceWriter:
    """Writes the nonces of a batch; for each, whether it was new. Ahead of budgets: a replay uses up nobody's."""

    lock_order: Final = 0

    def __init__(self, backend: Backend) -> None:
        self._changes = backend.changes if isinstance(backend, SqliteBackend) else None

    def write(self, driver: Any, nonces: Sequence[NonceUse]) -> list[bool]:
        if self._changes is not None:
            taken = [driver.execute(_TAKE_NONCE, (one.digest, one.expires_at, one.now)).rowcount == 1 for one in nonces]
            if any(taken):
                self._changes.wrote()
            return taken
        # Of equal ones in a batch the first may pass, and never two.
        firsts: dict[bytes, NonceUse] = {}
        for one in nonces:
            firsts.setdefault(one.digest, one)
        earliest = min(one.now for one in nonces)
        columns = list(firsts), [one.expires_at for one in firsts.values()]
        rows = driver.execute(_TAKE_NONCES, (*columns, earliest), binary=True).fetchall()
        new = {bytes(row[0]) for row in rows}
        return [one.digest in new and firsts[one.digest] is one for one in nonces]


_VERSION: Final = "SELECT version, flushed FROM agent_head"
_CHANGED: Final = Statement(
    "INSERT INTO agent_head (id, version, flushed) VALUES (1, 1, 0)"
    " ON CONFLICT (id) DO UPDATE SET version = agent_head.version + 1"
)
_FLUSHED: Final = Statement("UPDATE agent_head SET flushed = version")
_KEY: Final = "SELECT body FROM agent_key WHERE id = ?"
_KEYS: Final = Statement("SELECT body FROM agent_key ORDER BY created_at, id")
_KEY_COUNT: Final = Statement("SELECT count(*) FROM agent_key")
_ADD_KEY: Final = Statement(
    "INSERT INTO agent_key (id, created_at, revoked_at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_REVOKE_KEY: Final = Statement("UPDATE agent_key SET revoked_at = ?, body = ? WHERE id = ? AND revoked_at IS NULL")
_DROP_REVOKED: Final = Statement(
    "DELETE FROM agent_key WHERE id IN"
    " (SELECT id FROM agent_key WHERE revoked_at IS NOT NULL ORDER BY revoked_at, id LIMIT 1)"
)
_LISTED: Final = Statement("SELECT body FROM agent_listed WHERE key = ?")
_ALL_LISTED: Final = Statement("SELECT key, body FROM agent_listed")
_LISTED_COUNT: Final = Statement("SELECT count(*) FROM agent_listed")
_PUT_LISTED: Final = Statement(
    "INSERT INTO agent_listed (key, body) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body"
)
_DROP_LISTED: Final = Statement("DELETE FROM agent_listed WHERE key = ?")
_DIRECTORY: Final = "SELECT body FROM agent_directory WHERE key = ?"
_PUT_DIRECTORY: Final = Statement(
    "INSERT INTO agent_directory (key, fetched, tried_at, body) VALUES (?, ?, ?, ?) ON CONFLICT (key)"
    " DO UPDATE SET fetched = excluded.fetched, tried_at = excluded.tried_at, body = excluded.body"
)
_DIRECTORY_COUNT: Final = Statement("SELECT count(*) FROM agent_directory")
_DROP_LEAST: Final = Statement(
    "DELETE FROM agent_directory WHERE key IN"
    " (SELECT key FROM agent_directory WHERE key <> ? ORDER BY fetched, tried_at, key LIMIT ?)"
)
_DROP_DIRECTORY: Final = Statement("DELETE FROM agent_directory WHERE key = ?")
_DROP_DIRECTORIES: Final = Statement("DELETE FROM agent_directory")


_SWEEP_NONCES: Final = sweeping("DELETE FROM agent_nonce", "agent_nonce", "digest", "expires_at < ?")
_SWEEP_FULL: Final = sweeping("DELETE FROM agent_budget", "agent_budget", "key", "full_at <= ?")
_BUCKET_COUNT: Final = Statement("SELECT count(*) FROM agent_budget")
_FULL_SOONEST: Final = Statement(
    "DELETE FROM agent_budget WHERE key IN (SELECT key FROM agent_budget ORDER BY full_at LIMIT ?)",
    "DELETE FROM agent_budget WHERE key IN"
    " (SELECT key FROM agent_budget ORDER BY full_at LIMIT ? FOR UPDATE SKIP LOCKED)",
)


class SqlAgents(Repository):
    """The agents room's `AgentRepository`."""

    def __init__(self, store: Store, *, budgets: int | None = None) -> None:
        super().__init__(store)
        backend = store.backend
        self._read_now = backend.read_now if isinstance(backend, SqliteBackend) else None
        self._most_budgets = budgets
        self.write_nonces: Callable[[Any, Sequence[NonceUse]], list[bool]] = NonceWriter(backend).write
        self.write_budgets = BudgetWriter(backend).write

    # -- keys --------------------------------------------------------------------------------------------------

    async def add_key(self, key: ApiKey) -> None:
        storage.demand_key(key)

        def add(conn: Connection) -> None:
            if _KEY_COUNT.all(conn)[0][0] >= storage.KEYS and _DROP_REVOKED.run(conn).rowcount != 1:
                raise storage.full("keys", storage.KEYS)
            made = _ADD_KEY.run(conn, key.id, storage.moment(key.created_at), key.revoked_at, pack(key))
            if made.rowcount != 1:
                raise storage.taken(key)
            self._tell(conn)

        await self._change(add)

    async def key(self, key_id: str) -> ApiKey | None:
        if not key_id.isascii() or not key_id.isprintable():
            return None
        rows = await self._look(_KEY, key_id)
        return unpack(rows[0][0], ApiKey) if rows else None

    async def keys(self) -> Sequence[ApiKey]:
        rows = await self._store.read(_KEYS.all)
        return [unpack(row[0], ApiKey) for row in rows]

    async def revoke_key(self, key_id: str, now: int) -> bool:
        if not key_id.isascii() or not key_id.isprintable():
            return False

        def revoke(conn: Connection) -> bool:
            rows = Statement(_KEY).all(conn, key_id)
            after = storage.revoked(unpack(rows[0][0], ApiKey), now) if rows else None
            if after is None:
                return False
            _REVOKE_KEY.run(conn, after.revoked_at, pack(after), key_id)
            self._tell(conn)
            return True

        return await self._change(revoke)

    # -- agents ------------------------------------------------------------------------------------------------

    async def add_agent(self, listed: Listed) -> None:
        storage.demand_agent(listed)
        place = parts_hash(listed.directory, listed.thumbprint)

        def add(conn: Connection) -> None:
            rows = _LISTED.all(conn, place)
            before = unpack(rows[0][0], Listed) if rows else None
            if before is not None and before.agent != listed.agent:
                raise storage.listed_twice(before)
            if before is None and _LISTED_COUNT.all(conn)[0][0] >= storage.AGENTS:
                raise storage.full("agents", storage.AGENTS)
            _PUT_LISTED.run(conn, place, pack(listed))
            self._tell(conn)

        await self._change(add)

    async def remove_agent(self, agent: str, thumbprint: str = "") -> int:
        def remove(conn: Connection) -> int:
            found = [(row[0], unpack(row[1], Listed)) for row in _ALL_LISTED.all(conn)]
            gone = [
                place
                for place, listed in found
                if listed.agent == agent and (not thumbprint or listed.thumbprint == thumbprint)
            ]
            for place in gone:
                _DROP_LISTED.run(conn, place)
            if gone:
                self._tell(conn)
            return len(gone)

        return await self._change(remove)

    async def agents(self) -> Sequence[Listed]:
        rows = await self._store.read(_ALL_LISTED.all)
        found = [unpack(row[1], Listed) for row in rows]
        return sorted(found, key=lambda one: (one.agent, one.directory, one.thumbprint))

    # -- directories -------------------------------------------------------------------------------------------

    async def directory(self, url: str) -> Fetched | None:
        rows = await self._look(_DIRECTORY, parts_hash(url))
        return unpack(rows[0][0], Fetched) if rows else None

    async def keep_directory(self, fetched: Fetched) -> bool:
        storage.demand_directory(fetched)
        key = parts_hash(fetched.url)

        def keep(conn: Connection) -> bool:
            head = Statement(_VERSION).all(conn)
            if head and fetched.version < head[0][1]:
                return False
            rows = Statement(_DIRECTORY).all(conn, key)
            after = storage.merged(unpack(rows[0][0], Fetched) if rows else None, fetched)
            _PUT_DIRECTORY.run(conn, key, *storage.worth(after), pack(after))
            over = _DIRECTORY_COUNT.all(conn)[0][0] - storage.DIRECTORIES
            if over > 0:
                _DROP_LEAST.run(conn, key, over)
            return True

        return await self._change(keep)

    async def _drop_directory(self, *, besides: str) -> None:
        """The one that is of least use."""
        key = parts_hash(besides)
        await self._change(lambda conn: _DROP_LEAST.run(conn, key, 1))

    async def flush_directory(self, url: str | None, now: int) -> int:  # noqa: ARG002
        def flush(conn: Connection) -> int:
            done = _DROP_DIRECTORIES.run(conn) if url is None else _DROP_DIRECTORY.run(conn, parts_hash(url))
            gone = int(done.rowcount)
            self._tell(conn)
            _FLUSHED.run(conn)
            return gone

        return await self._change(flush)

    async def directories_version(self) -> int:
        rows = await self._look(_VERSION)
        return int(rows[0][0]) if rows else 0

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._store.watch(changed)

    def _tell(self, conn: Connection) -> None:
        _CHANGED.run(conn)
        self._store.backend.announce(conn)

    async def _look(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """A few rows, on this thread where nobody can make it wait."""
        rows = None if self._read_now is None else self._read_now(statement, *values)
        if rows is None:
            rows = await self._store.read(lambda conn: Statement(statement).all(conn, *values))
        return rows

    # -- nonces and token buckets ------------------------------------------------------------------------------

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        if expires_at < now:
            return False
        latest = storage.LATEST
        one = NonceUse(parts_hash(scope, nonce), max(0, min(expires_at, latest)), max(0, min(now, latest)))
        new: bool = await self._store.run_together(self.write_nonces, one)
        return new

    async def spend(self, bucket: str, cost: float, per_ms: float, burst: float, now: int) -> tuple[bool, float]:
        (budget,) = await self.spend_all([Take(bucket, per_ms, burst, cost)], now)
        return budget.ok, budget.wait_ms

    async def spend_all(self, takes: Sequence[Take], now: int) -> Sequence[BucketState]:
        # What has its key was checked when that was made.
        wanted = [(take.key, take) for take in takes] if all(take.key for take in takes) else limits.asked(takes)
        budgets: list[BucketState] = await self._store.run_together(self.write_budgets, (wanted, now))
        return budgets

    async def prune(self, now: int) -> int:
        return await asyncio.to_thread(self._prune, now)

    def _prune(self, now: int) -> int:
        """For a thread that may wait."""
        gone = sweep(self._store, _SWEEP_NONCES, now - storage.GRACE_MS) + sweep(self._store, _SWEEP_FULL, float(now))
        while True:
            with self._store.writing() as conn:
                spare = min(SWEEP_ROWS, _BUCKET_COUNT.all(conn)[0][0] - (self._most_budgets or storage.BUDGETS))
                done = _FULL_SOONEST.run(conn, spare).rowcount if spare > 0 else 0
            gone += done
            if not done:
                return gone
