"""The store as everything else sees it, and the thread that commits what is queued in one transaction."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from sqlalchemy import Connection

from callgate.audit.records import AuditRow
from callgate.audit.storage import Consumable
from callgate.errors import StoreError, StoreUnavailable
from callgate.store import migrate
from callgate.store.audit import AuditTables
from callgate.store.backend import Backend, choose
from callgate.store.schema import HEAD, VERSIONS

log = logging.getLogger(__name__)

# Writes all items of a batch at once, on the driver's connection; what became of each, in their order.
Together: TypeAlias = Callable[[Any, Sequence[Any]], Sequence[Any]]


class Job(msgspec.Struct, eq=False):
    """A row to append, an operation to run or an item to write with others, and the future that waits, if any; or who
    is told afterwards, and on which event loop.

    What a row `uses` is used up before it is written, each in its turn. The row is written only if all of it was there.
    """

    row: AuditRow | None
    operation: Callable[[Connection], Any] | None
    future: asyncio.Future[Any] | None
    since: float
    together: Together | None = None
    item: Any = None
    told: tuple[asyncio.AbstractEventLoop, Callable[[Any], None]] | None = None
    result: Any = None
    error: BaseException | None = None
    uses: tuple[Consumable, ...] = ()

    @property
    def abandoned(self) -> bool:
        """Whether its caller has stopped waiting, so that nothing must be written for it any more."""
        return self.future is not None and self.future.done()


def settle(jobs: Iterable[Job]) -> None:
    """Wake everyone who waits for these jobs; each event loop is woken once, whatever the number of jobs."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
        elif job.told is not None:
            loops.setdefault(job.told[0], []).append(job)
    for loop, waiting in loops.items():
        # A loop that has closed has nobody left to tell.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, waiting)


def _resolve(jobs: list[Job]) -> None:
    for job in jobs:
        future = job.future
        if job.told is not None:
            try:
                job.told[1](job.result if job.error is None else None)
            except Exception:  # one that fails must not keep the others waiting
                log.exception("a write was not taken note of")
        if future is None or future.done():
            continue
        if job.error is None:
            future.set_result(job.result)
        else:
            future.set_exception(job.error)


BATCH: Final = 1024
RETRY_SECONDS: Final = 0.5
LINGER_SECONDS: Final = 0.02
# Where several wait for the same commit, more are about to come: a moment's patience halves the commits. A lone caller
# never waits for this.
COMPANY: Final = 2
GATHER_SECONDS: Final = 0.0002
# How long a record that nobody waits for is tried again before it counts as lost.
KEEP_SECONDS: Final = 120.0


class Writer:
    """Takes jobs from any thread, commits them in batches on its own."""

    def __init__(self, backend: Backend, *, limit: int) -> None:
        self._backend = backend
        self._limit = limit
        self._jobs: deque[Job] = deque()
        self._again: deque[Job] = deque()
        self._current: Sequence[Job] = ()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._called = False
        self._dozing = False
        self._company = False
        self._closing = False
        self._conn: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="callgate-writer", daemon=True)
        # One writer at a time in this process: waiting here is fair, SQLite's busy handler sleeps.
        self.turn = threading.Lock()
        self.lost = 0
        # Why the last batch could not be written, if it could not.
        self.failing: str | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def queued(self) -> int:
        return len(self._jobs) + len(self._again)

    def put(self, job: Job) -> None:
        """Queue a job; refuses at once when too many wait or the store is closed."""
        if self._closing:
            raise StoreUnavailable("the store is closed", advice="Start the gateway again.")
        if len(self._jobs) + len(self._again) >= self._limit:
            raise StoreUnavailable(
                f"{self._limit} writes wait for the store already",
                advice="Run `callgate store check`; the disk or database is too slow or stuck.",
            )
        self._jobs.append(job)
        # What nobody waits for goes with the next batch, or after LINGER_SECONDS; it wakes only a thread fast asleep.
        if not self._called and (job.future is not None or self._dozing):
            self._called = True
            self._wake.put(None)

    def write_now(self, job: Job) -> None:
        """Commit one job on the calling thread; its error is kept with it."""
        with self.turn:
            try:
                self._write([job])
            except Exception as error:  # noqa: BLE001 - fail closed, as below
                self._backend.undone()
                self._abort()
                job.error = self._backend.unavailable(error) or StoreUnavailable(f"the store refused a write: {error}")

    def waiting(self) -> list[Job]:
        """Everything not settled yet, for the watchdog."""
        return [*self._current, *self._jobs.copy()]

    def close(self, timeout: float) -> bool:
        """Write what is queued, then stop; False if that took longer than `timeout`."""
        self._closing = True
        self._wake.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            if not self._called and not self._closing:
                self._sleep()
            if self._company:
                time.sleep(GATHER_SECONDS)
            # Reset before draining: a job that arrives meanwhile wakes us once too often, never once too few.
            self._called = False
            batch: list[Job] = []
            self._drain(batch)
            if batch:
                with self.turn:
                    self._commit(batch)
            self._current = ()
            self._company = sum(job.future is not None for job in batch) >= COMPANY and not self._closing
            if self._closing and not self._jobs:
                break
        self._finish()

    def _sleep(self) -> None:
        """Wait for a job somebody waits for; first lightly, so that a busy store is not woken for each other one."""
        with suppress(queue.Empty):
            self._wake.get(timeout=RETRY_SECONDS if self._again else LINGER_SECONDS)
            return
        self._dozing = True
        # A job that came before the line above did not see it, so it is looked for after it.
        if not self._jobs and not self._again:
            self._wake.get()
        self._dozing = False

    def _drain(self, batch: list[Job]) -> None:
        """Move what is queued into the batch; at every moment a job is in one of the two, for `waiting`."""
        self._current = batch
        for source in (self._again, self._jobs):
            while source and len(batch) < BATCH:
                if not source[0].abandoned:
                    batch.append(source[0])
                source.popleft()

    def _commit(self, batch: Sequence[Job]) -> None:
        try:
            self._write(batch)
            self._backend.confirm()
        except Exception as error:  # noqa: BLE001 — fail closed: whatever happened, nobody may think it is durable
            self._failed(batch, error)
            return
        self.failing = None
        settle(batch)

    def _write(self, batch: Sequence[Job]) -> None:
        conn = self._connection()
        driver = conn.connection.driver_connection
        rows = [job.row for job in batch if job.row is not None and not job.uses]
        if len(rows) == len(batch):
            self._backend.insert(driver, rows)
            return
        if not any(job.operation is not None for job in batch):
            with self._backend.together(driver):
                self._backend.begin(driver)
                self._write_together(driver, batch, rows)
                self._backend.commit(driver)
            return
        with conn.begin():
            for job in batch:
                if job.operation is not None:
                    self._perform(conn, job)
            self._write_together(driver, batch, rows)

    def _write_together(self, driver: Any, batch: Sequence[Job], rows: Sequence[AuditRow]) -> None:
        """After the operations: whatever they lock is locked first, in every process."""
        kinds: dict[Together, list[tuple[Job, Consumable | None]]] = {}
        for job in batch:
            if job.together is not None:
                kinds.setdefault(job.together, []).append((job, None))
            if job.uses:
                job.result, job.error = [], None
                for one in job.uses:
                    kinds.setdefault(one.write, []).append((job, one))
        # In one order over all processes: two batches that lock the same rows wait for each other, never in a circle.
        # The same order has a nonce before a budget: who sends a request again uses up nothing of its sender's.
        for write, wanted in sorted(kinds.items(), key=lambda kind: _lock_order(kind[0])):
            jobs = [(job, use) for job, use in wanted if use is None or _holds(job)]
            items = [job.item if use is None else use.item for job, use in jobs]
            for (job, used), result in zip(jobs, write(driver, items) if items else (), strict=True):
                if used is None:
                    job.result, job.error = result, None
                else:
                    job.result.append(result)
        rows = [*rows, *(job.row for job in batch if job.uses and job.row is not None and _holds(job))]
        if rows:
            self._backend.insert_within(driver, rows)

    def _perform(self, conn: Connection, job: Job) -> None:
        assert job.operation is not None
        job.result, job.error = None, None
        try:
            with conn.begin_nested():
                job.result = job.operation(conn)
        except Exception as error:
            if self._backend.unavailable(error) is not None:
                raise
            # Its own failure: rolled back to its savepoint, reported to its caller, the others go on.
            job.error = error

    def _connection(self) -> Connection:
        if self._conn is None:
            self._conn = self._backend.engine.connect().execution_options(callgate_writes=True)
        return self._conn

    def _failed(self, batch: Sequence[Job], error: Exception) -> None:
        self._backend.undone()
        self._abort()
        cause = self._backend.unavailable(error)
        if cause is None and (len(batch) > 1 or self._backend.outdated(error)):
            # One of them cannot be written at all; alone, it does not take the others with it.
            for job in batch:
                self._commit([job])
            return
        transient = cause is not None
        if cause is None:
            log.error("a write failed", exc_info=error)
            cause = StoreUnavailable(f"the store refused a write: {error}", advice="Run `callgate store check`.")
        else:
            log.warning("store unavailable: %s", cause)
            self.failing = str(cause)
        for job in batch:
            job.error = cause
            if job.future is None and job.told is None:
                self._retry(job, transient=transient)
        settle(batch)

    def _retry(self, job: Job, *, transient: bool) -> None:
        young = time.monotonic() - job.since < KEEP_SECONDS
        if transient and young and len(self._again) < self._limit and not self._closing:
            self._again.append(job)
            return
        self.lost += 1
        log.error("a record could not be written and is lost (%d so far)", self.lost)

    def _abort(self) -> None:
        """Leave the failed transaction; a connection that cannot even do that is thrown away."""
        conn, self._conn = self._conn, None
        if conn is None:
            return
        try:
            driver: Any = conn.connection.driver_connection
            self._backend.rollback(driver)
        except Exception:  # noqa: BLE001 — broken beyond rollback: the next batch makes a new connection
            log.info("the store's connection is gone; connecting again")
            conn.invalidate()
        conn.close()

    def _finish(self) -> None:
        left = [*self._again]
        self._again.clear()
        if left:
            self._commit(left)
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def _holds(job: Job) -> bool:
    """Whether all that the job has used up so far was there."""
    return all(use.holds(result) for use, result in zip(job.uses, job.result, strict=False))


def _lock_order(write: Together) -> int:
    return getattr(getattr(write, "__self__", None), "lock_order", 0)


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
    def place(self) -> str:
        """Where it is, without anything secret; empty where nothing of it outlives the process."""
        return self._backend.place

    @property
    def backend(self) -> Backend:
        return self._backend

    @property
    def queued(self) -> int:
        """How many writes wait."""
        return self._writer.queued

    @property
    def failing(self) -> str | None:
        """Why the last batch of writes could not be written; None if it was."""
        return self._writer.failing

    @property
    def lost(self) -> int:
        """How many records of `append_soon` could never be written."""
        return self._writer.lost

    # -- the hot path ------------------------------------------------------------------------------------------

    async def append(self, row: AuditRow | None, uses: tuple[Consumable, ...] = ()) -> list[Any]:
        """Write one audit row, durable when this returns, in the transaction in which all that it uses is used up.

        What became of each use, as far as it came to it: where one was not there, the row is not written. What was
        used up before stays so. Uses are given in the order in which their kinds are written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any] | None] = loop.create_future()
        if not self._writer_started:
            self._start_writer()
        self._writer.put(Job(row, None, future, time.monotonic(), uses=uses))
        if self._watchdog is None:
            self._watchdog = loop.call_later(_WATCHDOG_SECONDS, self._watch_stuck, loop)
        return await future or []

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
        done: T = await self.run_together(None, None, operation)
        return done

    def run_together(
        self, together: Together | None, item: Any, operation: Callable[[Connection], Any] | None = None
    ) -> asyncio.Future[Any]:
        """Write an item with all others of its kind in the next batch, durable when done; `together` names the kind.

        Where that fails each is written alone, and one that cannot be written even so reports `StoreUnavailable`.
        """
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
            self._backend.confirm()

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
