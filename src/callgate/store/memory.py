"""A store in the memory of one process: the same tables in SQLite's `:memory:`, for libraries and tests."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.pool import StaticPool

from callgate.agents import storage
from callgate.agents.nonces import MemoryNonces
from callgate.agents.storage import BucketState, Fetched, NonceUse, Take
from callgate.audit.records import AuditRow
from callgate.audit.storage import Consumable
from callgate.store import migrate
from callgate.store.agents import SqlAgents
from callgate.store.front import Job, Store, T, Together
from callgate.store.sqlite import SqliteBackend

log = logging.getLogger(__name__)

_PRUNE_EVERY: Final = 500
_BYTES: Final = "SELECT coalesce(sum(length(body)), 0) FROM agent_directory"


class MemoryStore(Store):
    """One connection, and every operation runs at once on the thread that asks. It need not be closed."""

    def __init__(self) -> None:
        backend = _MemoryBackend()
        super().__init__(backend, busy_seconds=0.0)
        weakref.finalize(self, backend.engine.dispose)

    async def append(self, row: AuditRow | None, uses: tuple[Consumable, ...] = ()) -> list[Any]:
        job = Job(row, None, None, 0.0, uses=uses)
        self._writer.write_now(job)
        if job.error is not None:
            raise job.error
        return job.result or []

    def append_soon(self, row: AuditRow) -> None:
        job = Job(row, None, None, 0.0)
        self._writer.write_now(job)
        if job.error is not None:
            self._writer.lost += 1
            log.error("a record could not be written and is lost: %s", job.error)

    def run_together(
        self, together: Together | None, item: Any, operation: Callable[[Connection], Any] | None = None
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job = Job(None, operation, None, 0.0, together=together, item=item)
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
        super().__init__(MemoryStore(), budgets=budgets)
        self._nonces = MemoryNonces(nonces)
        self._spent = 0
        self.write_nonces = self._take_each

    def _take_each(self, _driver: object, uses: Sequence[NonceUse]) -> list[bool]:
        return [self._nonces.take_digest(use.digest, use.expires_at, use.now) for use in uses]

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        return self._nonces.take(scope, nonce, expires_at, now)

    async def keep_directory(self, fetched: Fetched) -> bool:
        kept = await super().keep_directory(fetched)
        while (await self._look(_BYTES))[0][0] > storage.MEMORY_BYTES:
            await self._drop_directory(besides=fetched.url)
        return kept

    async def spend_all(self, takes: Sequence[Take], now: int) -> Sequence[BucketState]:
        self._spent += 1
        if self._spent % _PRUNE_EVERY == 0:
            await super().prune(now)
        return await super().spend_all(takes, now)

    async def prune(self, now: int) -> int:
        return self._nonces.sweep(now) + await super().prune(now)


class _MemoryBackend(SqliteBackend):
    """SQLite without a file, of which nobody else knows."""

    def __init__(self) -> None:
        super().__init__(URL.create("sqlite", database="memory"), durability="normal", busy_seconds=0.0)
        self.place = ""
        self.changes.close()
        # Kept, because the pool rolls back what it gets back.
        self._connection = self.engine.raw_connection()
        driver = self._connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        self._driver = driver
        driver.deserialize(_empty())

    def _make_engine(self, options: dict[str, Any]) -> Engine:
        return create_engine("sqlite://", poolclass=StaticPool, connect_args=options)

    def confirm(self) -> None:
        """No file can be replaced."""

    def read_now(self, statement: str, *values: object) -> list[tuple[Any, ...]] | None:
        try:
            return self._driver.execute(statement, values).fetchall()
        except Exception:  # noqa: BLE001 — whatever it is, the caller asks the slow way and hears of it there
            return None


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
