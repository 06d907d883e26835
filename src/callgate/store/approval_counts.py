"""How often people were asked, by the hour: for the console's overview."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from callgate.store.schema import approval_request

_HOUR: Final = 3_600_000


class AskedInHour(NamedTuple):
    """How many requests were made in one hour (counted since 1970), and what state they are in by now."""

    hour: int
    state: str
    requests: int


def asked_by_hour(conn: Connection, since: int) -> list[AskedInHour]:
    """Everything that was asked since then; the time has an index, and requests are kept for a while only."""
    hour = (approval_request.c.created_at // _HOUR).label("hour")
    query = (
        select(hour, approval_request.c.state, func.count().label("requests"))
        .where(approval_request.c.created_at >= since)
        .group_by("hour", approval_request.c.state)
    )
    return [AskedInHour(int(row.hour), str(row.state), int(row.requests)) for row in conn.execute(query)]
