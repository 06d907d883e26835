"""What this room needs from a store. Each method is one transaction, right under any number of processes.

`witness` is an audit row that is written in the same transaction; what it is made of is not this room's business.
Methods that cannot do what they are asked raise `Refused` (or `Spent`, where something was used up meanwhile) and
leave nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from callgate.approval.delegation import Delegation, DelegationUse, GrantedAgent
from callgate.approval.model import (
    ApprovalBounds,
    Challenge,
    ChallengeUse,
    ConsoleSession,
    Credential,
    Registration,
    Request,
    RequestState,
    Role,
    Signature,
    Ticket,
    Use,
    User,
)
from callgate.protocol import WEBAUTHN


class ApprovalRepository(Protocol):
    """All that verified approval keeps."""

    # -- users, passkeys, tickets, recovery codes --

    async def add_user(self, user: User, witness: Any = None) -> None:
        """Refused(USER_EXISTS) if the name is taken."""

    async def user(self, name: str) -> User | None: ...

    async def users(self) -> Sequence[User]:
        """By name."""

    async def remove_user(self, name: str, witness: Any = None) -> bool:
        """Remove a person with all they have (passkeys, tickets, codes, sessions, open challenges and requests), and
        the tickets of others that their passkeys signed for, with what was begun with them.
        Refused(LAST_OPERATOR) if others stay, and none of them may change anything.
        """

    async def set_role(self, name: str, role: Role, witness: Any = None, *, at: int) -> bool:
        """False if there is nobody of this name. Who becomes a viewer loses their open challenges and their requests;
        whoever may do less than before, their devices, the tickets that their passkeys signed for, and what was begun
        with them.
        Refused(LAST_OPERATOR) if nobody would be left who may change anything.
        """

    async def groups(self) -> Mapping[str, frozenset[str]]:
        """Who is in which groups, by the person's name; only who is in one."""

    async def join_group(self, group: str, name: str, witness: Any = None) -> bool:
        """False if they are in it already; Refused(USER_UNKNOWN) if there is nobody of this name."""

    async def leave_group(self, group: str, name: str, at: int, witness: Any = None) -> bool:
        """False if they are not in it. What they signed as one of it counts no longer: a call that waits needs another
        signature, and an approval that no call has used becomes a refusal.
        """

    async def credential(self, credential_id: str) -> Credential | None: ...

    async def credentials(
        self, user: str | None = None, *, revoked: bool = False, method: str | None = WEBAUTHN
    ) -> Sequence[Credential]:
        """Oldest first; revoked ones only if asked for. Passkeys, or another kind, or with None all kinds."""

    async def add_device(self, device: Credential, bounds: ApprovalBounds, witness: Any = None) -> None:
        """Store a device. Refused(UNKNOWN_CREDENTIAL) unless the passkey that vouches for it is this person's own and
        holds, and the person may approve; Refused(CREDENTIAL_ALREADY_ENROLLED) if the key is stored for anyone, revoked
        or not; Refused(APPROVAL_LIMIT) over the bounds.
        """

    async def count_ask(self, device: str, time: int, at: int) -> None:
        """A message of this device that is no answer, made at `time` by its own clock: each is taken once, in order.
        Spent(UNKNOWN_CREDENTIAL) if the device does not hold or its person may not approve;
        Spent(SIGNATURE_COUNTER_REGRESSION) if the time is not later than that of every message before.
        """

    async def rename_credential(self, credential_id: str, name: str, witness: Any = None) -> bool: ...

    async def revoke_credential(self, credential_id: str, at: int, witness: Any = None) -> bool:
        """False if there is none, or it is revoked already. Ends the console sessions it opened, the tickets it signed
        for and what was begun with them, and the devices that it vouched for; approvals given with it or with these
        that no call has used become refusals.
        """

    async def add_ticket(self, ticket: Ticket, witness: Any = None) -> None:
        """Refused(USER_UNKNOWN) if there is no such person; Refused(UNKNOWN_CREDENTIAL) if the passkey that signed for
        it is revoked or gone, or is neither the person's own nor an operator's.
        """

    async def ticket(self, ticket_hash: bytes) -> Ticket | None: ...

    async def tickets(self, now: int) -> Sequence[Ticket]:
        """Those that can be used, or with which an enrolment was begun that is not over, the oldest first."""

    async def cancel_ticket(self, ticket_hash: bytes, witness: Any = None) -> bool:
        """End a ticket and what was begun with it; False if there is none."""

    async def begin_registration(
        self, registration: Registration, bounds: ApprovalBounds, *, ticket: bytes | None, now: int
    ) -> None:
        """Store a registration. With a ticket hash: use it up, which has to be unused, unexpired and this user's, and
        the passkey that signed for it has to hold, else Refused(ENROLMENT_NOT_AUTHORISED).
        Without, or with a set-up ticket: only while the user has no credential,
        revoked ones included, when it begins and when it is finished.
        Over the bounds: Refused(APPROVAL_LIMIT), and the ticket stays.
        """

    async def registration(self, challenge: bytes) -> Registration | None: ...

    async def open_registrations(self, now: int) -> int:
        """How many are neither used nor expired."""

    async def finish_registration(
        self, challenge: bytes, credential: Credential, codes: Sequence[bytes], *, now: int, witness: Any = None
    ) -> None:
        """Use the registration up and store the passkey, and recovery codes (hashes) instead of all earlier ones if any
        are given. Refused(NO_PENDING_ENROLLMENT) if it is unknown, used or expired at `now`, or its ticket was
        cancelled or the passkey that signed for that is revoked;
        Refused(CREDENTIAL_ALREADY_ENROLLED) if the id is stored for anyone, revoked or not (nothing is used up then).
        """

    async def use_recovery_code(self, user: str, code: bytes, ticket: Ticket, witness: Any = None) -> None:
        """Use the code up for this ticket; Refused(ENROLMENT_NOT_AUTHORISED) if it is none or used."""

    async def has_recovery_code(self, user: str, code: bytes) -> bool:
        """Whether the person has this code (its hash), unused."""

    async def recovery_codes(self, user: str) -> int:
        """How many are left."""

    # -- challenges of SEP-2672 and those of the approval page --

    async def add_challenge(self, challenge: Challenge, bounds: ApprovalBounds) -> None:
        """Refused(APPROVAL_LIMIT) where the user or all together have too many open (neither consumed nor expired at
        `challenge.created_at`). Forgets challenges that expired more than ten minutes ago.
        """

    async def challenge(self, challenge_id: str) -> Challenge | None: ...

    async def look_up(self, challenge_id: str, credential_id: str) -> tuple[Challenge | None, Credential | None]:
        """Both in one view, for verification; a revoked credential is returned as it is."""

    async def use(self, use: Use | DelegationUse, witness: Any = None) -> None:
        """Steps 13 and 14 and the decision's record, one transaction. The time of `at` goes on while it waits for its
        turn: what has run out by then has run out (VA-129).

        ChallengeUse: Spent(CHALLENGE_UNKNOWN | CHALLENGE_CONSUMED | CHALLENGE_EXPIRED) by `at`;
        Spent(UNKNOWN_CREDENTIAL) if the credential is revoked or gone; Spent(SIGNATURE_COUNTER_REGRESSION) if the
        stored counter is above zero and not below the reported one. The stored counter never goes down. Sets
        `last_used_at` and `backed_up`.
        GrantUse: the request has to be approved, unused and unexpired by `at`, else Spent(APPROVAL_EXPIRED); the
        passkey that approved it has to hold and its person has to be an approver still, and where several approved,
        enough of them, else Spent(UNKNOWN_CREDENTIAL).
        DelegationUse: Spent(GRANT_ENDED) if the grant is revoked or it is not its time, Spent(GRANT_USED_UP) if its
        calls or its sum do not suffice, Spent(UNKNOWN_CREDENTIAL) as above. `witness` is called with what is `left`.
        """

    # -- what people sign beforehand for the calls of an agent --

    async def add_delegation(self, new: Delegation, use: ChallengeUse, witness: Any = None) -> None:
        """Consume the challenge (as `use` does) and store the grant, one transaction. Refused(GRANT_INVALID) where one
        of this id is there; Refused(APPROVAL_LIMIT) where this person has too many that can be used.
        """

    async def delegation(self, grant: str) -> Delegation | None: ...

    async def delegations(self, user: str | None = None, *, limit: int = 1000) -> Sequence[Delegation]:
        """Newest first, ended ones too."""

    async def delegations_of(self, agent: GrantedAgent, server_id: str, now: int) -> Sequence[Delegation]:
        """Those of this agent on this server that are not revoked and have not ended; those that end first, first."""

    async def revoke_delegation(self, grant: str, at: int, by: str, witness: Any = None) -> bool:
        """From when this is committed no call passes by it. False if there is none, or it was revoked before."""

    # -- calls that wait for their person --

    async def open_request(self, request: Request, bounds: ApprovalBounds, witness: Any = None) -> Request:
        """The open request (waiting or approved, unexpired at `created_at`) of the same user, caller, server, tool and
        action hash if there is one, else this one, stored. Refused(APPROVAL_LIMIT) where its caller, whatever their
        sessions, has half of the places already that other callers leave, of twice `requests_per_user`.
        """

    async def find_grant(self, caller: str, server: str, tool: str, action_hash: bytes, now: int) -> Request | None:
        """An approved, unused, unexpired request for exactly this, the oldest first."""

    async def hear_refusal(
        self, caller: str, server: str, tool: str, action_hash: bytes, *, call: str, now: int
    ) -> Request | None:
        """The oldest refused, unexpired request for exactly this that no call has heard of; from now on `call` has."""

    async def request(self, request_id: str) -> Request | None: ...

    async def requests(
        self, user: str | None = None, *, states: Sequence[RequestState] = (), limit: int = 100
    ) -> Sequence[Request]:
        """Newest first; of one person, those that they are asked about, alone or among others."""

    async def approve_request(
        self, request_id: str, use: ChallengeUse, evidence: dict[str, Any], by: str, witness: Any = None
    ) -> Request:
        """Consume the challenge (as `use` does) and let the request's call through, one transaction.
        Spent(APPROVAL_DECIDED) if it was decided before, Spent(APPROVAL_EXPIRED) if it ran out by `use.at`.

        Where several people have to approve, this is one signature, and the last that is needed lets the call
        through: all are counted in the same transaction, those of people who may still sign with passkeys that hold.
        Spent(APPROVAL_SIGNED) if this person has signed it, Spent(NOT_ASKED) if they are none of those who are asked.
        """

    async def signatures(self, request_id: str) -> Sequence[Signature]:
        """Those that count now, the oldest first."""

    async def refuse_request(
        self,
        request_id: str,
        by: str,
        note: str,
        at: int,
        witness: Any = None,
        *,
        even_approved: bool = False,
        use: ChallengeUse | None = None,
        evidence: dict[str, Any] | None = None,
    ) -> Request:
        """Spent(APPROVAL_DECIDED) if it was decided before, Spent(APPROVAL_EXPIRED) if it ran out by `at`. With
        `even_approved` a yes that no call has used is none any more. With `use` the no was signed: its challenge is
        used up in the same transaction, as `use` does.
        """

    # -- who is signed in to the console, and what has to stay the same for good --

    async def add_session(self, session: ConsoleSession) -> None:
        """Forgets expired ones."""

    async def session(self, session_id: bytes, now: int) -> ConsoleSession | None: ...

    async def end_session(self, session_id: bytes) -> None: ...

    async def identity(self, fresh: str) -> str:
        """This deployment's stable id: `fresh` is stored if there is none yet, the stored one is returned."""
