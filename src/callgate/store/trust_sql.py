"""Statements straight to the driver."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Connection


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
