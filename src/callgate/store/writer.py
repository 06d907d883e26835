"""The one thread that writes: everything queued goes into one transaction (group commit)."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection

from callgate.errors import StoreUnavailable
from callgate.store.backend import Backend
from callgate.store.jobs import Job, settle

log = logging.getLogger(__name__)

BATCH: Final = 1024
RETRY_SECONDS: Final = 0.5
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
        if not self._called:
            self._called = True
            self._wake.put(None)

    def waiting(self) -> list[Job]:
        """Everything not settled yet, for the watchdog."""
        return [*self._current, *self._jobs]

    def close(self, timeout: float) -> bool:
        """Write what is queued, then stop; False if that took longer than `timeout`."""
        self._closing = True
        self._wake.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            if not self._jobs:
                self._sleep()
            # Reset before draining: a job that arrives meanwhile wakes us once too often, never once too few.
            self._called = False
            batch = self._drain()
            if batch:
                self._current = batch
                with self.turn:
                    self._commit(batch)
                self._current = ()
            if self._closing and not self._jobs:
                break
        self._finish()

    def _sleep(self) -> None:
        try:
            self._wake.get(timeout=RETRY_SECONDS if self._again else None)
        except queue.Empty:
            return

    def _drain(self) -> list[Job]:
        batch: list[Job] = []
        again, jobs = self._again, self._jobs
        while again and len(batch) < BATCH:
            batch.append(again.popleft())
        while jobs and len(batch) < BATCH:
            job = jobs.popleft()
            if not job.abandoned:
                batch.append(job)
        return batch

    def _commit(self, batch: Sequence[Job]) -> None:
        try:
            self._write(batch)
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
        with conn.begin():
            for job in batch:
                if job.operation is not None:
                    self._perform(conn, job)
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
            if job.future is None:
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
        conn, self._conn = self._conn, None
        if conn is None:
            return
        try:
            driver: Any = conn.connection.driver_connection
            self._backend.rollback(driver)
            conn.close()
        except Exception:  # noqa: BLE001 — the connection is broken; a new one is made for the next batch
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
