"""The store in one SQLite file (WAL), shared by any number of processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from callgate.audit.records import COLUMNS, AuditRow
from callgate.errors import ConfigError, StoreUnavailable
from callgate.store.changes import StoredSessions, WalChanges

POLL_SECONDS: Final = 0.1
# One multi-row INSERT is one step in SQLite, so the interpreter lock changes hands once and not once a row.
_CHUNK: Final = 128
# Threads that have a reader of their own; others wait for one of the store's.
_READER_THREADS: Final = 64


def _insert_of(count: int) -> str:
    marks = f"({','.join('?' * len(COLUMNS))})"
    return f"INSERT INTO audit_record ({','.join(COLUMNS)}) VALUES {','.join([marks] * count)}"  # noqa: S608


_INSERTS: Final = {1 << power: _insert_of(1 << power) for power in range(8)}


class SqliteBackend:
    """SQLite as a store."""

    name = "sqlite"

    def __init__(self, url: URL, *, durability: str, busy_seconds: float) -> None:
        if not url.database or url.database == ":memory:":
            raise ConfigError(
                "a SQLite store needs a file, because gateways and commands share it",
                advice="Write sqlite:///PATH as store.url.",
            )
        self.path = Path(url.database).expanduser()
        self.place = f"sqlite:{os.path.realpath(self.path)}"
        self._synchronous = "FULL" if durability == "full" else "NORMAL"
        self._busy_seconds = busy_seconds
        self._file: tuple[int, int] | None = None
        self.engine = self._make_engine(
            {
                "timeout": self._busy_seconds,
                "isolation_level": None,
                "check_same_thread": False,
                "cached_statements": 256,
            }
        )
        self.changes = WalChanges(self.path)
        self.sessions = StoredSessions(self.changes)
        self._reader = SnapshotReader(self.path)
        event.listen(self.engine, "connect", self._on_connect)
        event.listen(self.engine, "begin", _on_begin)
        event.listen(self.engine, "engine_disposed", self._on_disposed)

    def _make_engine(self, options: dict[str, Any]) -> Engine:
        return create_engine(URL.create("sqlite", database=str(self.path)), connect_args=options)

    def _on_connect(self, driver: sqlite3.Connection, _record: object) -> None:
        driver.execute("PRAGMA foreign_keys=ON")
        driver.execute(f"PRAGMA synchronous={self._synchronous}")

    def _on_disposed(self, _engine: Engine) -> None:
        self._reader.close()
        # The last one to be closed is one that may write: it leaves everything in the store's own file.
        self.changes.close()

    def prepare(self, *, create: bool) -> None:
        try:
            if create:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # SQLite gives -wal and -shm the mode of the main file.
                with suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise StoreUnavailable(f"{self.path} is not a file", advice="Name a file in store.url.")
        except FileNotFoundError:
            raise StoreUnavailable(
                f"there is no store at {self.path}",
                advice="Start a gateway once, or run `callgate store upgrade`, to create it; "
                "or name the right one with --store.",
            ) from None
        except OSError as error:
            raise StoreUnavailable(
                f"{self.path} cannot be used: {error.strerror}",
                advice="Check the folder's owner and permissions, or set store.url.",
            ) from None
        self._use_wal()
        self._file = self._at_path()

    def confirm(self) -> None:
        """SQLite goes on writing into a file that was deleted or replaced; nobody would ever read that."""
        if self._at_path() != self._file:
            raise sqlite3.OperationalError(
                "the file was moved, deleted or replaced while in use: start the gateway again"
            )

    def _at_path(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _use_wal(self) -> None:
        deadline = time.monotonic() + self._busy_seconds
        with closing(self._plain()) as driver:
            while True:
                try:
                    if driver.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                        return
                    error = None
                except sqlite3.Error as failure:
                    error = failure
                # Several processes that change the mode at once do not wait for each other by themselves.
                if time.monotonic() > deadline or (error is not None and not _is_busy(error)):
                    break
                time.sleep(0.02)
        if error is not None:
            raise self._describe(error)
        raise StoreUnavailable(
            f"{self.path} cannot use write-ahead logging", advice="Keep the store on a local disk, or use PostgreSQL."
        )

    def _plain(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._describe(error) from None

    def read_now(self, statement: str, *values: object) -> list[tuple[Any, ...]] | None:
        """The rows of a short query, on this thread and without a wait; None where that is not possible."""
        return self._reader.rows(statement, *values)

    def lock_schema(self, conn: Connection) -> None:
        """BEGIN IMMEDIATE already keeps every other writer out."""

    def insert(self, driver: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
        statement = _INSERTS.get(len(rows))
        if statement is not None:
            # Outside BEGIN, one statement is one transaction: three calls saved.
            self.changes.locking()
            driver.execute(statement, list(chain.from_iterable(rows)))
            self.changes.wrote()
            self.changes.committed()
            return
        self.begin(driver)
        self.insert_within(driver, rows)
        self.commit(driver)

    def begin(self, driver: sqlite3.Connection) -> None:
        driver.execute("BEGIN IMMEDIATE")
        self.changes.locked()

    def commit(self, driver: sqlite3.Connection) -> None:
        driver.execute("COMMIT")
        self.changes.committed()

    def insert_within(self, driver: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
        self.changes.wrote()
        start, left = 0, len(rows)
        while left:
            count = min(_CHUNK, 1 << (left.bit_length() - 1))
            driver.execute(_INSERTS[count], list(chain.from_iterable(rows[start : start + count])))
            start += count
            left -= count

    def stream(
        self, driver: sqlite3.Connection, statement: str, parameters: Sequence[Any]
    ) -> Generator[tuple[Any, ...]]:
        with closing(driver.execute(statement, parameters)) as rows:
            yield from rows

    @contextmanager
    def doubting(self, conn: Connection) -> Iterator[None]:
        driver: Any = conn.connection.driver_connection
        driver.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            yield
        finally:
            driver.text_factory = str

    def rollback(self, driver: sqlite3.Connection) -> None:
        if driver.in_transaction:
            driver.execute("ROLLBACK")

    def undone(self) -> None:
        self.changes.failed()
        self.sessions.clear()

    def outdated(self, error: BaseException) -> bool:  # noqa: ARG002
        """Whoever has the write lock sees whether others wrote."""
        return False

    def unavailable(self, error: BaseException) -> StoreUnavailable | None:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, sqlite3.DatabaseError):
            return None
        if isinstance(cause, sqlite3.OperationalError) or type(cause) is sqlite3.DatabaseError:
            return self._describe(cause)
        return None

    def _describe(self, error: sqlite3.Error) -> StoreUnavailable:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _is_busy(error):
            return StoreUnavailable(
                f"{self.path} stayed locked by another process for {self._busy_seconds:g} s",
                advice="Find what holds it, or raise store.busy_seconds.",
            )
        if code == sqlite3.SQLITE_FULL:
            return StoreUnavailable(
                f"no room left for {self.path}",
                advice="Free disk space there, or move the store to a larger disk and set store.url.",
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreUnavailable(
                f"{self.path} is damaged or not a SQLite file: {error}",
                advice="Look at it with `callgate store check`; restore a copy made by `callgate store backup`.",
            )
        return StoreUnavailable(
            f"{self.path} failed: {error}", advice="Run `callgate store check` and look at the disk."
        )

    def settled(self, conn: Connection) -> int:
        return int(conn.exec_driver_sql("SELECT coalesce(max(id), 0) FROM audit_record").scalar_one())

    def take_turn(self, conn: Connection) -> bool:
        """Whoever has the write lock has the turn."""
        return conn.in_transaction()

    def hold_approvals(self, driver: sqlite3.Connection) -> None:
        """BEGIN IMMEDIATE already keeps every other writer out."""

    def together(self, driver: sqlite3.Connection) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing travels."""
        return nullcontext()

    def copy(self, target: Path) -> None:
        """An online copy (SQLite's backup API), in one step: smaller ones start again whenever someone writes."""
        try:
            with closing(self._plain()) as source, closing(sqlite3.connect(target)) as copy:
                source.backup(copy, pages=-1)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the copy to {target} failed: {error}", advice="Look at free disk space.") from None

    def put_back(self, source: Path) -> None:
        """The reverse: this database becomes what that file holds, in one step, also for who has it open."""
        try:
            with closing(sqlite3.connect(source)) as copy, closing(self._plain()) as target:
                copy.backup(target, pages=-1)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{source} was not put back: {error}", advice="Try again.") from None

    def announce(self, conn: Connection) -> None:
        """Every commit moves `PRAGMA data_version` for the other connections."""

    def watch(self, changed: Callable[[], None], stop: Event) -> None:
        self.changes.open()
        seen: Any = None
        driver: sqlite3.Connection | None = None
        while not stop.wait(POLL_SECONDS):
            # What our own writer does all the time is nothing that anybody has to be told of.
            mark = self.changes.others()
            try:
                if driver is None:
                    driver = sqlite3.connect(self.path, timeout=POLL_SECONDS, isolation_level=None)
                now = ("others", mark) if mark is not None else driver.execute("PRAGMA data_version").fetchone()
            except sqlite3.Error:
                if driver is not None:
                    driver.close()
                driver, seen = None, None
                continue
            if now != seen:
                seen = now
                changed()
        if driver is not None:
            driver.close()


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _on_begin(conn: Connection) -> None:
    # A transaction that starts as a reader cannot wait for the write lock later (SQLITE_BUSY_SNAPSHOT).
    writes = conn.get_execution_options().get("callgate_writes", False)
    conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class SnapshotReader:
    """Reads of a SQLite store on the thread that asks: in WAL nobody makes a reader wait.

    Each thread has a connection of its own. What cannot be told at once is None, never an error and never a wait.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._here = threading.local()
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, sqlite3.Connection] = {}
        self._closed = False

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]] | None:
        driver: sqlite3.Connection | None = getattr(self._here, "driver", None)
        try:
            if driver is None:
                driver = self._connect()
                if driver is None:
                    return None
            # Read to the end: a statement that is not keeps the log from being written back.
            return driver.execute(statement, values).fetchall()
        except Exception:  # noqa: BLE001 — whatever it is, the caller asks the slow way and hears of it there
            self._drop(driver)
            return None

    def _connect(self) -> sqlite3.Connection | None:
        with self._lock:
            self._close_ended()
            if self._closed or len(self._open) >= _READER_THREADS:
                return None
            path = f"{self._path.absolute().as_uri()}?mode=ro"
            driver = sqlite3.connect(path, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
            self._open[threading.current_thread()] = driver
        self._here.driver = driver
        return driver

    def _close_ended(self) -> None:
        for thread in [thread for thread in self._open if not thread.is_alive()]:
            self._open.pop(thread).close()

    def _drop(self, driver: sqlite3.Connection | None) -> None:
        self._here.driver = None
        with self._lock:
            if driver is not None and self._open.pop(threading.current_thread(), None) is driver:
                driver.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for driver in self._open.values():
                driver.close()
            self._open.clear()
