"""What is shown of people, passkeys and calls that wait: the same rows on the command line and in the console."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callgate.approval.delegation import LOCAL, Delegation, written
from callgate.approval.display import escape
from callgate.approval.model import CROSS_PLATFORM, WITHDRAWN, Credential, Request, Role, Ticket, User
from callgate.approval.storage import ApprovalRepository
from callgate.protocol import DEVICE

Phase: TypeAlias = Literal["waiting", "approved", "refused", "used", "expired"]

# What the gateway may know an agent by, best first.
_NAMES: Final = ("agent", "name", "client")
_MOST: Final = 1000
_BEGINNING: Final = 120


def who_can_answer(people: Sequence[User], passkeys: Iterable[Credential]) -> list[str]:
    """Who may be asked where nobody is named: of several people, those who have a passkey and may approve. Where none
    of them has, all."""
    held = {one.user for one in passkeys}
    able = [one.name for one in people if one.name in held and one.role != "viewer"]
    return able or [one.name for one in people]


class PersonRow(msgspec.Struct, frozen=True):
    """Somebody who may approve, and what they have to do it with."""

    name: str
    display_name: str
    role: Role
    passkeys: int
    recovery_codes: int
    waiting: int
    created_at: int
    last_used_at: int | None
    groups: tuple[str, ...] = ()


class PasskeyRow(msgspec.Struct, frozen=True):
    """A passkey or a device; `fingerprint` is that of its public key, for whoever compares it with a receipt."""

    id: str
    user: str
    name: str
    kind: str
    transports: tuple[str, ...]
    backed_up: bool
    backup_eligible: bool
    counts: bool
    attestation: str
    aaguid: str
    fingerprint: str
    created_at: int
    last_used_at: int | None
    revoked_at: int | None
    method: str
    voucher: str | None


class TicketRow(msgspec.Struct, frozen=True):
    """A link with which somebody can enrol a passkey; `id` is the hash that is kept of it. `begun`: somebody has opened
    it and is about to."""

    id: str
    user: str
    purpose: str
    by: str
    created_at: int
    expires_at: int
    begun: bool = False


class RequestRow(msgspec.Struct, frozen=True):
    """A call that waits for its person, or what became of it; `arguments` has the beginning of them, as JSON."""

    id: str
    state: Phase
    user: str
    who: str
    server: str
    tool: str
    version: str | None
    why: str
    text: str
    arguments: str
    created_at: int
    expires_at: int
    decided_at: int | None
    decided_by: str | None
    note: str | None
    call: str | None


async def people(repository: ApprovalRepository, now: int) -> list[PersonRow]:
    """Everybody, by name."""
    users, held = await asyncio.gather(repository.users(), repository.credentials())
    each: dict[str, list[Credential]] = {}
    for one in held:
        each.setdefault(one.user, []).append(one)
    return [await _person(repository, user, each.get(user.name, []), now) for user in users]


async def person(repository: ApprovalRepository, user: User, now: int) -> PersonRow:
    """One of them."""
    return await _person(repository, user, list(await repository.credentials(user.name)), now)


async def _person(repository: ApprovalRepository, user: User, held: list[Credential], now: int) -> PersonRow:
    codes, waiting, groups = await asyncio.gather(
        repository.recovery_codes(user.name),
        repository.requests(user.name, states=("waiting",), limit=_MOST),
        repository.groups(),
    )
    return PersonRow(
        name=user.name,
        display_name=user.display_name,
        role=user.role,
        passkeys=len(held),
        recovery_codes=codes,
        waiting=sum(phase(one, now) == "waiting" for one in waiting),
        created_at=user.created_at,
        last_used_at=max((one.last_used_at for one in held if one.last_used_at is not None), default=None),
        groups=tuple(sorted(groups.get(user.name, ()))),
    )


async def passkeys(
    repository: ApprovalRepository, user: str | None = None, *, revoked: bool = False
) -> list[PasskeyRow]:
    """One person's passkeys and devices or everybody's, the oldest first."""
    return [passkey_row(one) for one in await repository.credentials(user, revoked=revoked, method=None)]


async def tickets(repository: ApprovalRepository, now: int, user: str | None = None) -> list[TicketRow]:
    """One person's links that can be used, or with which an enrolment was begun, or everybody's, the oldest first."""
    found = await repository.tickets(now)
    return [ticket_row(one) for one in found if user is None or one.user == user]


def ticket_row(one: Ticket) -> TicketRow:
    begun = one.used_at is not None
    return TicketRow(one.hash.hex(), one.user, one.purpose, one.by, one.created_at, one.expires_at, begun)


async def requests(
    repository: ApprovalRepository, now: int, user: str | None = None, *, everything: bool = False, limit: int = 100
) -> list[RequestRow]:
    """Calls that wait, the newest first; with `everything` those that are over too."""
    found = await repository.requests(user, states=() if everything else ("waiting",), limit=limit)
    rows = [request_row(one, now) for one in found]
    return rows if everything else [row for row in rows if row.state == "waiting"]


def passkey_row(held: Credential) -> PasskeyRow:
    own: dict[str, Any] = {
        "kind": kind(held),
        "counts": held.counter > 0 and not held.is_device,
        "fingerprint": fingerprint(held.public_key),
    }
    return PasskeyRow(**_same_fields(held, PasskeyRow), **own)


def request_row(request: Request, now: int) -> RequestRow:
    own = {
        "state": phase(request, now),
        "who": asker(request),
        "text": request.display_text,
        "arguments": beginning(request.canonical),
    }
    return RequestRow(**_same_fields(request, RequestRow) | own)


def _same_fields(held: Credential | Request, row: type[msgspec.Struct]) -> dict[str, Any]:
    """What a row shows as it is."""
    return {name: getattr(held, name) for name in row.__struct_fields__ if hasattr(held, name)}


def phase(request: Request, now: int) -> Phase:
    """Where a request stands: what was neither decided nor used in time, or was withdrawn, has run out."""
    if request.call == WITHDRAWN or (request.state in ("waiting", "approved") and request.expires_at <= now):
        return "expired"
    return request.state


def beginning(canonical: bytes) -> str:
    """The arguments on one line, as far as that goes; what misleads the eye is written out."""
    text = canonical[: 4 * _BEGINNING].decode("utf-8", "ignore")
    whole = len(text) <= _BEGINNING and len(canonical) <= 4 * _BEGINNING
    # In JSON a backslash is written out already.
    return "\\".join(escape(part) for part in text[:_BEGINNING].split("\\")) + ("" if whole else "…")


def asker(request: Request) -> str:
    """What to call whoever made the call."""
    return next((request.agent[key] for key in _NAMES if request.agent.get(key)), "An agent")


def kind(held: Credential) -> str:
    """What sort of thing holds it, by the ways it says it can be reached (SEP-2672 §4.7)."""
    if held.is_device:
        return "Device, answers without a passkey"
    ways = set(held.transports)
    if "internal" in ways:
        return "Phone or computer, also from others" if ways & CROSS_PLATFORM else "This phone or computer"
    if "hybrid" in ways:
        return "Phone"
    if ways & {"usb", "nfc", "ble", "smart-card"}:
        return "Security key"
    return "Unknown kind"


def how_answered(evidence: Mapping[str, Any] | None) -> str:
    """How somebody answered, for people: an answer without a passkey is never shown as one with it."""
    if evidence is None or evidence.get("method") != DEVICE:
        return "with a passkey"
    return f"on the device “{escape(str(evidence.get('device')))}”, without a passkey"


def fingerprint(public_key: bytes) -> str:
    """For people who compare keys by eye."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode().rstrip("=")


class GrantRow(msgspec.Struct, frozen=True):
    """A grant in a list; the command line prints the same."""

    id: str
    state: str
    person: str
    agent: str
    server: str
    tool: str
    calls: str
    amount: str
    begins: int
    ends: int
    at: int

    @property
    def live(self) -> bool:
        """Whether calls can pass by it, now or later."""
        return self.state in ("in force", "not begun")


def grant_row(one: Delegation, now: int) -> GrantRow:
    terms = one.terms
    amount = f"{written(one.amount)} of {terms.sum_at_most}" if terms.sum_of else ""
    return GrantRow(
        id=terms.id,
        state=one.state(now),
        person=terms.person,
        agent="programs of this computer" if terms.agent.source == LOCAL else terms.agent.id,
        server=terms.server,
        tool=terms.tool,
        calls=f"{one.calls} of {terms.calls}",
        amount=amount,
        begins=terms.begins,
        ends=terms.ends,
        at=one.at,
    )


def grant_rows(found: Sequence[Delegation], now: int) -> list[GrantRow]:
    """Those that can be used first, the newest of each first."""
    made = [grant_row(one, now) for one in found]
    return sorted(made, key=lambda row: (not row.live, -row.at))


async def live_grants(shelf: ApprovalRepository, now: int, user: str) -> list[GrantRow]:
    """What this person has signed beforehand, and can be used."""
    return [row for row in grant_rows(await shelf.delegations(user), now) if row.live]
