"""People, passkeys, tickets and recovery codes in process memory."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from msgspec.structs import replace

from callgate.approval.model import Credential, Registration, Role, Session, Ticket, User
from callgate.approval.storage import Bounds
from callgate.errors import Reason, Refused

# How long what has run out is still known, so that a late answer hears why it is refused.
KEEP_MS: Final = 600_000
DAY_MS: Final = 86_400_000

K = TypeVar("K", bound=Hashable)


class Agenda(Generic[K]):
    """What is due when; each entry comes out once, so that nobody has to look through everything."""

    def __init__(self) -> None:
        self._due: list[tuple[int, K]] = []

    def put(self, at: int, key: K) -> None:
        heapq.heappush(self._due, (at, key))

    def due(self, now: int) -> Iterator[K]:
        while self._due and self._due[0][0] <= now:
            yield heapq.heappop(self._due)[1]


class MemoryPeople:
    """The `People` of storage.py. No method waits for anything, so each is atomic in its event loop."""

    def __init__(self) -> None:
        self.witnesses: list[Any] = []
        self._users: dict[str, User] = {}
        self._credentials: dict[str, Credential] = {}
        self._passkeys: dict[str, list[str]] = {}
        self._tickets: dict[bytes, Ticket] = {}
        self._codes: dict[str, set[bytes]] = {}
        self._registrations: dict[bytes, Registration] = {}
        self._unticketed: set[bytes] = set()
        self._sessions: dict[bytes, Session] = {}
        self._old_tickets: Agenda[bytes] = Agenda()
        self._old_registrations: Agenda[bytes] = Agenda()

    def _record(self, witness: Any) -> None:
        if witness is not None:
            self.witnesses.append(witness)

    async def add_user(self, user: User, witness: Any = None) -> None:
        if user.name in self._users:
            raise Refused(Reason.USER_EXISTS)
        self._users[user.name] = user
        self._record(witness)

    async def user(self, name: str) -> User | None:
        return self._users.get(name)

    async def users(self) -> Sequence[User]:
        return sorted(self._users.values(), key=lambda user: user.name)

    async def remove_user(self, name: str, witness: Any = None) -> bool:
        if name not in self._users:
            return False
        if len(self._users) > 1:
            self._keep_an_operator(name)
        del self._users[name]
        self._codes.pop(name, None)
        self._passkeys.pop(name, None)
        for held in (self._credentials, self._tickets, self._registrations, self._sessions):
            _drop(held, name)
        self._forget_calls(name)
        self._record(witness)
        return True

    async def set_role(self, name: str, role: Role, witness: Any = None) -> bool:
        held = self._users.get(name)
        if held is None:
            return False
        if role != "operator":
            self._keep_an_operator(name)
        self._users[name] = replace(held, role=role)
        if role == "viewer":
            self._forget_calls(name)
        self._record(witness)
        return True

    def _keep_an_operator(self, without: str) -> None:
        others = any(one.role == "operator" for one in self._users.values() if one.name != without)
        if self._users[without].role == "operator" and not others:
            raise Refused(Reason.LAST_OPERATOR)

    def _forget_calls(self, user: str) -> None:
        """What the other half of the shelf knows of a person who may approve nothing any more."""

    async def credential(self, credential_id: str) -> Credential | None:
        return self._credentials.get(credential_id)

    async def credentials(self, user: str | None = None, *, revoked: bool = False) -> Sequence[Credential]:
        ids = self._credentials if user is None else self._passkeys.get(user, ())
        found = [held for held in map(self._credentials.__getitem__, ids) if revoked or held.revoked_at is None]
        return sorted(found, key=lambda held: (held.created_at, held.id))

    async def rename_credential(self, credential_id: str, name: str, witness: Any = None) -> bool:
        held = self._credentials.get(credential_id)
        if held is None:
            return False
        self._credentials[credential_id] = replace(held, name=name)
        self._record(witness)
        return True

    async def revoke_credential(self, credential_id: str, at: int, witness: Any = None) -> bool:
        held = self._credentials.get(credential_id)
        if held is None or held.revoked_at is not None:
            return False
        self._credentials[credential_id] = replace(held, revoked_at=at)
        for session in [one for one in self._sessions.values() if one.credential == credential_id]:
            del self._sessions[session.id]
        self._record(witness)
        return True

    async def add_ticket(self, ticket: Ticket, witness: Any = None) -> None:
        self._put_ticket(ticket)
        self._record(witness)

    def _put_ticket(self, ticket: Ticket) -> None:
        if ticket.user not in self._users:
            raise Refused(Reason.USER_UNKNOWN)
        for old in self._old_tickets.due(ticket.created_at):
            self._tickets.pop(old, None)
        self._tickets[ticket.hash] = ticket
        self._old_tickets.put(ticket.expires_at + DAY_MS + 1, ticket.hash)

    async def ticket(self, ticket_hash: bytes) -> Ticket | None:
        return self._tickets.get(ticket_hash)

    async def begin_registration(
        self, registration: Registration, bounds: Bounds, *, ticket: bytes | None, now: int
    ) -> None:
        user = registration.user
        owned = [self._credentials[one] for one in self._passkeys.get(user, ())]
        self._may_enrol(user, ticket, now, enrolled=bool(owned))
        for old in self._old_registrations.due(now):
            self._registrations.pop(old, None)
            self._unticketed.discard(old)
        under_way = sum(
            1
            for one in self._registrations.values()
            if one.user == user and one.used_at is None and one.expires_at > now
        )
        passkeys = sum(1 for held in owned if held.revoked_at is None)
        if under_way >= bounds.registrations_per_user or under_way + passkeys >= bounds.credentials_per_user:
            raise Refused(Reason.APPROVAL_LIMIT)
        if ticket is None or self._tickets[ticket].purpose == "setup":
            self._unticketed.add(registration.challenge)
        if ticket is not None:
            self._tickets[ticket] = replace(self._tickets[ticket], used_at=now)
            self._old_tickets.put(now + DAY_MS + 1, ticket)
        self._registrations[registration.challenge] = registration
        self._old_registrations.put(registration.expires_at + KEEP_MS + 1, registration.challenge)

    def _may_enrol(self, user: str, ticket: bytes | None, now: int, *, enrolled: bool) -> None:
        if ticket is None:
            if enrolled or user not in self._users:
                raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
            return
        held = self._tickets.get(ticket)
        if held is None or held.user != user or held.used_at is not None or held.expires_at <= now:
            raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
        if held.purpose == "setup" and enrolled:
            raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)

    async def registration(self, challenge: bytes) -> Registration | None:
        return self._registrations.get(challenge)

    async def open_registrations(self, now: int) -> int:
        return sum(1 for one in self._registrations.values() if one.used_at is None and one.expires_at > now)

    async def finish_registration(
        self, challenge: bytes, credential: Credential, codes: Sequence[bytes], *, now: int, witness: Any = None
    ) -> None:
        begun = self._registrations.get(challenge)
        if begun is None or begun.used_at is not None or begun.expires_at <= now or begun.user != credential.user:
            raise Refused(Reason.NO_PENDING_ENROLLMENT)
        if credential.id in self._credentials:
            raise Refused(Reason.CREDENTIAL_ALREADY_ENROLLED)
        # First use is over as soon as there is a passkey, also for those who began before that.
        if challenge in self._unticketed and begun.user in self._passkeys:
            raise Refused(Reason.NO_PENDING_ENROLLMENT)
        self._registrations[challenge] = replace(begun, used_at=now)
        self._credentials[credential.id] = credential
        self._passkeys.setdefault(begun.user, []).append(credential.id)
        if codes:
            self._codes[begun.user] = set(codes)
        self._record(witness)

    async def use_recovery_code(self, user: str, code: bytes, ticket: Ticket, witness: Any = None) -> None:
        codes = self._codes.get(user, set())
        if code not in codes or ticket.user != user:
            raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
        self._put_ticket(ticket)
        codes.discard(code)
        self._record(witness)

    async def recovery_codes(self, user: str) -> int:
        return len(self._codes.get(user, ()))


def _drop(held: dict[Any, Any], user: str) -> None:
    for key in [key for key, value in held.items() if value.user == user]:
        del held[key]
