"""The store as the rest of Callgate sees it: async on the hot path, plain connections for the command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from callgate.audit.records import AuditRow
from callgate.errors import StoreError, StoreUnavailable
from callgate.store import migrate
from callgate.store.audit import AuditTables
from callgate.store.backend import Backend, choose
from callgate.store.schema import HEAD, VERSIONS
from callgate.store.writer import Job, Together, Writer

T = TypeVar("T")

QUEUE: Final = 20_000
READERS: Final = 2
CLOSE_SECONDS: Final = 10.0
_WATCHDOG_SECONDS: Final = 0.5


class Store:
    """One store; open it with `Store.open`."""

    def __init__(self, backend: Backend, *, busy_seconds: float, queue: int = QUEUE) -> None:
        self._backend = backend
        self._patience = busy_seconds + 1.0
        self._writer = Writer(backend, limit=queue)
        self._writer_started = False
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="callgate-reader")
        self._watchdog: asyncio.TimerHandle | None = None
        self._watching = Lock()
        self._watcher: Thread | None = None
        self._watchers: list[Callable[[], None]] = []
        self._stop = Event()
        self._closed = False

    @classmethod
    def open(
        cls,
        url: str,
        *,
        durability: str = "full",
        busy_seconds: float = 5.0,
        create: bool = True,
        queue: int = QUEUE,
    ) -> Store:
        """Open a store, creating the schema in an empty one; refuses one of another schema version."""
        store = cls.connect(url, durability=durability, busy_seconds=busy_seconds, create=create, queue=queue)
        try:
            with store.reading() as conn:
                found = migrate.version(conn)
            if found is None and create:
                store.upgrade(only_empty=True)
            elif found is None:
                raise StoreUnavailable("the store is empty", advice="Create it with `callgate store upgrade`.")
            else:
                migrate.require_current(found)
        except BaseException:
            store.close_sync()
            raise
        return store

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        durability: str = "full",
        busy_seconds: float = 5.0,
        create: bool = False,
        queue: int = QUEUE,
    ) -> Store:
        """Open a store whatever its schema is, to look at it or to upgrade it."""
        backend = choose(url, durability=durability, busy_seconds=busy_seconds)
        backend.prepare(create=create)
        return cls(backend, busy_seconds=busy_seconds, queue=queue)

    def upgrade(self, *, only_empty: bool = False) -> tuple[str | None, str]:
        """Run the migrations under a lock that other processes wait for."""
        with self.writing() as conn:
            self._backend.lock_schema(conn)
            found = migrate.version(conn)
            if found is not None and (only_empty or found not in VERSIONS):
                migrate.require_current(found)
            if found != HEAD:
                migrate.upgrade(conn)
            return found, HEAD

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._backend.name

    @property
    def backend(self) -> Backend:
        return self._backend

    @property
    def queued(self) -> int:
        """How many writes wait."""
        return self._writer.queued

    @property
    def lost(self) -> int:
        """How many records of `append_soon` could never be written."""
        return self._writer.lost

    # -- the hot path ------------------------------------------------------------------------------------------

    async def append(self, row: AuditRow) -> None:
        """Write one audit row; durable when this returns."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if not self._writer_started:
            self._start_writer()
        self._writer.put(Job(row, None, future, time.monotonic()))
        if self._watchdog is None:
            self._watchdog = loop.call_later(_WATCHDOG_SECONDS, self._watch_stuck, loop)
        await future

    def append_soon(self, row: AuditRow) -> None:
        """Write one audit row with the next batch; tried again if the store is unavailable for a while."""
        if not self._writer_started:
            self._start_writer()
        self._writer.put(Job(row, None, None, time.monotonic()))

    async def run(self, operation: Callable[[Connection], T]) -> T:
        """Run a writing operation in the next batch's transaction, under a savepoint of its own.

        It runs again from the start if another write of its batch cannot be made, so its effects must all be
        in the database. What it raises reaches the caller, and nothing of it is kept.
        """
        done: T = await self._queue(operation)
        return done

    async def run_together(self, together: Together, item: Any) -> Any:
        """Write an item with all others of its kind in the next batch, durable on return; `together` names the kind.

        Where that fails each is written alone, and one that cannot be written even so reports `StoreUnavailable`.
        """
        return await self._queue(None, together, item)

    def _queue(
        self,
        operation: Callable[[Connection], Any] | None,
        together: Together | None = None,
        item: Any = None,
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._writer_started:
            self._start_writer()
        self._writer.put(Job(None, operation, future, time.monotonic(), together=together, item=item))
        if self._watchdog is None:
            self._watchdog = loop.call_later(_WATCHDOG_SECONDS, self._watch_stuck, loop)
        return future

    def soon_together(self, together: Together, item: Any, done: Callable[[Any], None]) -> None:
        """The same with the next batch, and nobody waits: `done` is called on this event loop with what became of it,
        None where it could not be written."""
        told = asyncio.get_running_loop(), done
        if not self._writer_started:
            self._start_writer()
        self._writer.put(Job(None, None, None, time.monotonic(), together=together, item=item, told=told))

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a reading operation beside the writer."""
        return await self.apart(lambda: self._read(query))

    async def apart(self, work: Callable[[], T]) -> T:
        """Run what reads in its own way on a thread that may wait."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._patience):
                return await loop.run_in_executor(self._readers, work)
        except TimeoutError:
            raise StoreUnavailable(
                f"the store did not answer within {self._patience:g} s", advice="Run `callgate store check`."
            ) from None
        except RuntimeError as error:
            if self._closed:
                raise StoreUnavailable("the store is closed", advice="Start the gateway again.") from error
            raise

    def _start_writer(self) -> None:
        with self._watching:
            if not self._writer_started and not self._closed:
                self._writer_started = True
                self._writer.start()

    def _watch_stuck(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nobody waits for ever, even if the disk never answers the writer thread."""
        self._watchdog = None
        waiting = [job for job in self._writer.waiting() if job.future is not None and not job.future.done()]
        if not waiting:
            return
        too_old = time.monotonic() - self._patience
        for job in waiting:
            if job.since < too_old and job.future is not None and job.future.get_loop() is loop:
                job.future.set_exception(
                    StoreUnavailable(
                        f"the store did not take a write within {self._patience:g} s",
                        advice="Run `callgate store check`.",
                    )
                )
        self._watchdog = loop.call_later(_WATCHDOG_SECONDS, self._watch_stuck, loop)

    def _read(self, query: Callable[[Connection], T]) -> T:
        with self.reading() as conn:
            return query(conn)

    # -- plain connections -------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection with one consistent view of the store."""
        with self._reporting(), self._backend.engine.connect() as conn:
            # SQLite's readers have that by themselves (WAL).
            if self.kind != "sqlite":
                conn = conn.execution_options(isolation_level="REPEATABLE READ")
            with conn.begin():
                yield conn

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a write transaction, committed at the end of the block."""
        with self._reporting(), self._writer.turn, self._backend.engine.connect() as conn:
            conn = conn.execution_options(callgate_writes=True)
            with conn.begin():
                yield conn

    @contextmanager
    def audit_reading(self) -> Iterator[AuditTables]:
        """The audit log's tables in one consistent view; text in them is not believed to be text."""
        with self.reading() as conn, self._backend.doubting(conn):
            yield AuditTables(conn, self._backend)

    @contextmanager
    def audit_writing(self) -> Iterator[AuditTables]:
        """The audit log's tables in a write transaction."""
        with self.writing() as conn:
            yield AuditTables(conn, self._backend)

    def settled(self) -> int:
        """The newest audit record, where no smaller id can appear any more."""
        with self.reading() as conn:
            return self._backend.settled(conn)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            known = self._backend.unavailable(error)
            if known is None:
                raise
            raise known from error

    def insert(self, conn: Connection, row: AuditRow) -> None:
        """Append an audit row inside a transaction of `writing` or `run`."""
        AuditTables(conn, self._backend).insert(row)

    # -- changes by others -------------------------------------------------------------------------------------

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed`, on a thread of the store, soon after other processes change a switch.

        It may be called without need. Returns the function that ends it.
        """
        with self._watching:
            self._watchers.append(changed)
            if self._watcher is None:
                self._watcher = Thread(
                    target=self._backend.watch, args=(self._tell, self._stop), name="callgate-watch", daemon=True
                )
                self._watcher.start()
        return lambda: self._unwatch(changed)

    def _unwatch(self, changed: Callable[[], None]) -> None:
        with self._watching:
            if changed in self._watchers:
                self._watchers.remove(changed)

    def _tell(self) -> None:
        for changed in list(self._watchers):
            changed()

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait, on a thread that may block, until everything queued so far is written; False if it takes too long."""
        deadline = time.monotonic() + timeout
        while self._writer.waiting() or self._writer.queued:
            if time.monotonic() > deadline or not self._writer_started:
                return False
            self._stop.wait(0.005)
        return True

    # -- the end -----------------------------------------------------------------------------------------------

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Write what is queued and let go of the database, in bounded time."""
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        await asyncio.get_running_loop().run_in_executor(None, self.close_sync, timeout)

    def close_sync(self, timeout: float = CLOSE_SECONDS) -> None:
        """The same without an event loop."""
        with self._watching:
            if self._closed:
                return
            self._closed = True
        self._stop.set()
        self._writer.close(timeout)
        if self._watcher is not None:
            self._watcher.join(timeout)
        self._readers.shutdown(wait=True, cancel_futures=True)
        self._backend.engine.dispose()
