"""The audit log's tables inside one transaction (the room's `Tables`): tree, records and calls."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select, text

from callgate.audit.records import ADMIN, COLUMNS, DECISION, OUTCOME, AuditRow
from callgate.audit.storage import Archived, Counted, Filter, TreeHead
from callgate.store.backend import Backend
from callgate.store.schema import audit_checkpoint, audit_leaf, audit_record, audit_tile, audit_tree
from callgate.store.statements import count, insert_new, upsert

_LEAVES: Final = (
    f"SELECT l.leaf, l.record, r.id, {', '.join(f'r.{name}' for name in COLUMNS)} FROM audit_leaf l"  # noqa: S608
    " LEFT JOIN audit_record r ON r.id = l.record WHERE l.leaf >= ? AND l.leaf < ? ORDER BY l.leaf"
)


# Records are written in time order but for moments; a search by time starts this much earlier.
SLACK_MS: Final = 60_000
_IN: Final = 500
_HOUR: Final = 3_600_000
_ROWS: Final = f"SELECT id, {', '.join(COLUMNS)} FROM audit_record WHERE id > ? ORDER BY id"  # noqa: S608
_SEALED: Final = "SELECT id, body, seal FROM audit_record WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"

_id, _at, _call = audit_record.c.id, audit_record.c.at, audit_record.c.call
_BODY: Final = select(_id, audit_record.c.body)


class AuditTables:
    """Tree, records and calls."""

    def __init__(self, conn: Connection, backend: Backend) -> None:
        self._conn = conn
        self._backend = backend

    def _stream(self, statement: str, *parameters: object) -> Generator[tuple[Any, ...]]:
        return self._backend.stream(self._conn.connection.driver_connection, statement, parameters)

    def head(self) -> TreeHead | None:
        row = self._conn.execute(select(audit_tree).where(audit_tree.c.id == 1)).first()
        return None if row is None else TreeHead(*row[1:])

    def has_remains(self) -> bool:
        tables = (audit_tree, audit_leaf, audit_tile, audit_checkpoint)
        return any(self._conn.execute(select(table).limit(1)).first() is not None for table in tables)

    def tile(self, level: int, number: int) -> object:
        wanted = (audit_tile.c.level == level) & (audit_tile.c.tile == number)
        return self._conn.execute(select(audit_tile.c.hashes).where(wanted)).scalar()

    def tile_count(self) -> int:
        return count(self._conn, audit_tile)

    def leaf_count(self) -> int:
        return count(self._conn, audit_leaf)

    def record_of(self, leaf: int) -> int | None:
        return self._conn.execute(select(audit_leaf.c.record).where(audit_leaf.c.leaf == leaf)).scalar()

    def leaves(self, first: int, end: int) -> Generator[tuple[Any, ...]]:
        return self._stream(_LEAVES, first, end)

    def checkpoints(self) -> Iterator[Archived]:
        for row in self._conn.execute(select(audit_checkpoint).order_by(audit_checkpoint.c.size)):
            yield Archived(*row)

    def last_archived(self) -> int:
        return int(self._conn.execute(select(func.coalesce(func.max(audit_checkpoint.c.at), 0))).scalar_one())

    def archived_before(self, before: Archived | None, limit: int) -> Sequence[Archived]:
        size, at = audit_checkpoint.c.size, audit_checkpoint.c.at
        query = select(audit_checkpoint).order_by(size.desc(), at.desc()).limit(limit)
        if before is not None:
            query = query.where(or_(size < before.size, and_(size == before.size, at < before.at)))
        return [Archived(*row) for row in self._conn.execute(query)]

    def archived_at(self, size: int, at: int) -> Archived | None:
        wanted = (audit_checkpoint.c.size == size) & (audit_checkpoint.c.at == at)
        row = self._conn.execute(select(audit_checkpoint).where(wanted)).first()
        return None if row is None else Archived(*row)

    def put_archived(self, checkpoint: Archived) -> None:
        upsert(self._conn, audit_checkpoint, [msgspec.structs.asdict(checkpoint)], ("note",))

    def take_turn(self) -> bool:
        return self._backend.take_turn(self._conn)

    def put_head(self, new: TreeHead) -> None:
        self._conn.execute(delete(audit_tree))
        self._conn.execute(insert(audit_tree).values((1, *msgspec.structs.astuple(new))))

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
        upsert(self._conn, audit_tile, rows, ("hashes",))

    def archive(self, checkpoint: Archived) -> None:
        insert_new(self._conn, audit_checkpoint, msgspec.structs.asdict(checkpoint))

    @property
    def dense(self) -> bool:
        # PostgreSQL's sequences leave gaps behind after a rollback.
        return self._backend.name == "sqlite"

    def newest(self) -> int:
        return int(self._conn.execute(select(func.coalesce(func.max(_id), 0))).scalar_one())

    def last_id(self) -> int | None:
        if not self.dense:
            return None
        used = self._conn.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'audit_record'").scalar()
        return int(used or 0)

    def sealed(self, after: int, upto: int, limit: int) -> Generator[tuple[Any, ...]]:
        return self._stream(_SEALED, after, upto, limit)

    def last_seals(self, limit: int) -> list[object]:
        return list(self._conn.execute(select(audit_record.c.seal).order_by(_id.desc()).limit(limit)).scalars())

    def rows(self, after: int) -> Generator[tuple[Any, ...]]:
        return self._stream(_ROWS, after)

    def admin_rows(self, action: str) -> Sequence[tuple[Any, ...]]:
        columns = (_id, *(audit_record.c[name] for name in COLUMNS))
        query = select(*columns).where(or_(audit_record.c.kind == ADMIN, audit_record.c.reason == action))
        return [tuple(row) for row in self._conn.execute(query)]

    def count_upto(self, record: int) -> int:
        return count(self._conn, audit_record, _id <= record)

    def unmapped(self, upto: int) -> int | None:
        query = select(func.min(_id)).where(_id <= upto, _id.not_in(select(audit_leaf.c.record)))
        return self._conn.execute(query).scalar()

    def oldest(self) -> int | None:
        return self._conn.execute(select(func.min(_id))).scalar()

    def first_since(self, at: int) -> int | None:
        return self._conn.execute(select(_id).where(_at >= at).order_by(_id).limit(1)).scalar()

    def last_before(self, record: int) -> int | None:
        return self._conn.execute(select(_id).where(_id < record).order_by(_id.desc()).limit(1)).scalar()

    def insert(self, row: AuditRow) -> None:
        self._backend.insert_within(self._conn.connection.driver_connection, [row])

    def remove(self, first: int, last: int) -> int:
        statement = text("DELETE FROM audit_record WHERE id >= :first AND id <= :last")
        return self._conn.execute(statement, {"first": first, "last": last}).rowcount

    # -- calls -------------------------------------------------------------------------------------------------

    def of_call(self, call: str) -> Sequence[tuple[int, int, bytes]]:
        query = select(_id, audit_record.c.kind, audit_record.c.body).where(_call == call).order_by(_id)
        return [(row.id, row.kind, row.body) for row in self._conn.execute(query)]

    def decisions(self, wanted: Filter, limit: int) -> Sequence[tuple[int, bytes]]:
        query = self._where(_BODY, wanted).where(audit_record.c.kind == DECISION)
        return self._bodies(query.order_by(_id.desc()).limit(limit))

    def outcomes(self, calls: Sequence[str]) -> Sequence[tuple[int, bytes]]:
        return self._of_calls(calls, OUTCOME)

    def decided(self, calls: Sequence[str]) -> Sequence[tuple[int, bytes]]:
        return self._of_calls(calls, DECISION)

    def _of_calls(self, calls: Sequence[str], kind: int) -> Sequence[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for start in range(0, len(calls), _IN):
            query = _BODY.where(_call.in_(calls[start : start + _IN]), audit_record.c.kind == kind)
            found += self._bodies(query.order_by(_id))
        return found

    def _bodies(self, query: Select[Any]) -> list[tuple[int, bytes]]:
        return [(row.id, row.body) for row in self._conn.execute(query)]

    def beginning(self, start: str) -> Sequence[str]:
        query = select(_call).where(_call >= start, _call < start + "\U0010ffff", audit_record.c.kind == DECISION)
        return [str(call) for call in self._conn.execute(query.distinct().limit(2)).scalars()]

    def bodies(self, wanted: Filter) -> Generator[tuple[Any, ...]]:
        times = {"at >= ?": wanted.since, "at < ?": wanted.until}
        given = {clause: at for clause, at in times.items() if at is not None}
        where = " AND ".join(["id >= ?", "id < ?", *given])
        statement = f"SELECT id, body FROM audit_record WHERE {where} ORDER BY id"  # noqa: S608
        return self._stream(statement, *self.bounds(wanted), *given.values())

    def count(self, wanted: Filter) -> int:
        return int(self._conn.execute(self._where(select(func.count(_id)), wanted)).scalar_one())

    # -- pages and counts --------------------------------------------------------------------------------------

    def bounds(self, wanted: Filter) -> tuple[int, int]:
        first, end = self.oldest() or 0, self.newest() + 1
        if wanted.since is not None:
            first = max(first, self._near(wanted.since - SLACK_MS))
        if wanted.until is not None:
            end = min(end, self._near(wanted.until + SLACK_MS) + 1)
        return first, end

    def between(
        self, wanted: Filter, first: int, end: int, *, limit: int, oldest: bool = False
    ) -> Sequence[tuple[int, bytes]]:
        query = self._matching(_BODY, wanted)
        query = query.where(audit_record.c.kind == DECISION, _id >= first, _id < end)
        order = _id if oldest else _id.desc()
        return self._bodies(query.order_by(order).limit(limit))

    def time_near(self, record: int) -> int | None:
        return self._conn.execute(select(_at).where(_id >= record).order_by(_id).limit(1)).scalar()

    def hours(self, first: int, end: int) -> Sequence[Counted]:
        server, verdict, reason = audit_record.c.server, audit_record.c.verdict, audit_record.c.reason
        query = (
            select((_at // _HOUR).label("hour"), server, verdict, reason, func.count().label("calls"))
            .where(audit_record.c.kind == DECISION, _id >= first, _id < end)
            .group_by("hour", server, verdict, reason)
        )
        return [
            Counted(int(row.hour), str(row.server), str(row.verdict), str(row.reason or ""), int(row.calls))
            for row in self._conn.execute(query)
        ]

    def failures(self, outcomes: Sequence[str], first: int, limit: int) -> Sequence[tuple[int, bytes]]:
        query = _BODY.where(_id >= first, audit_record.c.kind == OUTCOME, audit_record.c.reason.in_(outcomes))
        return self._bodies(query.order_by(_id.desc()).limit(limit))

    def _where(self, query: Select[Any], wanted: Filter) -> Select[Any]:
        first, end = self.bounds(wanted)
        return self._matching(query, wanted).where(_id >= first, _id < end)

    def _matching(self, query: Select[Any], wanted: Filter) -> Select[Any]:
        """All of a filter but where to look for its times."""
        for name in ("server", "tool", "verdict", "reason", "call"):
            value = getattr(wanted, name)
            if value is not None:
                query = query.where(audit_record.c[name] == value)
        if wanted.since is not None:
            query = query.where(_at >= wanted.since)
        if wanted.until is not None:
            query = query.where(_at < wanted.until)
        if wanted.text:
            columns = (audit_record.c.tool, audit_record.c.server, audit_record.c.reason)
            query = query.where(or_(*(column.icontains(wanted.text, autoescape=True) for column in columns)))
        return query

    def _near(self, at: int) -> int:
        """About the first record of that time, by bisection: ids grow with time, so no index on it is needed."""
        low, high = self.oldest() or 0, self.newest() + 1
        while low < high:
            middle = (low + high) // 2
            row = self._conn.execute(select(_id, _at).where(_id >= middle).order_by(_id).limit(1)).first()
            if row is not None and row.at < at:
                low = row.id + 1
            else:
                high = middle
        return low
