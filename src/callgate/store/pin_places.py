"""Which servers are connected just now, over all gateways on the store."""

from __future__ import annotations

from msgspec.structs import replace
from sqlalchemy import Connection, and_, delete, func, insert, not_, select

from callgate.pinning.model import Connected
from callgate.store.approval_sql import Part
from callgate.store.pin_sql import key_of, pack, unpack
from callgate.store.schema import server_connected

_columns = server_connected.c


class SqlPlaces(Part):
    """Places in a table; each ends by itself if nobody keeps it."""

    async def connect(self, place: Connected, now: int, most: int) -> bool:
        gateway, name, group = key_of(place.gateway), key_of(place.name), key_of(place.group)
        same = key_of(place.name, place.server_id)
        own = and_(_columns.gateway_key == gateway, _columns.name_key == name)
        values = {
            "gateway_key": gateway,
            "name_key": name,
            "group_key": group,
            "place_key": same,
            "until": place.until,
            "body": pack(replace(place, until=0)),
        }

        def take(conn: Connection) -> bool:
            conn.execute(delete(server_connected).where(_columns.until <= now))
            had = conn.execute(select(_columns.place_key, _columns.group_key).where(own)).first()
            others = select(func.count(_columns.place_key.distinct())).where(
                _columns.group_key == group, _columns.place_key != same, not_(own)
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
        query = select(_columns.body, _columns.until).where(_columns.until > now)
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        found = [replace(unpack(row.body, Connected), until=row.until) for row in rows]
        return sorted(found, key=lambda one: (one.group, one.name, one.server_id, one.gateway))

    async def disconnect(self, gateway: str, name: str | None = None) -> None:
        given = delete(server_connected).where(_columns.gateway_key == key_of(gateway))
        if name is not None:
            given = given.where(_columns.name_key == key_of(name))

        def give(conn: Connection) -> None:
            if conn.execute(given).rowcount:
                self._store.backend.announce(conn)

        await self._change(give)
