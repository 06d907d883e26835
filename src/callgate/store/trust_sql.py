"""What the tables of trust share: statements straight to the driver, and a look that never waits."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any, Final

from sqlalchemy import Connection

from callgate.store.sqlite import SqliteBackend

# Threads that may look; more than that wait like everybody else.
_THREADS: Final = 64


class Sql:
    """A statement with `?` for values, as each driver takes it; `postgresql` where that one wants other words."""

    def __init__(self, text: str, postgresql: str | None = None) -> None:
        self._sqlite = text
        self._postgresql = (postgresql or text).replace("?", "%b").encode()

    def on(self, driver: Any, *values: object) -> Any:
        """The driver's cursor."""
        if isinstance(driver, sqlite3.Connection):
            return driver.execute(self._sqlite, values)
        return driver.execute(self._postgresql, values, binary=True)

    def all(self, conn: Connection, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        found: list[tuple[Any, ...]] = self.on(conn.connection.driver_connection, *values).fetchall()
        return found


class Glance:
    """Reads of a SQLite store on the thread that asks: in WAL nobody makes a reader wait.

    Each thread has a connection of its own. What cannot be told at once is None, never an error and never a wait.
    """

    def __init__(self, backend: SqliteBackend) -> None:
        self._path = backend.path
        self._here = threading.local()
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, sqlite3.Connection] = {}
        self._closed = False
        backend.looks.append(self._end)

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
            self._leave_behind()
            if self._closed or len(self._open) >= _THREADS:
                return None
            path = f"{self._path.absolute().as_uri()}?mode=ro"
            driver = sqlite3.connect(path, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
            self._open[threading.current_thread()] = driver
        self._here.driver = driver
        return driver

    def _leave_behind(self) -> None:
        for thread in [thread for thread in self._open if not thread.is_alive()]:
            self._open.pop(thread).close()

    def _drop(self, driver: sqlite3.Connection | None) -> None:
        self._here.driver = None
        with self._lock:
            if driver is not None and self._open.pop(threading.current_thread(), None) is driver:
                driver.close()

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            for driver in self._open.values():
                driver.close()
            self._open.clear()
