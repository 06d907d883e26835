"""Single questions to PostgreSQL on a connection of their own: one round trip each, where a transaction takes five."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import psycopg
from sqlalchemy import event

from callgate.store.postgres import PostgresBackend


class Look:
    """For threads that may wait; one asks at a time. What was committed before the question is in the answer."""

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend
        self._lock = Lock()
        self._driver: psycopg.Connection[Any] | None = None
        self._closed = False
        event.listen(backend.engine, "engine_disposed", lambda _engine: self._end())

    def rows(self, statement: bytes, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """StoreUnavailable, or what the driver says, where there is no answer."""
        with self._lock:
            try:
                if self._driver is None:
                    self._driver = self._connect()
                return self._driver.execute(statement, values, binary=True).fetchall()
            except Exception as error:
                self._drop()
                known = self._backend.unavailable(error)
                if known is None:
                    raise
                raise known from error

    def _connect(self) -> psycopg.Connection[Any]:
        if self._closed:
            raise psycopg.OperationalError("the store is closed")
        return self._backend.single()

    def _drop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(psycopg.Error):
                driver.close()

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()
