"""People, their passkeys, and how a passkey gets in (`People` of the approval room)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, func, insert, or_, select, update

from callgate.approval.model import Credential, Registration, Role, Ticket, User
from callgate.approval.storage import ApprovalBounds
from callgate.audit.records import AuditRow
from callgate.errors import Reason, Refused
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
from callgate.store.statements import DAY_MS, KEEP_MS, SWEEP, Repository, demand, insert_new, known

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


class SqlPeople(Repository):
    """Users, passkeys, tickets, registrations and recovery codes in tables."""

    async def add_ticket(self, ticket: Ticket, witness: AuditRow | None = None) -> None:
        demand(ticket.user, ticket.purpose, ticket.by)

        def add(conn: Connection) -> None:
            _put_ticket(conn, ticket)
            self._record(conn, witness)

        await self._change(add)

    async def ticket(self, ticket_hash: bytes) -> Ticket | None:
        query = select(ticket).where(ticket.c.hash == ticket_hash)
        row = await self._store.read(lambda conn: conn.execute(query).first())
        return None if row is None else Ticket(*row)

    async def begin_registration(
        self, registration: Registration, bounds: ApprovalBounds, *, ticket: bytes | None, now: int
    ) -> None:
        demand(registration.user)

        def begin(conn: Connection) -> None:
            _sweep_registrations(conn, now)
            first = ticket is None or _use_ticket(conn, ticket, registration.user, now) == "setup"
            if first:
                _demand_first_use(conn, registration.user)
            _demand_room(conn, registration.user, bounds, now)
            _put_registration(conn, registration, ticketed=not first)

        await self._change(begin)

    async def registration(self, challenge: bytes) -> Registration | None:
        columns = registration.c
        query = select(columns.challenge, columns.person, columns.created_at, columns.expires_at, columns.used_at)
        query = query.where(columns.challenge == challenge)
        row = await self._store.read(lambda conn: conn.execute(query).first())
        return None if row is None else Registration(*row)

    async def open_registrations(self, now: int) -> int:
        begun = (registration.c.used_at.is_(None), registration.c.expires_at > now)
        query = select(func.count()).select_from(registration).where(*begun)
        return int(await self._store.read(lambda conn: conn.execute(query).scalar_one()))

    async def finish_registration(
        self,
        challenge: bytes,
        credential: Credential,
        codes: Sequence[bytes],
        *,
        now: int,
        witness: AuditRow | None = None,
    ) -> None:
        demand(credential.id, credential.user, credential.name, credential.aaguid, credential.attestation)

        def finish(conn: Connection) -> None:
            ticketed = _use_registration(conn, challenge, credential.user, now)
            if not insert_credential(conn, credential):
                raise Refused(Reason.CREDENTIAL_ALREADY_ENROLLED)
            # First use is over as soon as there is a passkey, also for those who began before that.
            if not ticketed and _passkeys(conn, credential.user) > 1:
                raise Refused(Reason.NO_PENDING_ENROLLMENT)
            if codes:
                _replace_codes(conn, credential.user, codes)
            self._record(conn, witness)

        await self._change(finish)

    async def use_recovery_code(self, user: str, code: bytes, ticket: Ticket, witness: AuditRow | None = None) -> None:
        user = known(user)
        held = (recovery_code.c.person == user, recovery_code.c.hash == code)

        def use(conn: Connection) -> None:
            if ticket.user != user or conn.execute(delete(recovery_code).where(*held)).rowcount == 0:
                raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
            _put_ticket(conn, ticket)
            self._record(conn, witness)

        await self._change(use)

    async def recovery_codes(self, user: str) -> int:
        query = select(func.count()).select_from(recovery_code).where(recovery_code.c.person == known(user))
        return int(await self._store.read(lambda conn: conn.execute(query).scalar_one()))

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


def _put_ticket(conn: Connection, new: Ticket) -> None:
    if conn.execute(select(person.c.name).where(person.c.name == new.user)).first() is None:
        raise Refused(Reason.USER_UNKNOWN)
    long_ago = new.created_at - DAY_MS
    old = select(ticket.c.hash).where(or_(ticket.c.used_at < long_ago, ticket.c.expires_at < long_ago)).limit(SWEEP)
    conn.execute(delete(ticket).where(ticket.c.hash.in_(old)))
    values = dict(zip((column.name for column in ticket.c), msgspec.structs.astuple(new), strict=True))
    conn.execute(insert(ticket).values(values))


def _use_ticket(conn: Connection, ticket_hash: bytes, user: str, now: int) -> str:
    """Use it up; what it is for."""
    good = (
        ticket.c.hash == ticket_hash,
        ticket.c.person == user,
        ticket.c.used_at.is_(None),
        ticket.c.expires_at > now,
    )
    if conn.execute(update(ticket).where(*good).values(used_at=now)).rowcount == 0:
        raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
    return str(conn.execute(select(ticket.c.purpose).where(ticket.c.hash == ticket_hash)).scalar_one())


def _demand_first_use(conn: Connection, user: str) -> None:
    there = conn.execute(select(person.c.name).where(person.c.name == user)).first() is not None
    if not there or _passkeys(conn, user) > 0:
        raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)


def _passkeys(conn: Connection, user: str) -> int:
    """Revoked ones too."""
    query = select(func.count()).select_from(passkey).where(passkey.c.person == user)
    return int(conn.execute(query).scalar_one())


def _demand_room(conn: Connection, user: str, bounds: ApprovalBounds, now: int) -> None:
    begun = (registration.c.person == user, registration.c.used_at.is_(None), registration.c.expires_at > now)
    under_way = conn.execute(select(func.count()).select_from(registration).where(*begun)).scalar_one()
    usable = (passkey.c.person == user, passkey.c.revoked_at.is_(None))
    passkeys = conn.execute(select(func.count()).select_from(passkey).where(*usable)).scalar_one()
    if under_way >= bounds.registrations_per_user or under_way + passkeys >= bounds.credentials_per_user:
        raise Refused(Reason.APPROVAL_LIMIT)


def _put_registration(conn: Connection, new: Registration, *, ticketed: bool) -> None:
    conn.execute(
        insert(registration).values(
            challenge=new.challenge,
            person=new.user,
            ticketed=ticketed,
            created_at=new.created_at,
            expires_at=new.expires_at,
            used_at=new.used_at,
        )
    )


def _use_registration(conn: Connection, challenge: bytes, user: str, now: int) -> bool:
    """Use it up; whether it was begun with a ticket."""
    good = (
        registration.c.challenge == challenge,
        registration.c.person == user,
        registration.c.used_at.is_(None),
        registration.c.expires_at > now,
    )
    if conn.execute(update(registration).where(*good).values(used_at=now)).rowcount == 0:
        raise Refused(Reason.NO_PENDING_ENROLLMENT)
    query = select(registration.c.ticketed).where(registration.c.challenge == challenge)
    return bool(conn.execute(query).scalar_one())


def _sweep_registrations(conn: Connection, now: int) -> None:
    old = select(registration.c.challenge).where(registration.c.expires_at < now - KEEP_MS).limit(SWEEP)
    conn.execute(delete(registration).where(registration.c.challenge.in_(old)))


def _replace_codes(conn: Connection, user: str, codes: Sequence[bytes]) -> None:
    conn.execute(delete(recovery_code).where(recovery_code.c.person == user))
    conn.execute(insert(recovery_code), [{"person": user, "hash": code} for code in set(codes)])
