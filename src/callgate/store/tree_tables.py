"""The tree of the audit log as SQL (the room's `TreeTables`)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select, text
from sqlalchemy.dialects import postgresql, sqlite

from callgate.audit.rows import COLUMNS
from callgate.audit.storage import Archived, Head
from callgate.store.backend import Backend
from callgate.store.schema import audit_checkpoint, audit_leaf, audit_tile, audit_tree

_LEAVES: Final = (
    f"SELECT l.leaf, l.record, r.id, {', '.join(f'r.{name}' for name in COLUMNS)} FROM audit_leaf l"  # noqa: S608
    " LEFT JOIN audit_record r ON r.id = l.record WHERE l.leaf >= ? AND l.leaf < ? ORDER BY l.leaf"
)


class SqlTree:
    """The tree inside the transaction of one connection."""

    def __init__(self, conn: Connection, backend: Backend) -> None:
        self._conn = conn
        self._backend = backend

    def _stream(self, statement: str, *parameters: object) -> Generator[tuple[Any, ...]]:
        return self._backend.stream(self._conn.connection.driver_connection, statement, parameters)

    def head(self) -> Head | None:
        row = self._conn.execute(select(audit_tree).where(audit_tree.c.id == 1)).first()
        return None if row is None else Head(row.size, row.record, row.root, row.note)

    def has_remains(self) -> bool:
        tables = (audit_tree, audit_leaf, audit_tile, audit_checkpoint)
        return any(self._conn.execute(select(table).limit(1)).first() is not None for table in tables)

    def tile(self, level: int, number: int) -> object:
        wanted = (audit_tile.c.level == level) & (audit_tile.c.tile == number)
        return self._conn.execute(select(audit_tile.c.hashes).where(wanted)).scalar()

    def tile_count(self) -> int:
        return int(self._conn.execute(select(func.count()).select_from(audit_tile)).scalar_one())

    def leaf_count(self) -> int:
        return int(self._conn.execute(select(func.count()).select_from(audit_leaf)).scalar_one())

    def record_of(self, leaf: int) -> int | None:
        return self._conn.execute(select(audit_leaf.c.record).where(audit_leaf.c.leaf == leaf)).scalar()

    def leaves(self, first: int, end: int) -> Generator[tuple[Any, ...]]:
        return self._stream(_LEAVES, first, end)

    def checkpoints(self) -> Iterator[Archived]:
        for row in self._conn.execute(select(audit_checkpoint).order_by(audit_checkpoint.c.size)):
            yield Archived(row.size, row.at, row.note)

    def last_archived(self) -> int:
        return int(self._conn.execute(select(func.coalesce(func.max(audit_checkpoint.c.at), 0))).scalar_one())

    def take_turn(self) -> bool:
        return self._backend.take_turn(self._conn)

    def put_head(self, new: Head) -> None:
        self._conn.execute(delete(audit_tree))
        values = {"id": 1, "size": new.size, "record": new.record, "root": new.root, "note": new.note}
        self._conn.execute(insert(audit_tree).values(values))

    def put_leaves(self, after: int, upto: int, size: int, expected: int) -> int:
        numbered = "SELECT :size - 1 + row_number() OVER (ORDER BY id), id"
        # Without gaps in the ids, which is nearly always, counting is adding.
        plain = "SELECT id + :size - 1 - :after, id"
        done = self._conn.execute(
            text(
                f"INSERT INTO audit_leaf (leaf, record) {plain if upto - after == expected else numbered}"
                " FROM audit_record WHERE id > :after AND id <= :upto ORDER BY id"
            ),
            {"size": size, "after": after, "upto": upto},
        )
        return done.rowcount

    def put_tiles(self, tiles: Iterable[tuple[int, int, bytes]]) -> None:
        rows = [{"level": level, "tile": number, "hashes": hashes} for level, number, hashes in tiles]
        if not rows:
            return
        make = sqlite.insert if self._conn.dialect.name == "sqlite" else postgresql.insert
        statement = make(audit_tile).values({name: bindparam(name) for name in ("level", "tile", "hashes")})
        self._conn.execute(
            statement.on_conflict_do_update(
                index_elements=["level", "tile"], set_={"hashes": statement.excluded.hashes}
            ),
            rows,
        )

    def archive(self, checkpoint: Archived) -> None:
        same = (audit_checkpoint.c.size == checkpoint.size) & (audit_checkpoint.c.at == checkpoint.at)
        if self._conn.execute(select(audit_checkpoint.c.size).where(same)).first() is None:
            values = {"size": checkpoint.size, "at": checkpoint.at, "note": checkpoint.note}
            self._conn.execute(insert(audit_checkpoint).values(values))
