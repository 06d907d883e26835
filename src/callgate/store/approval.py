"""The repository of verified approval: people and passkeys, challenges, requests, console sessions.

Only conditional writes decide who wins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from callgate.approval.delegation import Delegation, DelegationUse, GrantedAgent
from callgate.approval.model import (
    WITHDRAWN,
    ApprovalBounds,
    Challenge,
    ChallengeUse,
    ConsoleSession,
    Credential,
    GrantUse,
    Registration,
    Request,
    RequestState,
    Role,
    Signature,
    Ticket,
    Use,
    User,
    met,
    reaches,
)
from callgate.audit.records import AuditRow
from callgate.canonical import parts_hash
from callgate.errors import Reason, Refused, Spent
from callgate.protocol import DEVICE, WEBAUTHN
from callgate.store import delegation as grants
from callgate.store.front import Store
from callgate.store.schema import (
    approval_request,
    approval_signature,
    challenge,
    console_session,
    control,
    delegation,
    membership,
    passkey,
    person,
    recovery_code,
    registration,
    ticket,
)
from callgate.store.statements import (
    DAY_MS,
    KEEP_MS,
    SWEEP,
    Repository,
    Statement,
    count,
    demand,
    insert_new,
    known,
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


def running(now: int) -> Callable[[], int]:
    """The caller's time, which goes on while a transaction waits for its turn: what runs out meanwhile has run out."""
    began = time.monotonic()
    return lambda: now + int((time.monotonic() - began) * 1000)


def _forget_calls(conn: Connection, name: str) -> None:
    """A person who may approve nothing any more has no calls that wait for them, and nothing open to sign."""
    conn.execute(delete(approval_request).where(approval_request.c.person == name))
    # A consumed challenge stays known as consumed for as long as any other.
    conn.execute(delete(challenge).where(challenge.c.person == name, challenge.c.consumed_at.is_(None)))


def _roles(conn: Connection) -> dict[str, Role]:
    """Everybody's role; nobody else changes one until this transaction is over."""
    query = select(person.c.name, person.c.role).order_by(person.c.name).with_for_update()
    return {row.name: row.role for row in conn.execute(query)}


def _keep_an_operator(roles: dict[str, Role], without: str) -> None:
    if roles[without] == "operator" and not any(role == "operator" for name, role in roles.items() if name != without):
        raise Refused(Reason.LAST_OPERATOR)


_challenge: Final = msgspec.msgpack.Decoder(Challenge)
_CONSUME: Final = Statement(
    "UPDATE challenge SET consumed_at = ? WHERE id = ? AND consumed_at IS NULL AND expires_at > ? RETURNING expires_at"
)
# §4.8 steps 11 and 14: zero means that the passkey does not count; otherwise the number only grows.
_COUNT: Final = Statement(
    "UPDATE passkey SET counter = ?, last_used_at = ?, backed_up = ?"
    " WHERE id = ? AND revoked_at IS NULL AND (counter = 0 OR counter < ?)"
)
_GRANT: Final = Statement(
    "UPDATE approval_request SET state = 'used', call = ? WHERE id = ? AND state = 'approved' AND expires_at > ?"
    " RETURNING expires_at, person, decision"
)
_STATE: Final = Statement("SELECT consumed_at, expires_at FROM challenge WHERE id = ?")
_REVOKED: Final = Statement("SELECT revoked_at FROM passkey WHERE id = ?")
_ONE: Final = Statement("SELECT body, consumed_at FROM challenge WHERE id = ?")
# One statement is one view, also where two would be two.
_BOTH: Final = Statement(
    f"SELECT c.body, c.consumed_at, {', '.join(f'p.{name}' for name in PASSKEY)} FROM (SELECT 1 AS one) AS o"  # noqa: S608
    " LEFT JOIN challenge AS c ON c.id = ? LEFT JOIN passkey AS p ON p.id = ?"
)
_SWEEP_CHALLENGES: Final = Statement(
    "DELETE FROM challenge WHERE seq IN (SELECT seq FROM challenge WHERE expires_at < ? ORDER BY expires_at LIMIT ?)"
)
_ADD: Final = Statement("INSERT INTO challenge (id, person, expires_at, body) VALUES (?, ?, ?, ?) RETURNING seq")
_OPEN: Final = Statement(
    "SELECT count(*) FROM (SELECT 1 FROM challenge WHERE expires_at > ? AND consumed_at IS NULL LIMIT ?) AS found"
)
_OPEN_OF: Final = Statement(
    "SELECT count(*) FROM"
    " (SELECT 1 FROM challenge WHERE person = ? AND expires_at > ? AND consumed_at IS NULL LIMIT ?) AS found"
)
_BODIES_OF: Final = Statement(
    "SELECT body FROM challenge WHERE person = ? AND expires_at > ? AND consumed_at IS NULL LIMIT ?"
)


class OpenChallengeCount:
    """Tells that a bound is kept without counting each time.

    What is open now was open when somebody last counted, or was added since; `seq` tells how many that are at most,
    whichever process added them. Only where that could be too many, they are counted again.
    """

    KEPT: Final = 1000
    # Counting many for every refusal would make being full expensive: what was full is full for a moment longer.
    MANY: Final = 1000
    FULL_MS: Final = 250

    def __init__(self) -> None:
        self._counted: dict[tuple[int, str | None], tuple[int, int]] = {}
        self._full: dict[tuple[int, str | None], int] = {}

    def freed(self) -> None:
        """Something was used up here, so there is room again."""
        self._full.clear()

    def within(self, bound: int, user: str | None, seq: int, now: int, count: Callable[[], int]) -> bool:
        # Counting ends one beyond the bound, so what was counted says nothing about a higher one.
        key = (bound, user)
        found, at = self._counted.get(key, (bound, 0))
        if found + max(0, seq - at) <= bound:
            return True
        if key in self._full and 0 <= now - self._full[key] < self.FULL_MS:
            return False
        if len(self._counted) >= self.KEPT:
            self._counted.clear()
            self._full.clear()
        found = count()
        self._counted[key] = found, seq
        if found > bound >= self.MANY:
            self._full[key] = now
        return found <= bound


def _issued(body: bytes, consumed_at: int | None) -> Challenge:
    return replace(_challenge.decode(body), consumed_at=consumed_at)


def _why_not(conn: Connection, challenge: str, at: int) -> Reason:
    """§4.8: unknown, then consumed, then expired."""
    found = _STATE.first(conn, challenge)
    if found is None:
        return Reason.CHALLENGE_UNKNOWN
    consumed_at, expires_at = found
    if consumed_at is not None:
        return Reason.CHALLENGE_CONSUMED
    return Reason.CHALLENGE_EXPIRED if expires_at <= at else Reason.CHALLENGE_UNKNOWN


_MOST_LISTED: Final = 10_000
_request: Final = msgspec.msgpack.Decoder(Request)
_id, _columns = approval_request.c.id, approval_request.c


class StoredDecision(msgspec.Struct, frozen=True):
    """What became of a request, and by whom."""

    at: int
    by: str
    note: str | None = None
    evidence: dict[str, Any] | None = None
    # The passkey that signed it.
    credential: str | None = None


_decision: Final = msgspec.msgpack.Decoder(StoredDecision)


def call_key(caller: str, server: str, tool: str, action_hash: bytes) -> bytes:
    """One value for who calls what; texts of any kind and length, which no index would take, go in."""
    return parts_hash(caller, server, tool, action_hash)


_IDENTITY: Final = "deployment_id"


class SqlApprovals(Repository):
    """The approval room's repository, each method one transaction; a witness is an `AuditRow` written in it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._tally = OpenChallengeCount()

    # -- people, passkeys and how one gets in ------------------------------------------------------------------

    async def add_ticket(self, ticket: Ticket, witness: AuditRow | None = None) -> None:
        demand(ticket.user, ticket.purpose, ticket.by)

        await self._change(lambda conn: _put_ticket(conn, ticket), witness)

    async def ticket(self, ticket_hash: bytes) -> Ticket | None:
        row = await self._first(select(ticket).where(ticket.c.hash == ticket_hash))
        return None if row is None else Ticket(*row)

    async def tickets(self, now: int) -> Sequence[Ticket]:
        columns = registration.c
        begun = select(columns.ticket, columns.expires_at).where(columns.used_at.is_(None), columns.expires_at > now)
        under_way = begun.subquery()
        usable = and_(ticket.c.used_at.is_(None), ticket.c.expires_at > now)
        query = (
            select(ticket, under_way.c.expires_at.label("begun_until"))
            .outerjoin(under_way, under_way.c.ticket == ticket.c.hash)
            .where(or_(usable, under_way.c.ticket.is_not(None)))
            .order_by(ticket.c.created_at, ticket.c.hash)
            .limit(_MOST_LISTED)
        )
        found = [(Ticket(*row[:-1]), row.begun_until) for row in await self._rows(query)]
        return [one if until is None else replace(one, expires_at=until) for one, until in found]

    async def cancel_ticket(self, ticket_hash: bytes, witness: AuditRow | None = None) -> bool:
        return await self._change(lambda conn: _drop_tickets(conn, ticket.c.hash == ticket_hash) > 0, witness)

    async def begin_registration(
        self, registration: Registration, bounds: ApprovalBounds, *, ticket: bytes | None, now: int
    ) -> None:
        demand(registration.user)
        clock = running(now)

        def begin(conn: Connection) -> None:
            first = ticket is None or _use_ticket(conn, ticket, registration.user, clock(), at=now) == "setup"
            if first:
                _demand_first_use(conn, registration.user)
            _demand_room(conn, registration.user, bounds, now)
            _put_registration(conn, registration, now, ticket, ticketed=not first)

        await self._change(begin)

    async def registration(self, challenge: bytes) -> Registration | None:
        columns = registration.c
        query = select(columns.challenge, columns.person, columns.created_at, columns.expires_at, columns.used_at)
        row = await self._first(query.where(columns.challenge == challenge))
        return None if row is None else Registration(*row)

    async def open_registrations(self, now: int) -> int:
        begun = (registration.c.used_at.is_(None), registration.c.expires_at > now)
        return await self._store.read(lambda conn: count(conn, registration, *begun))

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
        clock = running(now)

        def finish(conn: Connection) -> None:
            ticketed = _use_registration(conn, challenge, credential.user, clock(), at=now)
            if not insert_credential(conn, credential):
                raise Refused(Reason.CREDENTIAL_ALREADY_ENROLLED)
            # First use is over as soon as there is a passkey, also for those who began before that.
            if not ticketed and _passkeys(conn, credential.user) > 1:
                raise Refused(Reason.NO_PENDING_ENROLLMENT)
            if codes:
                _replace_codes(conn, credential.user, codes)

        await self._change(finish, witness)

    async def use_recovery_code(self, user: str, code: bytes, ticket: Ticket, witness: AuditRow | None = None) -> None:
        user = known(user)
        held = (recovery_code.c.person == user, recovery_code.c.hash == code)

        def use(conn: Connection) -> None:
            if ticket.user != user or conn.execute(delete(recovery_code).where(*held)).rowcount == 0:
                raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
            _put_ticket(conn, ticket)

        await self._change(use, witness)

    async def has_recovery_code(self, user: str, code: bytes) -> bool:
        held = (recovery_code.c.person == known(user), recovery_code.c.hash == code)
        return await self._first(select(recovery_code.c.hash).where(*held)) is not None

    async def recovery_codes(self, user: str) -> int:
        own = recovery_code.c.person == known(user)
        return await self._store.read(lambda conn: count(conn, recovery_code, own))

    async def add_user(self, user: User, witness: AuditRow | None = None) -> None:
        demand(user.name, user.display_name)

        def add(conn: Connection) -> None:
            if not insert_new(conn, person, msgspec.structs.asdict(user)):
                raise Refused(Reason.USER_EXISTS)

        await self._change(add, witness)

    async def user(self, name: str) -> User | None:
        row = await self._first(select(person).where(person.c.name == known(name)))
        return None if row is None else User(*row)

    async def users(self) -> Sequence[User]:
        rows = await self._rows(select(person))
        # Sorted here: databases differ in how they order text.
        return sorted((User(*row) for row in rows), key=lambda user: user.name)

    async def set_role(self, name: str, role: Role, witness: AuditRow | None = None, *, at: int) -> bool:
        name = known(name)

        def change(conn: Connection) -> bool:
            roles = _roles(conn)
            if name not in roles:
                return False
            if role != "operator":
                _keep_an_operator(roles, name)
            if not reaches(role, roles[name]):
                _end_links(conn, passkey.c.person == name)
                self._end_devices(conn, passkey.c.person == name, at)
            conn.execute(update(person).where(person.c.name == name).values(role=role))
            if role == "viewer":
                grants.end(conn, delegation.c.person == name, by="the gateway", at=at)
                _forget_calls(conn, name)
                self._unsign(conn, approval_signature.c.person == name, None)
            return True

        return await self._change(change, witness)

    async def remove_user(self, name: str, witness: AuditRow | None = None) -> bool:
        name = known(name)

        def remove(conn: Connection) -> bool:
            roles = _roles(conn)
            if name not in roles:
                return False
            # Where nobody is left, whoever comes next is an operator again.
            if len(roles) > 1:
                _keep_an_operator(roles, name)
            _end_links(conn, passkey.c.person == name)
            grants.end(conn, delegation.c.person == name, by="the gateway")
            conn.execute(delete(person).where(person.c.name == name))
            for table in (passkey, ticket, recovery_code, registration, console_session, membership):
                conn.execute(delete(table).where(table.c.person == name))
            _forget_calls(conn, name)
            self._unsign(conn, approval_signature.c.person == name, None)
            return True

        return await self._change(remove, witness)

    async def groups(self) -> Mapping[str, frozenset[str]]:
        return await self._store.read(lambda conn: _groups_of(conn, select(membership)))

    async def join_group(self, group: str, name: str, witness: AuditRow | None = None) -> bool:
        demand(group, name)

        def join(conn: Connection) -> bool:
            if conn.execute(select(person.c.name).where(person.c.name == name)).first() is None:
                raise Refused(Reason.USER_UNKNOWN)
            return insert_new(conn, membership, {"team": group, "person": name})

        return await self._change(join, witness)

    async def leave_group(self, group: str, name: str, at: int, witness: AuditRow | None = None) -> bool:
        name = known(name)
        own = (membership.c.team == known(group), membership.c.person == name)

        def leave(conn: Connection) -> bool:
            if conn.execute(delete(membership).where(*own)).rowcount == 0:
                return False
            self._unsign(conn, approval_signature.c.person == name, at, group=group)
            return True

        return await self._change(leave, witness)

    async def credential(self, credential_id: str) -> Credential | None:
        row = await self._first(select(passkey).where(passkey.c.id == known(credential_id)))
        return None if row is None else credential_of(row)

    async def credentials(
        self, user: str | None = None, *, revoked: bool = False, method: str | None = WEBAUTHN
    ) -> Sequence[Credential]:
        query = select(passkey).order_by(passkey.c.created_at, passkey.c.id)
        if method is not None:
            query = query.where(passkey.c.method == method)
        if user is not None:
            query = query.where(passkey.c.person == known(user))
        if not revoked:
            query = query.where(passkey.c.revoked_at.is_(None))
        return [credential_of(row) for row in await self._rows(query)]

    async def rename_credential(self, credential_id: str, name: str, witness: AuditRow | None = None) -> bool:
        demand(name)
        statement = update(passkey).where(passkey.c.id == known(credential_id)).values(name=name)
        return await self._change(lambda conn: conn.execute(statement).rowcount > 0, witness)

    async def add_device(self, device: Credential, bounds: ApprovalBounds, witness: AuditRow | None = None) -> None:
        demand(device.id, device.user, device.name)

        def add(conn: Connection) -> None:
            if not insert_credential(conn, device):
                raise Refused(Reason.CREDENTIAL_ALREADY_ENROLLED)
            if not _still_approves(conn, device.id, device.user):
                raise Refused(Reason.UNKNOWN_CREDENTIAL)
            own = (passkey.c.person == device.user, passkey.c.method == device.method, passkey.c.revoked_at.is_(None))
            if count(conn, passkey, *own) > bounds.devices_per_user:
                raise Refused(Reason.APPROVAL_LIMIT, "this person has as many devices as they may have")

        await self._change(add, witness)

    async def count_ask(self, device: str, time: int, at: int) -> None:
        device = known(device)

        def take(conn: Connection) -> None:
            owner = conn.execute(select(passkey.c.person).where(passkey.c.id == device)).scalar()
            if owner is None or not _still_approves(conn, device, owner):
                raise Spent(Reason.UNKNOWN_CREDENTIAL)
            backed_up = False
            if _COUNT.run(conn, time, at, backed_up, device, time).rowcount != 1:
                raise Spent(Reason.SIGNATURE_COUNTER_REGRESSION)

        await self._change(take)

    async def revoke_credential(self, credential_id: str, at: int, witness: AuditRow | None = None) -> bool:
        credential_id = known(credential_id)
        live = (passkey.c.id == credential_id, passkey.c.revoked_at.is_(None))

        def revoke(conn: Connection) -> bool:
            if conn.execute(update(passkey).where(*live).values(revoked_at=at)).rowcount == 0:
                return False
            conn.execute(delete(console_session).where(console_session.c.credential == credential_id))
            _end_links(conn, passkey.c.id == credential_id)
            grants.end(conn, delegation.c.credential == credential_id, by="the gateway", at=at)
            self._take_approvals_back(conn, credential_id, at)
            self._unsign(conn, approval_signature.c.credential == credential_id, at)
            self._end_devices(conn, passkey.c.voucher == credential_id, at)
            return True

        return await self._change(revoke, witness)

    def _end_devices(self, conn: Connection, which: ColumnElement[bool], at: int) -> None:
        """These devices answer nothing any more, and what they answered counts no longer."""
        live = (which, passkey.c.method == DEVICE, passkey.c.revoked_at.is_(None))
        for device in conn.execute(select(passkey.c.id).where(*live)).scalars().all():
            conn.execute(update(passkey).where(passkey.c.id == device).values(revoked_at=at))
            self._take_approvals_back(conn, device, at)
            self._unsign(conn, approval_signature.c.credential == device, at)

    def _take_approvals_back(self, conn: Connection, credential: str, at: int) -> None:
        """Approvals that this passkey signed and no call has used are refusals from now on, which the caller hears."""
        owner = select(passkey.c.person).where(passkey.c.id == credential).scalar_subquery()
        unused = _select().where(_columns.person == owner, _columns.state == "approved")
        for row in conn.execute(unused).all():
            decision = _decision.decode(row.decision)
            if _signed_with(decision) == credential:
                no = replace(decision, at=at, note="the passkey or device that approved this call was revoked")
                values = {"state": "refused", "decision": msgspec.msgpack.encode(no)}
                conn.execute(update(approval_request).where(_id == row.id).values(values))
                self._store.backend.announce(conn)

    def _unsign(self, conn: Connection, whose: ColumnElement[bool], at: int | None, *, group: str = "") -> None:
        """Signatures of somebody who may not sign any more, or not as one of this group, are none. Whoever waits needs
        another one; an approval that no call has used becomes a refusal, which the caller hears.
        """
        both = _select().join(approval_signature, approval_signature.c.request == _id)
        undecided = _columns.state.in_(("waiting", "approved"))
        for row in conn.execute(both.where(whose, undecided)).all():
            asked = _request_of(row)
            if group and not any(group in one.of for one in asked.policy.quorums):
                continue
            conn.execute(delete(approval_signature).where(approval_signature.c.request == row.id, whose))
            if row.state == "approved":
                decision = _decision.decode(row.decision)
                note = "somebody who approved this call may not approve it any more"
                no = replace(decision, at=at or decision.at, note=note, credential=None)
                values = {"state": "refused", "decision": msgspec.msgpack.encode(no)}
                conn.execute(update(approval_request).where(_id == row.id).values(values))
            self._store.backend.announce(conn)

    # -- challenges and requests -------------------------------------------------------------------------------

    async def add_challenge(self, challenge: Challenge, bounds: ApprovalBounds) -> None:
        demand(challenge.id, challenge.user)
        body = msgspec.msgpack.encode(challenge)
        await self._store.run(lambda conn: self._add(conn, challenge, body, bounds))

    def _add(self, conn: Connection, new: Challenge, body: bytes, bounds: ApprovalBounds) -> None:
        now, user = new.created_at, new.user
        driver = conn.connection.driver_connection
        with self._store.backend.together(driver):
            self._store.backend.hold_approvals(driver)
            _SWEEP_CHALLENGES.run(conn, now - KEEP_MS, SWEEP)
            added = _ADD.run(conn, new.id, user, new.expires_at, body)
        seq = int(added.fetchall()[0][0])
        each, most = bounds.per_user, bounds.in_all
        within = self._tally.within
        if not within(most, None, seq, now, lambda: int(_OPEN.all(conn, now, most + 1)[0][0])):
            raise Refused(Reason.APPROVAL_LIMIT)
        if within(each, user, seq, now, lambda: int(_OPEN_OF.all(conn, user, now, each + 1)[0][0])):
            return
        # Where that is what others have open, a caller still has a share.
        opened = [body for (body,) in _BODIES_OF.all(conn, user, now, 2 * each + 1)] if new.caller else []
        if not opened or len(opened) > 2 * each or not _has_place(opened, new.caller, each):
            raise Refused(Reason.APPROVAL_LIMIT)

    async def challenge(self, challenge_id: str) -> Challenge | None:
        wanted = known(challenge_id)
        row = await self._store.read(lambda conn: _ONE.first(conn, wanted))
        return None if row is None else _issued(*row)

    async def look_up(self, challenge_id: str, credential_id: str) -> tuple[Challenge | None, Credential | None]:
        wanted = known(challenge_id), known(credential_id)
        row = await self._store.read(lambda conn: _BOTH.first(conn, *wanted))
        assert row is not None
        challenge = None if row[0] is None else _issued(row[0], row[1])
        return challenge, None if row[2] is None else credential_of(row[2:])

    async def use(self, use: Use | DelegationUse, witness: Any = None) -> None:
        clock = running(use.at)
        if isinstance(use, DelegationUse):
            await self._change(lambda conn: self._use_delegation(conn, use, clock, witness))
        elif isinstance(use, ChallengeUse):
            await self._store.run(lambda conn: self._consume(conn, use, clock, witness))
        else:
            await self._store.run(lambda conn: self._use_grant(conn, use, clock, witness))

    def _consume(self, conn: Connection, use: ChallengeUse, clock: Callable[[], int], witness: AuditRow | None) -> None:
        """§4.8, steps 13 and 14, and their record.

        All of it is sent before anything is known of its success: raising undoes all of it (the store's savepoint).
        """
        challenge, credential = known(use.challenge), known(use.credential)
        driver = conn.connection.driver_connection
        with self._store.backend.together(driver):
            self._store.backend.hold_approvals(driver)
            consumed = _CONSUME.run(conn, use.at, challenge, use.at)
            moved = _COUNT.run(conn, use.counter, use.at, use.backed_up, credential, use.counter)
            self._record(conn, witness)
        found = consumed.fetchall()
        if not found:
            raise Spent(_why_not(conn, challenge, use.at))
        # VA-129: this transaction may have waited for its turn since the time in `use`.
        if found[0][0] <= clock():
            raise Spent(Reason.CHALLENGE_EXPIRED)
        if moved.rowcount != 1:
            held = _REVOKED.first(conn, credential)
            gone = held is None or held[0] is not None
            raise Spent(Reason.UNKNOWN_CREDENTIAL if gone else Reason.SIGNATURE_COUNTER_REGRESSION)
        self._tally.freed()

    def _use_grant(self, conn: Connection, use: GrantUse, clock: Callable[[], int], witness: AuditRow | None) -> None:
        driver = conn.connection.driver_connection
        with self._store.backend.together(driver):
            self._store.backend.hold_approvals(driver)
            used = _GRANT.run(conn, use.call, known(use.request), use.at)
            self._record(conn, witness)
        found = used.fetchall()
        if not found or found[0][0] <= clock():
            raise Spent(Reason.APPROVAL_EXPIRED)
        _, user, decision = found[0]
        if use.call == WITHDRAWN:
            return
        if _by_several(user):
            row = conn.execute(_select().where(_id == known(use.request))).one()
            holds = _is_met(conn, _request_of(row))
        else:
            holds = _still_approves(conn, _signed_with(_decision.decode(decision)), user)
        if not holds:
            raise Spent(Reason.UNKNOWN_CREDENTIAL)

    def _use_delegation(
        self, conn: Connection, use: DelegationUse, clock: Callable[[], int], witness: Callable[..., AuditRow] | None
    ) -> None:
        used = grants.use(conn, use, clock)
        if not _still_approves(conn, used.credential, used.terms.person):
            raise Spent(Reason.UNKNOWN_CREDENTIAL)
        self._record(conn, None if witness is None else witness(left=used.left))

    # -- what is signed beforehand -----------------------------------------------------------------------------

    async def add_delegation(self, new: Delegation, use: ChallengeUse, witness: AuditRow | None = None) -> None:
        demand(new.terms.id, new.terms.person, new.credential)
        clock = running(use.at)

        def add(conn: Connection) -> None:
            self._consume(conn, use, clock, None)
            if not _still_approves(conn, new.credential, new.terms.person):
                raise Refused(Reason.UNKNOWN_CREDENTIAL)
            grants.add(conn, new, clock())

        await self._change(add, witness)

    async def delegation(self, grant: str) -> Delegation | None:
        row = await self._first(select(delegation).where(delegation.c.id == known(grant)))
        return None if row is None else grants.of(row)

    async def delegations(self, user: str | None = None, *, limit: int = 1000) -> Sequence[Delegation]:
        query = select(delegation).order_by(delegation.c.at.desc(), delegation.c.id)
        if user is not None:
            query = query.where(delegation.c.person == known(user))
        return [grants.of(row) for row in await self._rows(query.limit(max(0, min(limit, _MOST_LISTED))))]

    async def delegations_of(self, agent: GrantedAgent, server_id: str, now: int) -> Sequence[Delegation]:
        return [grants.of(row) for row in await self._rows(grants.for_agent(agent, server_id, now))]

    async def revoke_delegation(self, grant: str, at: int, by: str, witness: AuditRow | None = None) -> bool:
        which = delegation.c.id == known(grant)
        return await self._change(lambda conn: grants.end(conn, which, by=_whole(by), at=at) > 0, witness)

    async def open_request(self, request: Request, bounds: ApprovalBounds, witness: AuditRow | None = None) -> Request:
        demand(request.id, request.user)
        new = replace(
            request, why=_whole(request.why), agent={_whole(key): _whole(text) for key, text in request.agent.items()}
        )
        key = call_key(new.caller, new.server, new.tool, new.action_hash)
        body = msgspec.msgpack.encode(new)

        def open_or_find(conn: Connection) -> Request:
            # A request is of no use to anyone a day after it ran out, decided or not.
            _drop_some(conn, _id, _columns.expires_at < new.created_at - DAY_MS)
            # A request lives a day at most.
            _drop_some(conn, approval_signature.c.request, approval_signature.c.at < new.created_at - 3 * DAY_MS)
            unexpired = (_columns.person == new.user, _columns.expires_at > new.created_at)
            same = _select().where(*unexpired, _columns.call_key == key, _columns.state.in_(("waiting", "approved")))
            found = conn.execute(same.order_by(_columns.created_at, _id).limit(1)).first()
            if found is not None:
                return _request_of(found)
            waiting = select(_columns.body).where(*unexpired, _columns.state == "waiting")
            taken = [*conn.execute(waiting).scalars().all(), body]
            if not _has_place(taken, new.caller, bounds.requests_per_user):
                raise Refused(Reason.APPROVAL_LIMIT)
            values = (new.id, new.user, key, new.state, new.created_at, new.expires_at, None, None, body)
            conn.execute(insert(approval_request).values(values))
            self._record(conn, witness)
            self._store.backend.announce(conn)
            return new

        return await self._change(open_or_find)

    async def find_grant(self, caller: str, server: str, tool: str, action_hash: bytes, now: int) -> Request | None:
        key = call_key(caller, server, tool, action_hash)
        granted = _select().where(_columns.call_key == key, _columns.state == "approved", _columns.expires_at > now)
        row = await self._first(granted.order_by(_columns.created_at, _id).limit(1))
        return None if row is None else _request_of(row)

    async def hear_refusal(
        self, caller: str, server: str, tool: str, action_hash: bytes, *, call: str, now: int
    ) -> Request | None:
        key = call_key(caller, server, tool, action_hash)
        unheard = (
            _columns.call_key == key,
            _columns.state == "refused",
            _columns.call.is_(None),
            _columns.expires_at > now,
        )
        oldest = _select().where(*unheard).order_by(_columns.created_at, _id).limit(1)
        # Nearly always there is none, and a look is cheaper than a turn at writing.
        if await self._first(oldest) is None:
            return None

        def hear(conn: Connection) -> Request | None:
            found = conn.execute(oldest).first()
            if found is None:
                return None
            mark = update(approval_request).where(_id == found.id, _columns.call.is_(None)).values(call=call)
            marked = conn.execute(mark, execution_options={"preserve_rowcount": True})
            return replace(_request_of(found), call=call) if marked.rowcount == 1 else None

        return await self._change(hear)

    async def request(self, request_id: str) -> Request | None:
        row = await self._first(_select().where(_id == known(request_id)))
        return None if row is None else _request_of(row)

    async def requests(
        self, user: str | None = None, *, states: Sequence[RequestState] = (), limit: int = 100
    ) -> Sequence[Request]:
        most = max(0, min(limit, _MOST_LISTED))
        query = _select().order_by(_columns.created_at.desc(), _id.desc())
        if states:
            query = query.where(_columns.state.in_(states))
        if user is None:
            return [_request_of(row) for row in await self._rows(query.limit(most))]
        name = known(user)

        def read(conn: Connection) -> list[Request]:
            own = [_request_of(row) for row in conn.execute(query.where(_columns.person == name).limit(most))]
            shared = conn.execute(query.where(_columns.person.contains(" ")).limit(_MOST_LISTED)).all()
            groups = _groups_of(conn, select(membership).where(membership.c.person == name)).get(name, frozenset())
            own += [one for one in map(_request_of, shared) if one.policy.asks(groups)]
            return sorted(own, key=lambda one: (one.created_at, one.id), reverse=True)[:most]

        return await self._store.read(read)

    async def approve_request(
        self, request_id: str, use: ChallengeUse, evidence: dict[str, Any], by: str, witness: AuditRow | None = None
    ) -> Request:
        decision = StoredDecision(use.at, by, evidence=evidence, credential=use.credential)
        clock = running(use.at)

        def approve(conn: Connection) -> Request:
            row = conn.execute(_select().where(_id == known(request_id))).first()
            asked = None if row is None else _request_of(row)
            if asked is not None and asked.policy.quorums:
                return self._sign(conn, asked, Signature(asked.id, by, use.credential, use.at, evidence), clock)
            if asked is not None and asked.state == "waiting" and not _still_approves(conn, use.credential, asked.user):
                raise Spent(Reason.UNKNOWN_CREDENTIAL)
            return self._decide(conn, known(request_id), "approved", decision, clock())

        def consume(conn: Connection) -> Request:
            decided = approve(conn)
            self._consume(conn, use, clock, witness)
            return decided

        return await self._change(consume)

    def _sign(self, conn: Connection, asked: Request, new: Signature, clock: Callable[[], int]) -> Request:
        """One more signature; the last that is needed lets the call through."""
        if asked.state != "waiting" or asked.expires_at <= clock():
            raise Spent(Reason.APPROVAL_EXPIRED if asked.state == "waiting" else Reason.APPROVAL_DECIDED)
        if not _still_approves(conn, new.credential, new.user):
            raise Spent(Reason.UNKNOWN_CREDENTIAL)
        own = _groups_of(conn, select(membership).where(membership.c.person == new.user))
        if not asked.policy.asks(own.get(new.user, frozenset())):
            raise Spent(Reason.NOT_ASKED)
        if any(one.user == new.user for one in _signatures(conn, asked.id)):
            raise Spent(Reason.APPROVAL_SIGNED)
        # What this person signed before with a passkey that counts no longer makes room.
        conn.execute(delete(approval_signature).where(*_signature_of(asked.id, new.user)))
        conn.execute(insert(approval_signature).values(_signature_row(new)))
        if not _is_met(conn, asked):
            self._store.backend.announce(conn)
            return asked
        signed = _signatures(conn, asked.id)
        evidence = {"signatures": [one.evidence for one in signed]}
        by = ", ".join(one.user for one in signed)
        decision = StoredDecision(new.at, by, evidence=evidence, credential=new.credential)
        return self._decide(conn, asked.id, "approved", decision, clock())

    async def signatures(self, request_id: str) -> Sequence[Signature]:
        return await self._store.read(lambda conn: _signatures(conn, known(request_id)))

    async def refuse_request(
        self,
        request_id: str,
        by: str,
        note: str,
        at: int,
        witness: AuditRow | None = None,
        *,
        even_approved: bool = False,
        use: ChallengeUse | None = None,
        evidence: dict[str, Any] | None = None,
    ) -> Request:
        signed_with = None if use is None else use.credential
        decision = StoredDecision(at, _whole(by), note=_whole(note), evidence=evidence, credential=signed_with)
        clock = running(at)
        undecided: tuple[RequestState, ...] = ("waiting", "approved") if even_approved else ("waiting",)

        def refuse(conn: Connection) -> Request:
            if use is not None:
                # What is wrong with the answer is said before that somebody was faster.
                self._consume(conn, use, clock, None)
                if not _still_approves(conn, use.credential, by):
                    raise Spent(Reason.UNKNOWN_CREDENTIAL)
            return self._decide(conn, known(request_id), "refused", decision, clock(), undecided)

        return await self._change(refuse, witness)

    def _decide(  # noqa: PLR0917 - private
        self,
        conn: Connection,
        request_id: str,
        state: RequestState,
        decision: StoredDecision,
        now: int,
        undecided: tuple[RequestState, ...] = ("waiting",),
    ) -> Request:
        waiting = (_id == request_id, _columns.state.in_(undecided), _columns.expires_at > now)
        statement = update(approval_request).where(*waiting)
        done = conn.execute(statement.values(state=state, decision=msgspec.msgpack.encode(decision))).rowcount
        row = conn.execute(_select().where(_id == request_id)).first()
        if done != 1:
            decided = row is not None and row.state not in undecided
            raise Spent(Reason.APPROVAL_DECIDED if decided else Reason.APPROVAL_EXPIRED)
        assert row is not None
        self._store.backend.announce(conn)
        return _request_of(row)

    # -- the console -------------------------------------------------------------------------------------------

    async def add_session(self, session: ConsoleSession) -> None:
        demand(session.user, session.credential, session.csrf)

        def add(conn: Connection) -> None:
            conn.execute(delete(console_session).where(console_session.c.expires_at <= session.created_at))
            # Without the role: it is the person's, and read with every request.
            conn.execute(insert(console_session).values(msgspec.structs.astuple(session)[:-1]))

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
                passkey.c.method == WEBAUTHN,
                passkey.c.revoked_at.is_(None),
            )
        )
        row = await self._first(query)
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


class _Asker(msgspec.Struct, frozen=True):
    """The caller alone of a request or a challenge."""

    caller: str = ""


_asker: Final = msgspec.msgpack.Decoder(_Asker)


def _who(caller: str) -> str:
    """The agent or address of a caller, whatever its sessions (`caller_of`)."""
    return caller.partition("\n")[0].rpartition(" ")[0]


def _has_place(taken: Sequence[bytes], caller: str, most: int) -> bool:
    """Whether a caller has no more of these than it may. A caller that is alone has `most` places. There are twice as
    many, and nobody takes more than half of those that others leave: so the next one finds some, too.
    """
    own = sum(_who(_asker.decode(body).caller) == _who(caller) for body in taken)
    left = 2 * most - (len(taken) - own)
    return own <= (left + 1) // 2


def _put_ticket(conn: Connection, new: Ticket) -> None:
    if conn.execute(select(person.c.name).where(person.c.name == new.user)).first() is None:
        raise Refused(Reason.USER_UNKNOWN)
    if not _vouches(conn, new.credential, new.user):
        raise Refused(Reason.UNKNOWN_CREDENTIAL)
    long_ago = new.created_at - DAY_MS
    _drop_some(conn, ticket.c.hash, or_(ticket.c.used_at < long_ago, ticket.c.expires_at < long_ago))
    conn.execute(insert(ticket).values(msgspec.structs.astuple(new)))


def _drop_some(conn: Connection, key: ColumnElement[Any], old: ColumnElement[bool]) -> None:
    """What is of no use to anyone any more goes, some rows with each write."""
    table = key.table
    conn.execute(delete(table).where(key.in_(select(key).where(old).limit(SWEEP))))


def _use_up(
    conn: Connection, table: Table, which: ColumnElement[bool], user: str, now: int, *, at: int
) -> Row[Any] | None:
    """Use up a ticket or a registration: once, by this person, in time. `at` is when the caller asked for it."""
    good = (which, table.c.person == user, table.c.used_at.is_(None), table.c.expires_at > now)
    if conn.execute(update(table).where(*good).values(used_at=at)).rowcount == 0:
        return None
    return conn.execute(select(table).where(which)).one()


def _use_ticket(conn: Connection, ticket_hash: bytes, user: str, now: int, *, at: int) -> str:
    """What it is for."""
    used = _use_up(conn, ticket, ticket.c.hash == ticket_hash, user, now, at=at)
    if used is None or not _vouches(conn, used.credential, user):
        raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
    return str(used.purpose)


def _vouches(conn: Connection, credential: str | None, user: str) -> bool:
    """Whether this passkey may let this person enrol one: their own, or an operator's, and not revoked. None: it was
    the command line or a recovery code."""
    if credential is None:
        return True
    mine = or_(person.c.name == user, person.c.role == "operator")
    return conn.execute(_held(credential).where(mine, passkey.c.method == WEBAUTHN)).first() is not None


def _still_approves(conn: Connection, credential: str | None, user: str) -> bool:
    own = (person.c.name == user, person.c.role != "viewer")
    return credential is not None and conn.execute(_held(credential).where(*own)).first() is not None


def _held(credential: str) -> Select[Any]:
    joined = select(passkey.c.id).join(person, person.c.name == passkey.c.person)
    return joined.where(passkey.c.id == credential, passkey.c.revoked_at.is_(None), _VOUCHED)


_voucher: Final = passkey.alias("voucher")
# Whatever is no passkey holds only while the passkey that it was enrolled with does.
_VOUCHED: Final = or_(
    passkey.c.method == WEBAUTHN,
    select(_voucher.c.id)
    .where(
        _voucher.c.id == passkey.c.voucher,
        _voucher.c.person == passkey.c.person,
        _voucher.c.method == WEBAUTHN,
        _voucher.c.revoked_at.is_(None),
    )
    .exists(),
)


def _signed_with(decision: StoredDecision) -> str | None:
    """Decisions of versions before it was kept by itself have it in their evidence."""
    return decision.credential or (decision.evidence or {}).get("credential")


def _end_links(conn: Connection, whose: ColumnElement[bool]) -> None:
    """The tickets that these passkeys signed for, and what was begun with them, allow nothing any more."""
    _drop_tickets(conn, ticket.c.credential.in_(select(passkey.c.id).where(whose)))


def _drop_tickets(conn: Connection, which: ColumnElement[bool]) -> int:
    conn.execute(delete(registration).where(registration.c.ticket.in_(select(ticket.c.hash).where(which))))
    return conn.execute(delete(ticket).where(which)).rowcount


def _demand_first_use(conn: Connection, user: str) -> None:
    there = conn.execute(select(person.c.name).where(person.c.name == user)).first() is not None
    if not there or _passkeys(conn, user) > 0:
        raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)


def _passkeys(conn: Connection, user: str) -> int:
    """Revoked ones too."""
    return count(conn, passkey, passkey.c.person == user, passkey.c.method == WEBAUTHN)


def _demand_room(conn: Connection, user: str, bounds: ApprovalBounds, now: int) -> None:
    begun = (registration.c.person == user, registration.c.used_at.is_(None), registration.c.expires_at > now)
    under_way = count(conn, registration, *begun)
    held = (passkey.c.person == user, passkey.c.method == WEBAUTHN, passkey.c.revoked_at.is_(None))
    passkeys = count(conn, passkey, *held)
    if under_way >= bounds.registrations_per_user or under_way + passkeys >= bounds.credentials_per_user:
        raise Refused(Reason.APPROVAL_LIMIT)


def _use_registration(conn: Connection, challenge: bytes, user: str, now: int, *, at: int) -> bool:
    """Whether it was begun with a ticket."""
    used = _use_up(conn, registration, registration.c.challenge == challenge, user, now, at=at)
    if used is not None and used.ticket is not None:
        row = conn.execute(select(ticket.c.credential).where(ticket.c.hash == used.ticket)).first()
        used = used if row is not None and _vouches(conn, row.credential, user) else None
    if used is None:
        raise Refused(Reason.NO_PENDING_ENROLLMENT)
    return bool(used.ticketed)


def _put_registration(
    conn: Connection, new: Registration, now: int, ticket_hash: bytes | None, *, ticketed: bool
) -> None:
    _drop_some(conn, registration.c.challenge, registration.c.expires_at < now - KEEP_MS)
    values = (new.challenge, new.user, ticketed, new.created_at, new.expires_at, new.used_at, ticket_hash)
    conn.execute(insert(registration).values(values))


def _replace_codes(conn: Connection, user: str, codes: Sequence[bytes]) -> None:
    conn.execute(delete(recovery_code).where(recovery_code.c.person == user))
    conn.execute(insert(recovery_code), [{"person": user, "hash": code} for code in set(codes)])


def _groups_of(conn: Connection, query: Select[Any]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for row in conn.execute(query):
        found.setdefault(row.person, set()).add(row.team)
    return {name: frozenset(groups) for name, groups in found.items()}


def _signature_of(request_id: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return approval_signature.c.request == request_id, approval_signature.c.person == name


def _signature_row(new: Signature) -> tuple[Any, ...]:
    return new.request, new.user, new.credential, new.at, msgspec.msgpack.encode(new.evidence)


def _signature(row: Row[Any]) -> Signature:
    return Signature(row.request, row.person, row.credential, row.at, msgspec.msgpack.decode(row.evidence))


def _signatures(conn: Connection, request_id: str) -> list[Signature]:
    """Those that count now: the passkey holds, and its person may approve."""
    columns = approval_signature.c
    query = (
        select(approval_signature)
        .join(passkey, passkey.c.id == columns.credential)
        .join(person, person.c.name == columns.person)
        .where(
            columns.request == request_id,
            passkey.c.person == columns.person,
            passkey.c.revoked_at.is_(None),
            _VOUCHED,
            person.c.role != "viewer",
        )
    )
    return [_signature(row) for row in conn.execute(query.order_by(columns.at, columns.person))]


def _is_met(conn: Connection, asked: Request) -> bool:
    """Whether enough people have signed who count now, as they are in their groups now."""
    signed = [one.user for one in _signatures(conn, asked.id)]
    groups = _groups_of(conn, select(membership).where(membership.c.person.in_(signed)))
    return met(asked.policy.quorums, {name: groups.get(name, frozenset()) for name in signed})


def _by_several(user: str) -> bool:
    """Whether this is the name of a person, or what stands for several (`ApprovalPolicy.people`)."""
    return " " in user


def _select() -> Select[Any]:
    return select(_id, _columns.state, _columns.call, _columns.decision, _columns.body)


def _request_of(row: Row[Any]) -> Request:
    opened = _request.decode(row.body)
    if row.decision is None:
        return replace(opened, state=row.state)
    decision = _decision.decode(row.decision)
    return replace(
        opened,
        state=row.state,
        decided_at=decision.at,
        decided_by=decision.by,
        note=decision.note,
        evidence=decision.evidence,
        call=row.call,
    )


def _whole(text: str) -> str:
    """Text to be shown, of whatever origin: half characters cannot be stored."""
    return text.encode("utf-8", "replace").decode()


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
