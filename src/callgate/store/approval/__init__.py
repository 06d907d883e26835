"""The repository of verified approval: people, challenges, requests, console sessions."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection, delete, func, insert, select

from callgate.approval.model import ConsoleSession
from callgate.store.approval.people import SqlPeople
from callgate.store.approval.requests import SqlRequests
from callgate.store.schema import approval_request, console_session, control, passkey, person
from callgate.store.statements import demand, insert_new

_IDENTITY: Final = "deployment_id"


class SqlApprovals(SqlPeople, SqlRequests):
    """The approval room's repository, each method one transaction; a witness is an `AuditRow` written in it."""

    async def add_session(self, session: ConsoleSession) -> None:
        demand(session.user, session.credential, session.csrf)
        names = (column.name for column in console_session.c)
        # Without the role: it is the person's, and read with every request.
        values = dict(zip(names, msgspec.structs.astuple(session)[:-1], strict=True))

        def add(conn: Connection) -> None:
            conn.execute(delete(console_session).where(console_session.c.expires_at <= session.created_at))
            conn.execute(insert(console_session).values(values))

        await self._change(add)

    async def session(self, session_id: bytes, now: int) -> ConsoleSession | None:
        # A passkey that was revoked while somebody signed in with it opens nothing.
        query = (
            select(console_session, person.c.role)
            .join(person, person.c.name == console_session.c.person)
            .join(passkey, passkey.c.id == console_session.c.credential)
            .where(
                console_session.c.id == session_id,
                console_session.c.expires_at > now,
                passkey.c.revoked_at.is_(None),
            )
        )
        row = await self._store.read(lambda conn: conn.execute(query).first())
        return None if row is None else ConsoleSession(*row)

    async def end_session(self, session_id: bytes) -> None:
        await self._change(lambda conn: conn.execute(delete(console_session).where(console_session.c.id == session_id)))

    async def identity(self, fresh: str) -> str:
        def read(conn: Connection) -> str | None:
            return conn.execute(select(control.c.value).where(control.c.name == _IDENTITY)).scalar()

        def make(conn: Connection) -> str:
            row = {"name": _IDENTITY, "value": fresh, "changed_at": 0, "changed_by": "callgate", "note": ""}
            insert_new(conn, control, row)
            return read(conn) or fresh

        stored = await self._store.read(read)
        return stored if stored is not None else await self._change(make)


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
