"""A look at a store: can it be used, and how large is it?"""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, insert, text

from callgate.errors import StoreError
from callgate.store import migrate
from callgate.store.front import Store
from callgate.store.schema import HEAD, audit_leaf, audit_record, control
from callgate.store.sqlite import SqliteBackend
from callgate.store.statements import count

_DAY_MS: Final = 86_400_000


class Growth(msgspec.Struct, frozen=True):
    """How large a store is, and how fast it grows: by the records of the last day, and by what one has taken so far."""

    bytes: int
    records: int
    last_day: int
    bytes_each: int
    # Of the disk; None where it is another machine's.
    free: int | None
    # The most that the records of `retention_days` take at this rate; None where they are kept for ever.
    kept_bytes: int | None

    @property
    def daily(self) -> int:
        return self.last_day * self.bytes_each

    @property
    def days_left(self) -> int | None:
        """After how many days the disk is full; None where it never is, or where nobody can say."""
        if self.free is None or not self.daily:
            return None
        left = self.free // self.daily
        return None if self.kept_bytes is not None and self.kept_bytes - self.bytes <= self.free else left

    def as_dict(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self), "daily_bytes": self.daily, "days_left": self.days_left}


def growth(store: Store, now: int, retention_days: int) -> Growth:
    """Measure a store; `now` in milliseconds."""
    with store.audit_reading() as tables:
        newest, first = tables.newest(), tables.first_since(now - _DAY_MS)
    with store.reading() as conn:
        used, records = _bytes(store, conn, used=True), count(conn, audit_record)
    each = used // records if records else 0
    last_day = 0 if first is None else newest - first + 1
    backend = store.backend
    free = shutil.disk_usage(backend.path.parent).free if isinstance(backend, SqliteBackend) else None
    kept = last_day * each * retention_days if retention_days else None
    return Growth(used, records, last_day, each, free, kept)


class StoreReport(msgspec.Struct, frozen=True):
    """What was found."""

    place: str
    schema: str
    records: int
    in_the_tree: int
    bytes: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **msgspec.to_builtins(self)}


def inspect(store: Store, *, quick: bool = False) -> StoreReport:
    """Look at everything; problems are collected, not raised. `quick` leaves out what takes long in a large store."""
    problems: list[str] = []
    place = _place(store)
    try:
        with store.reading() as conn:
            schema = migrate.version(conn)
            problems += _integrity(store, conn, quick=quick)
            size = _bytes(store, conn)
            records, leaves = (count(conn, audit_record), count(conn, audit_leaf)) if schema == HEAD else (0, 0)
    except StoreError as error:
        return StoreReport(place, "unknown", 0, 0, 0, (f"{error} {error.advice}",))
    try:
        migrate.require_current(schema)
        _probe(store)
    except StoreError as error:
        problems.append(f"{error}. {error.advice}")
    return StoreReport(place, schema or "none", records, leaves, size, tuple(problems))


def _probe(store: Store) -> None:
    """Write something, and take it back."""
    with store.writing() as conn, conn.begin_nested() as savepoint:
        conn.execute(insert(control).values(name="probe", value="", changed_at=0, changed_by="", note="x" * 100))
        savepoint.rollback()


def _place(store: Store) -> str:
    backend = store.backend
    return str(backend.path) if isinstance(backend, SqliteBackend) else str(backend.engine.url)


def _integrity(store: Store, conn: Connection, *, quick: bool) -> list[str]:
    backend = store.backend
    if not isinstance(backend, SqliteBackend):
        return []
    found = [str(row[0]) for row in conn.exec_driver_sql(f"PRAGMA {'quick' if quick else 'integrity'}_check(5)")]
    problems = [] if found == ["ok"] else [f"SQLite finds damage: {line}" for line in found]
    if os.name != "nt" and stat.S_IMODE(backend.path.stat().st_mode) & 0o077:
        problems.append(f"{backend.path} can be read by other users. Type `chmod 600 {backend.path}`.")
    return problems


def _bytes(store: Store, conn: Connection, *, used: bool = False) -> int:
    """The size of the whole, or without what is free in it."""
    backend = store.backend
    if isinstance(backend, SqliteBackend):
        pages = int(conn.exec_driver_sql("PRAGMA page_count").scalar_one())
        free = int(conn.exec_driver_sql("PRAGMA freelist_count").scalar_one()) if used else 0
        return (pages - free) * int(conn.exec_driver_sql("PRAGMA page_size").scalar_one())
    return int(conn.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
