"""The repository of pinning: decisions in a chain, tools that were seen, connected servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Select, and_, delete, func, insert, not_, select, update

from callgate.audit.records import AuditRow
from callgate.canonical import parts_hash
from callgate.errors import Reason, Refused
from callgate.pinning.model import Connected, Pin, ToolSeen
from callgate.pinning.storage import ChainHead, ExpectedTool, Link, Sealed, check_link, check_wanted
from callgate.store.pins.sightings import SAME_TEXT, SqlSightings, weigh
from callgate.store.schema import pin, pin_head, server_connected, tool_seen, tool_text
from callgate.store.statements import known, pack, unpack

T = TypeVar("T")

_pin: Final = msgspec.msgpack.Decoder(Pin)
_ROWS: Final = select(pin.c.seq, pin.c.body, pin.c.mac).order_by(pin.c.seq)
_HEAD: Final = select(pin_head.c.seq, pin_head.c.mac, pin_head.c.seal)
_END: Final = select(func.coalesce(func.max(pin.c.seq), 0))


def _head(conn: Connection) -> ChainHead | None:
    row = conn.execute(_HEAD).first()
    return None if row is None else ChainHead(_number(row[0]), _blob(row[1]), _blob(row[2]))


def _sealed(conn: Connection, query: Select[Any]) -> list[Sealed]:
    return [Sealed(_number(seq), _blob(body), _blob(mac)) for seq, body, mac in conn.execute(query)]


def _blob(value: object) -> bytes:
    # SQLite keeps whatever type was written; nothing of ours is empty, so what is no blob verifies nowhere.
    return value if isinstance(value, bytes) else b""


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _newest(conn: Connection, wanted: ExpectedTool) -> ToolSeen | None:
    """What `check_wanted` has to know of the newest entry; its bytes are not part of it."""
    keys = (parts_hash(wanted.server_id), parts_hash(wanted.tool))
    query = select(tool_seen.c.approval_hash, tool_seen.c.gone, tool_text.c.body).outerjoin(tool_text, SAME_TEXT)
    row = conn.execute(query.where(tool_seen.c.server_key == keys[0], tool_seen.c.tool_key == keys[1])).first()
    if row is None:
        return None
    return ToolSeen(
        server_id=wanted.server_id,
        tool=wanted.tool,
        approval_hash=row.approval_hash,
        raw=b"",
        beside=unpack(row.body, ToolSeen).beside if row.body else {},
        gone=bool(row.gone),
    )


def _values(row: Sealed) -> dict[str, Any]:
    made = _pin.decode(row.body)
    return {
        "seq": row.seq,
        "server_key": parts_hash(made.server_id),
        "tool_key": parts_hash(made.tool),
        "approval_hash": known(made.approval_hash),
        "body": row.body,
        "mac": row.mac,
    }


def _put_head(conn: Connection, before: ChainHead | None, after: ChainHead) -> None:
    values = msgspec.structs.asdict(after)
    if before is None:
        conn.execute(insert(pin_head).values(id=1, **values))
        return
    same = and_(pin_head.c.seq == before.seq, pin_head.c.mac == before.mac, pin_head.c.seal == before.seal)
    if conn.execute(update(pin_head).where(same).values(values)).rowcount != 1:
        raise Refused(Reason.STORE_UNAVAILABLE, "another decision was made at the same moment")


_connected = server_connected.c


class SqlPins(SqlSightings):
    """The pinning room's `PinRepository`, each method one transaction; a witness is an `AuditRow` written in it."""

    async def connect(self, place: Connected, now: int, most: int) -> bool:
        gateway, name, group = parts_hash(place.gateway), parts_hash(place.name), parts_hash(place.group)
        same = parts_hash(place.name, place.server_id)
        own = and_(_connected.gateway_key == gateway, _connected.name_key == name)
        values = {
            "gateway_key": gateway,
            "name_key": name,
            "group_key": group,
            "place_key": same,
            "until": place.until,
            "body": pack(replace(place, until=0)),
        }

        def take(conn: Connection) -> bool:
            conn.execute(delete(server_connected).where(_connected.until <= now))
            had = conn.execute(select(_connected.place_key, _connected.group_key).where(own)).first()
            others = select(func.count(_connected.place_key.distinct())).where(
                _connected.group_key == group, _connected.place_key != same, not_(own)
            )
            room = conn.execute(others).scalar_one() < most
            # One that has no place keeps none, so that of too many the right number is left.
            conn.execute(delete(server_connected).where(own))
            if room:
                conn.execute(insert(server_connected).values(values))
            if room != (had is not None and tuple(had) == (same, group)):
                self._store.backend.announce(conn)
            return room

        return await self._change(take)

    async def connected(self, now: int) -> list[Connected]:
        query = select(_connected.body, _connected.until).where(_connected.until > now)
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        found = [replace(unpack(row.body, Connected), until=row.until) for row in rows]
        return sorted(found, key=lambda one: (one.group, one.name, one.server_id, one.gateway))

    async def disconnect(self, gateway: str, name: str | None = None) -> None:
        given = delete(server_connected).where(_connected.gateway_key == parts_hash(gateway))
        if name is not None:
            given = given.where(_connected.name_key == parts_hash(name))

        def give(conn: Connection) -> None:
            if conn.execute(given).rowcount:
                self._store.backend.announce(conn)

        await self._change(give)

    async def head(self) -> ChainHead | None:
        return await self._store.read(lambda conn: self._doubting(conn, _head))

    async def chain(self, after: int = 0, most: int = 10_000) -> list[Sealed]:
        query = _ROWS.where(pin.c.seq > after).limit(max(0, most))
        return await self._store.read(lambda conn: self._doubting(conn, lambda c: _sealed(c, query)))

    async def since(self, after: int = 0) -> tuple[ChainHead | None, list[Sealed]]:
        query = _ROWS.where(pin.c.seq > after)
        return await self._store.read(lambda conn: self._doubting(conn, lambda c: (_head(c), _sealed(c, query))))

    def _doubting(self, conn: Connection, read: Callable[[Connection], T]) -> T:
        """Somebody may have written anything into these tables: what is no row of ours must be found, not raised."""
        with self._store.backend.doubting(conn):
            return read(conn)

    async def decide(self, wanted: Sequence[ExpectedTool], link: Link, witnesses: Sequence[AuditRow] = ()) -> None:
        def add(conn: Connection) -> None:
            for one in wanted:
                check_wanted(one, _newest(conn, one))
            before = _head(conn)
            # Nothing is added to a chain that does not end where its head says.
            if conn.execute(_END).scalar_one() != (0 if before is None else before.seq):
                raise Refused(Reason.PIN_TAMPERED)
            rows, after = link(before)
            check_link(before, rows, after)
            if rows:
                values = [_values(row) for row in rows]
                conn.execute(insert(pin), values)
                weigh(conn, {row["server_key"] for row in values})
            _put_head(conn, before, after)
            for witness in witnesses:
                self._record(conn, witness)
            self._store.backend.announce(conn)

        await self._change(add)
