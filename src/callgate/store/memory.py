"""A store in the memory of one process: the same tables in SQLite's `:memory:`, for libraries and tests."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.pool import StaticPool

from callgate.agents import storage
from callgate.agents.storage import BucketState, Fetched, Take
from callgate.audit.records import AuditRow
from callgate.canonical import parts_hash
from callgate.errors import Reason, Refused
from callgate.store import migrate
from callgate.store.agents import TAKE_NONCE, SqlAgents
from callgate.store.front import Store, T
from callgate.store.sqlite import SqliteBackend
from callgate.store.writer import Job, Together

_PRUNE_EVERY: Final = 500
_NONCES: Final = "SELECT count(*) FROM agent_nonce"
_SWEEP: Final = "DELETE FROM agent_nonce WHERE digest IN (SELECT digest FROM agent_nonce WHERE expires_at < ? LIMIT ?)"
_BYTES: Final = "SELECT coalesce(sum(length(body)), 0) FROM agent_directory"
_KNOWN: Final = "SELECT 1 FROM agent_nonce WHERE digest = ? AND expires_at >= ?"


class MemoryStore(Store):
    """One connection, and every operation runs at once on the thread that asks. It need not be closed."""

    def __init__(self) -> None:
        backend = _MemoryBackend()
        super().__init__(backend, busy_seconds=0.0)
        self._memory = backend
        weakref.finalize(self, backend.engine.dispose)

    def _queue(
        self,
        row: AuditRow | None,
        operation: Callable[[Connection], Any] | None,
        together: Together | None = None,
        item: Any = None,
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job = Job(row, operation, None, 0.0, together=together, item=item)
        self._writer.write_now(job)
        if job.error is not None:
            future.set_exception(job.error)
        else:
            future.set_result(job.result)
        if operation is not None:
            self._tell()
        return future

    def soon_together(self, together: Together, item: Any, done: Callable[[Any], None]) -> None:
        job = Job(None, None, None, 0.0, together=together, item=item)
        self._writer.write_now(job)
        done(None if job.error is not None else job.result)

    def execute(self, statement: str, *values: object) -> int:
        """Run one statement that writes; how many rows it changed."""
        with self._writer.turn:
            return self._memory.driver.execute(statement, values).rowcount

    async def apart(self, work: Callable[[], T]) -> T:
        return work()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._writer.turn, super().reading() as conn:
            yield conn

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with super().writing() as conn:
            yield conn
        self._tell()

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._watchers.append(changed)
        return lambda: self._unwatch(changed)


class MemoryAgents(SqlAgents):
    """The agents' repository for one process. What it holds is bounded, because there is nobody who prunes it."""

    def __init__(self, *, nonces: int = storage.NONCES, budgets: int = storage.BUDGETS) -> None:
        self._memory = MemoryStore()
        super().__init__(self._memory, budgets=budgets)
        self._most = nonces
        self._held = 0
        # Counted apart: where one call does both, every five hundredth use would always be of one kind.
        self._uses = 0
        self._spent = 0

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        if expires_at < now:
            return False
        self._uses += 1
        due = self._uses % _PRUNE_EVERY == 0
        if due or self._held >= self._most:
            self._held -= self._memory.execute(_SWEEP, now - storage.GRACE_MS, 4 * _PRUNE_EVERY)
        if due and self._held >= self._most:
            # One that was taken again after its time was counted twice.
            self._held = (await self._look(_NONCES))[0][0]
        digest = parts_hash(scope, nonce)
        if self._held >= self._most:
            if await self._look(_KNOWN, digest, now):
                return False
            raise Refused(Reason.OVERLOADED, "too many requests were signed of late to know all of them apart")
        # One statement is one transaction, and verifying a signature should not wait for more than that.
        new = self._memory.execute(TAKE_NONCE, digest, storage.moment(expires_at), storage.moment(now)) == 1
        self._held += new
        return new

    async def keep_directory(self, fetched: Fetched) -> bool:
        kept = await super().keep_directory(fetched)
        while (await self._look(_BYTES))[0][0] > storage.MEMORY_BYTES:
            await self._drop_directory(besides=fetched.url)
        return kept

    async def spend_all(self, takes: Sequence[Take], now: int) -> Sequence[BucketState]:
        self._spent += 1
        if self._spent % _PRUNE_EVERY == 0:
            await self.prune(now)
        return await super().spend_all(takes, now)

    async def prune(self, now: int) -> int:
        gone = await super().prune(now)
        self._held = (await self._look(_NONCES))[0][0]
        return gone


class _MemoryBackend(SqliteBackend):
    """SQLite without a file, of which nobody else knows."""

    def __init__(self) -> None:
        super().__init__(URL.create("sqlite", database="memory"), durability="normal", busy_seconds=0.0)
        self.changes.close()
        # Kept, because the pool rolls back what it gets back.
        self._connection = self.engine.raw_connection()
        driver = self._connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        self.driver = driver
        driver.deserialize(_empty())

    def _make_engine(self, options: dict[str, Any]) -> Engine:
        return create_engine("sqlite://", poolclass=StaticPool, connect_args=options)

    def confirm(self) -> None:
        """No file can be replaced."""

    def read_now(self, statement: str, *values: object) -> list[tuple[Any, ...]] | None:
        return self.driver.execute(statement, values).fetchall()


@cache
def _empty() -> bytes:
    """A database with our tables; the migrations that make them are most of the cost of a store."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as conn:
        migrate.upgrade(conn)
    driver: Any = engine.raw_connection().driver_connection
    made = bytes(driver.serialize())
    engine.dispose()
    return made
