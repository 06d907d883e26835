"""Results kept back until a person decides; only a conditional write decides who did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import Connection

from callgate.audit.rows import AuditRow
from callgate.errors import Reason, Refused
from callgate.store.approval_sql import Part
from callgate.store.pin_sql import pack, unpack
from callgate.store.trust_sql import Sql
from callgate.trust import keeping
from callgate.trust.model import Quarantined

_COLUMNS: Final = "body, sealed, expires_at"
_HOLD: Final = Sql(
    "INSERT INTO trust_held (handle, session, state, at, expires_at, body, sealed) VALUES (?, ?, 'held', ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)
_COUNT: Final = Sql("SELECT count(*) FROM trust_held")
_MAKE_ROOM: Final = Sql(
    "DELETE FROM trust_held WHERE handle IN (SELECT handle FROM trust_held WHERE handle <> ? ORDER BY"
    " CASE WHEN state = 'held' THEN 1 ELSE 0 END, CASE WHEN session = ? THEN 0 ELSE 1 END, at, handle LIMIT ?)"
)
_ONE: Final = Sql(f"SELECT {_COLUMNS} FROM trust_held WHERE handle = ?")  # noqa: S608
_WAITING: Final = Sql(
    f"SELECT {_COLUMNS} FROM trust_held WHERE state = 'held' ORDER BY at DESC, handle LIMIT ?"  # noqa: S608
)
_SETTLE: Final = Sql("UPDATE trust_held SET state = ?, body = ?, sealed = ? WHERE handle = ? AND state = 'held'")


class SqlHeld(Part):
    """Quarantined results in a table."""

    async def hold(self, held: Quarantined, expires_at: int) -> None:
        keeping.demand(held.handle, held.session)
        new = keeping.held(held)
        body = pack(replace(new, sealed=b""))

        def put(conn: Connection) -> None:
            driver = conn.connection.driver_connection
            made = _HOLD.on(driver, new.handle, new.session, new.at, expires_at, body, new.sealed)
            if made.rowcount != 1:
                raise Refused(Reason.INVALID_PARAMS, "a result is held under this handle already")
            spare = _COUNT.all(conn)[0][0] - keeping.HELD
            if spare > 0:
                _MAKE_ROOM.on(driver, new.handle, new.session, spare)

        await self._change(put)

    async def held(self, handle: str) -> Quarantined | None:
        if not keeping.fits(handle):
            return None
        rows = await self._store.read(lambda conn: _ONE.all(conn, handle))
        return _held(rows[0]) if rows else None

    async def holding(self, *, limit: int = 100) -> Sequence[Quarantined]:
        rows = await self._store.read(lambda conn: _WAITING.all(conn, max(0, limit)))
        return [_held(row) for row in rows]

    async def settle(
        self, handle: str, state: str, by: str, now: int, *, witness: AuditRow | None = None
    ) -> Quarantined:
        if not keeping.fits(handle):
            raise keeping.not_held()

        def decide(conn: Connection) -> Quarantined:
            rows = _ONE.all(conn, handle)
            if not rows:
                raise keeping.not_held()
            after = keeping.settled(_held(rows[0]), rows[0][2], state=state, by=by, now=now)
            driver = conn.connection.driver_connection
            done = _SETTLE.on(driver, state, pack(replace(after, sealed=b"")), after.sealed, handle)
            if done.rowcount != 1:
                raise keeping.not_held()
            self._record(conn, witness)
            return after

        return await self._change(decide)


def _held(row: tuple[Any, ...]) -> Quarantined:
    return replace(unpack(row[0], Quarantined), sealed=bytes(row[1]))
