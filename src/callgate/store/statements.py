"""What all repositories share: statements for the driver, keys and bodies, names that can be stored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from callgate.audit.records import AuditRow
from callgate.errors import Reason, Refused

if TYPE_CHECKING:
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
    """SQL with `?` for values, straight to the driver: SQLAlchemy's own way there costs several times more.

    `postgresql` is given where that database needs another text.
    """

    def __init__(self, text: str, postgresql: str | None = None) -> None:
        self._sqlite = text
        self._postgresql = (postgresql or text).replace("?", "%b").encode()

    def on(self, driver: Any, *values: object) -> Any:
        """The driver's cursor; inside `together`, what it knows is known after the block."""
        if isinstance(driver, sqlite3.Connection):
            return driver.execute(self._sqlite, values)
        return driver.execute(self._postgresql, values, binary=True)

    def run(self, conn: Connection, *values: object) -> Any:
        """The same on the connection of a transaction."""
        return self.on(conn.connection.driver_connection, *values)

    def all(self, conn: Connection, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        found: list[tuple[Any, ...]] = self.run(conn, *values).fetchall()
        return found

    def first(self, conn: Connection, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query."""
        rows = self.all(conn, *values)
        return rows[0] if rows else None


def insert_new(conn: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless its key is taken; whether it was inserted."""
    statement = _insert(conn)(table).values(dict(values)).on_conflict_do_nothing()
    return conn.execute(statement, execution_options={"preserve_rowcount": True}).rowcount == 1


def upsert(conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]], fresh: Sequence[str]) -> None:
    """Insert rows; where the key of one is there, its `fresh` columns are written over."""
    if rows:
        statement = _insert(conn)(table)
        over = {name: statement.excluded[name] for name in fresh}
        conn.execute(statement.on_conflict_do_update(index_elements=[*table.primary_key], set_=over), list(rows))


def _insert(conn: Connection) -> Callable[[Table], Any]:
    # The other database's is not loaded.
    return import_module(f"sqlalchemy.dialects.{conn.dialect.name}").insert  # type: ignore[no-any-return]


def count(conn: Connection, table: Table, *where: ColumnElement[bool]) -> int:
    return int(conn.execute(select(func.count()).select_from(table).where(*where)).scalar_one())


# How many rows one transaction sweeps out: writers wait for no more than that.
SWEEP_ROWS: Final = 500


def sweeping(start: str, table: str, key: str, condition: str) -> Statement:
    """A statement over some rows at most. On PostgreSQL it never waits for a row, so nobody waits in a circle."""
    some = f"SELECT {key} FROM {table} WHERE {condition} LIMIT ?"  # noqa: S608
    where = f" WHERE ({key}) IN ("
    return Statement(f"{start}{where}{some})", f"{start}{where}{some} FOR UPDATE SKIP LOCKED)".replace("x''", "''"))


def sweep(store: Store, statement: Statement, until: float) -> int:
    """Run it until no rows are left; how many it was. For a thread that may wait."""
    gone, done = 0, SWEEP_ROWS
    while done == SWEEP_ROWS:
        with store.writing() as conn:
            done = statement.run(conn, until, SWEEP_ROWS).rowcount
        gone += done
    return gone


class Repository:
    """One part of what a room keeps in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def _change(self, operation: Callable[[Connection], T], *witnesses: AuditRow | None) -> T:
        """Run a write in a transaction, one at a time over all processes; what it raises leaves nothing behind.

        The witnesses are written in it as well, unless it answers False: then nothing was changed.
        """

        def held(conn: Connection) -> T:
            self._store.backend.hold_approvals(conn.connection.driver_connection)
            done = operation(conn)
            if done is not False:
                self._record(conn, *witnesses)
            return done

        return await self._store.run(held)

    def _record(self, conn: Connection, *witnesses: AuditRow | None) -> None:
        for witness in witnesses:
            if witness is not None:
                self._store.insert(conn, witness)

    async def _first(self, query: Select[Any]) -> Any:
        return await self._store.read(lambda conn: conn.execute(query).first())

    async def _rows(self, query: Select[Any]) -> Sequence[Any]:
        return await self._store.read(lambda conn: conn.execute(query).all())


S = TypeVar("S", bound=msgspec.Struct)


def pack(value: msgspec.Struct) -> bytes:
    """A body; half characters, which msgpack has no way to write, make it JSON."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()


def unpack(body: bytes, kind: type[S]) -> S:
    """What `pack` made; a struct in msgpack never starts with a brace."""
    if body[:1] == b"{":
        return msgspec.convert(json.loads(body), kind)
    return msgspec.msgpack.decode(body, type=kind)
