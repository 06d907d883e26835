"""What the tables of verified approval share: statements for the hot path, and ids that come from the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from callgate.audit.rows import AuditRow
from callgate.errors import Reason, Refused
from callgate.store.front import Store

T = TypeVar("T")

# How long what has run out is still known, so that a late answer hears why it is refused (VA-107).
KEEP_MS: Final = 600_000
DAY_MS: Final = 86_400_000
# How many old rows a call removes at most.
SWEEP: Final = 200
# No id or name of ours is longer, and no index of PostgreSQL takes more than 2,704 bytes.
LONGEST: Final = 2048


def storable(text: str) -> bool:
    """Whether both databases can hold this text and look it up: no NUL, no half characters, not too long."""
    if len(text) > LONGEST or "\x00" in text:
        return False
    try:
        return len(text.encode()) <= LONGEST
    except UnicodeEncodeError:
        return False


def known(text: str) -> str:
    """An id or name to look up; what cannot be stored becomes the empty one, which nobody has."""
    return text if storable(text) else ""


def demand(*names: str) -> None:
    """Refuse names that cannot be stored."""
    if not all(storable(name) for name in names):
        raise Refused(Reason.INVALID_PARAMS, "a name is too long, or holds NUL or half a character")


class Statement:
    """SQL with `?` for values, as each driver takes it: SQLAlchemy's own way to the driver costs several times more."""

    def __init__(self, text: str) -> None:
        self._sqlite = text
        self._postgresql = text.replace("?", "%b").encode()

    def run(self, conn: Connection, *values: object) -> Any:
        """The driver's cursor; inside `together`, what it knows is known after the block."""
        driver: Any = conn.connection.driver_connection
        if conn.dialect.name == "sqlite":
            return driver.execute(self._sqlite, values)
        return driver.execute(self._postgresql, values, binary=True)

    def first(self, conn: Connection, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query."""
        rows: Sequence[tuple[Any, ...]] = self.run(conn, *values).fetchall()
        return rows[0] if rows else None


def insert_new(conn: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless its key is taken; whether it was inserted."""
    make = sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert
    statement = make(table).values(dict(values)).on_conflict_do_nothing()
    return conn.execute(statement, execution_options={"preserve_rowcount": True}).rowcount == 1


class Part:
    """One part of the shelf on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def _change(self, operation: Callable[[Connection], T]) -> T:
        """Run a write in a transaction, one at a time over all processes; what it raises leaves nothing behind."""

        def held(conn: Connection) -> T:
            self._store.backend.hold_approvals(conn.connection.driver_connection)
            return operation(conn)

        return await self._store.run(held)

    def _record(self, conn: Connection, witness: AuditRow | None) -> None:
        if witness is not None:
            self._store.insert(conn, witness)
