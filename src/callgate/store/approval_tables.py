"""The shelf of verified approval on a store: people, challenges, requests, console sessions."""

from __future__ import annotations

from typing import Final

import msgspec
from sqlalchemy import Connection, delete, insert, select

from callgate.approval.model import Session
from callgate.store.approval_enrolment import SqlEnrolment
from callgate.store.approval_people import SqlPeople
from callgate.store.approval_requests import SqlRequests
from callgate.store.approval_sql import demand, insert_new
from callgate.store.schema import console_session, control, passkey, person

_IDENTITY: Final = "deployment_id"


class SqlShelf(SqlPeople, SqlEnrolment, SqlRequests):
    """The approval room's `Shelf`, each method one transaction; a witness is an `AuditRow` written in it."""

    async def add_session(self, session: Session) -> None:
        demand(session.user, session.credential, session.csrf)
        names = (column.name for column in console_session.c)
        # Without the role: it is the person's, and read with every request.
        values = dict(zip(names, msgspec.structs.astuple(session)[:-1], strict=True))

        def add(conn: Connection) -> None:
            conn.execute(delete(console_session).where(console_session.c.expires_at <= session.created_at))
            conn.execute(insert(console_session).values(values))

        await self._change(add)

    async def session(self, session_id: bytes, now: int) -> Session | None:
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
        return None if row is None else Session(*row)

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


__all__ = ["SqlShelf"]
