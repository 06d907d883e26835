"""The one thread that writes: everything queued goes into one transaction (group commit)."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection

from callgate.audit.records import AuditRow
from callgate.errors import StoreUnavailable
from callgate.store.backend import Backend

log = logging.getLogger(__name__)

# Writes all items of a batch at once, on the driver's connection; what became of each, in their order.
Together: TypeAlias = Callable[[Any, Sequence[Any]], Sequence[Any]]


class Job:
    """A row to append, an operation to run or an item to write with others, and the future that waits, if any; or who
    is told afterwards, and on which event loop."""

    __slots__ = ("error", "future", "item", "operation", "result", "row", "since", "together", "told")

    def __init__(
        self,
        row: AuditRow | None,
        operation: Callable[[Connection], Any] | None,
        future: asyncio.Future[Any] | None,
        since: float,
        *,
        together: Together | None = None,
        item: Any = None,
        told: tuple[asyncio.AbstractEventLoop, Callable[[Any], None]] | None = None,
    ) -> None:
        self.row = row
        self.together = together
        self.item = item
        self.operation = operation
        self.future = future
        self.told = told
        self.since = since
        self.result: Any = None
        self.error: BaseException | None = None

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
        settle(batch)

    def _write(self, batch: Sequence[Job]) -> None:
        conn = self._connection()
        driver = conn.connection.driver_connection
        rows = [job.row for job in batch if job.row is not None]
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
        kinds: dict[Together, list[Job]] = {}
        for job in batch:
            if job.together is not None:
                kinds.setdefault(job.together, []).append(job)
        # In one order over all processes: two batches that lock the same rows wait for each other, never in a circle.
        for write, jobs in sorted(kinds.items(), key=lambda kind: _lock_order(kind[0])):
            for job, result in zip(jobs, write(driver, [job.item for job in jobs]), strict=True):
                job.result, job.error = result, None
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
        if cause is None and len(batch) > 1:
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


def _lock_order(write: Together) -> int:
    return getattr(getattr(write, "__self__", None), "lock_order", 0)
