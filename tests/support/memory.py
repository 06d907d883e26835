"""Repositories in memory for tests, each on a store of its own, and the audit rows that were written with them."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import select

from callgate.store import ADMIN, AuditRow, MemoryStore, SqlApprovals, SqlPins, SqlTrust, Store
from callgate.store.schema import audit_record


def witness(*said: Any) -> AuditRow:
    """An audit row that says this."""
    return AuditRow(ADMIN, 1, None, None, None, None, None, msgspec.json.encode(said), b"seal" * 9)


def bodies(store: Store) -> list[bytes]:
    """The bodies of all audit rows of a store, in order."""
    with store.reading() as conn:
        return list(conn.execute(select(audit_record.c.body).order_by(audit_record.c.id)).scalars())


class _InMemory:
    store: MemoryStore

    @property
    def witnesses(self) -> list[tuple[Any, ...]]:
        """What `witness` was given for everything that was done, in order."""
        return [tuple(msgspec.json.decode(body)) for body in bodies(self.store)]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All of a table, in order."""
        with self.store.reading() as conn:
            return [tuple(row) for row in conn.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2")]

    def execute(self, statement: str, *values: object) -> None:
        """What somebody does who can write to the store."""
        with self.store.writing() as conn:
            conn.exec_driver_sql(statement, values)


class MemoryPins(_InMemory, SqlPins):
    def __init__(self) -> None:
        self.store = MemoryStore()
        super().__init__(self.store)


class MemoryTrust(_InMemory, SqlTrust):
    def __init__(self) -> None:
        self.store = MemoryStore()
        super().__init__(self.store)


class MemoryShelf(_InMemory, SqlApprovals):
    def __init__(self) -> None:
        self.store = MemoryStore()
        super().__init__(self.store)
