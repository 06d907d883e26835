"""People and their passkeys (the approval room's `People`, but for enrolling)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, select, update

from callgate.approval.model import Credential, Role, User
from callgate.audit.rows import AuditRow
from callgate.errors import Reason, Refused
from callgate.store.approval_sql import Part, demand, insert_new, known
from callgate.store.schema import (
    approval_request,
    challenge,
    console_session,
    passkey,
    person,
    recovery_code,
    registration,
    ticket,
)

# In the order of `Credential`'s fields.
PASSKEY: Final = tuple(column.name for column in passkey.c)
_TRANSPORTS: Final = PASSKEY.index("transports")
_FLAGS: Final = (PASSKEY.index("backup_eligible"), PASSKEY.index("backed_up"))
_transports: Final = msgspec.json.Decoder(tuple[str, ...])


def credential_of(row: Sequence[Any]) -> Credential:
    """A credential from the columns of `PASSKEY`."""
    values = list(row)
    values[_TRANSPORTS] = _transports.decode(values[_TRANSPORTS])
    # SQLite knows no truth values, only 0 and 1.
    for flag in _FLAGS:
        values[flag] = bool(values[flag])
    return Credential(*values)


def insert_credential(conn: Connection, credential: Credential) -> bool:
    """Store a new passkey; False if its id is taken."""
    values = dict(zip(PASSKEY, msgspec.structs.astuple(credential), strict=True))
    # Transports are what a client says: as JSON they hold whatever it says.
    values["transports"] = msgspec.json.encode(credential.transports).decode()
    return insert_new(conn, passkey, values)


def _forget_calls(conn: Connection, name: str) -> None:
    """A person who may approve nothing any more has no calls that wait for them, and nothing open to sign."""
    conn.execute(delete(approval_request).where(approval_request.c.person == name))
    # A consumed challenge stays known as consumed for as long as any other.
    conn.execute(delete(challenge).where(challenge.c.person == name, challenge.c.consumed_at.is_(None)))


def _roles(conn: Connection) -> dict[str, str]:
    """Everybody's role; nobody else changes one until this transaction is over."""
    query = select(person.c.name, person.c.role).order_by(person.c.name).with_for_update()
    return {row.name: row.role for row in conn.execute(query)}


def _keep_an_operator(roles: dict[str, str], without: str) -> None:
    if roles[without] == "operator" and not any(role == "operator" for name, role in roles.items() if name != without):
        raise Refused(Reason.LAST_OPERATOR)


class SqlPeople(Part):
    """Users and passkeys in tables."""

    async def add_user(self, user: User, witness: AuditRow | None = None) -> None:
        demand(user.name, user.display_name)

        def add(conn: Connection) -> None:
            if not insert_new(conn, person, msgspec.structs.asdict(user)):
                raise Refused(Reason.USER_EXISTS)
            self._record(conn, witness)

        await self._change(add)

    async def user(self, name: str) -> User | None:
        query = select(person).where(person.c.name == known(name))
        row = await self._store.read(lambda conn: conn.execute(query).first())
        return None if row is None else User(*row)

    async def users(self) -> Sequence[User]:
        rows = await self._store.read(lambda conn: conn.execute(select(person)).all())
        # Sorted here: databases differ in how they order text.
        return sorted((User(*row) for row in rows), key=lambda user: user.name)

    async def set_role(self, name: str, role: Role, witness: AuditRow | None = None) -> bool:
        name = known(name)

        def change(conn: Connection) -> bool:
            roles = _roles(conn)
            if name not in roles:
                return False
            if role != "operator":
                _keep_an_operator(roles, name)
            conn.execute(update(person).where(person.c.name == name).values(role=role))
            if role == "viewer":
                _forget_calls(conn, name)
            self._record(conn, witness)
            return True

        return await self._change(change)

    async def remove_user(self, name: str, witness: AuditRow | None = None) -> bool:
        name = known(name)

        def remove(conn: Connection) -> bool:
            roles = _roles(conn)
            if name not in roles:
                return False
            # Where nobody is left, whoever comes next is an operator again.
            if len(roles) > 1:
                _keep_an_operator(roles, name)
            conn.execute(delete(person).where(person.c.name == name))
            for table in (passkey, ticket, recovery_code, registration, console_session):
                conn.execute(delete(table).where(table.c.person == name))
            _forget_calls(conn, name)
            self._record(conn, witness)
            return True

        return await self._change(remove)

    async def credential(self, credential_id: str) -> Credential | None:
        query = select(passkey).where(passkey.c.id == known(credential_id))
        row = await self._store.read(lambda conn: conn.execute(query).first())
        return None if row is None else credential_of(row)

    async def credentials(self, user: str | None = None, *, revoked: bool = False) -> Sequence[Credential]:
        query = select(passkey).order_by(passkey.c.created_at, passkey.c.id)
        if user is not None:
            query = query.where(passkey.c.person == known(user))
        if not revoked:
            query = query.where(passkey.c.revoked_at.is_(None))
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        return [credential_of(row) for row in rows]

    async def rename_credential(self, credential_id: str, name: str, witness: AuditRow | None = None) -> bool:
        demand(name)
        statement = update(passkey).where(passkey.c.id == known(credential_id)).values(name=name)

        def rename(conn: Connection) -> bool:
            if conn.execute(statement).rowcount == 0:
                return False
            self._record(conn, witness)
            return True

        return await self._change(rename)

    async def revoke_credential(self, credential_id: str, at: int, witness: AuditRow | None = None) -> bool:
        credential_id = known(credential_id)
        live = (passkey.c.id == credential_id, passkey.c.revoked_at.is_(None))

        def revoke(conn: Connection) -> bool:
            if conn.execute(update(passkey).where(*live).values(revoked_at=at)).rowcount == 0:
                return False
            conn.execute(delete(console_session).where(console_session.c.credential == credential_id))
            self._record(conn, witness)
            return True

        return await self._change(revoke)


__all__ = ["PASSKEY", "SqlPeople", "credential_of", "insert_credential"]
