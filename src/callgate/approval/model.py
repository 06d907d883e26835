"""What verified approval is about: people, passkeys, challenges, requests, settings. Times are ms since 1970."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from callgate.errors import ConfigError
from callgate.gate import Quorum
from callgate.protocol import DEVICE, WEBAUTHN

AuthenticatorClass: TypeAlias = Literal["cross-platform", "platform"]
RequestState: TypeAlias = Literal["waiting", "approved", "refused", "used"]

# SEP-2672 §4.7: a passkey with one of these can be used from another device than the client's.
CROSS_PLATFORM: Final = frozenset({"hybrid", "usb", "nfc", "ble"})
# Stands for the call that used an approval up, where no call did: it is not one for what holds now.
WITHDRAWN: Final = "withdrawn"


# A list of people for a call may be long.
_PEOPLE_CHARS: Final = 500


def people_in(quorum: Quorum) -> str:
    """The people of one demand, in words."""
    if not quorum.of:
        return "1 person" if quorum.approvals == 1 else f"{quorum.approvals} people"
    return f"{quorum.approvals} of {' or '.join(quorum.of)}"


def met(quorums: Iterable[Quorum], groups: Mapping[str, frozenset[str]]) -> bool:
    """Whether these people meet every demand; each has their groups, and counts once in each demand."""
    return all(len(counting(one, groups)) >= one.approvals for one in quorums)


def counting(quorum: Quorum, groups: Mapping[str, frozenset[str]]) -> list[str]:
    """Those of these people who count for one demand."""
    return [name for name, own in groups.items() if not quorum.of or not own.isdisjoint(quorum.of)]


Role: TypeAlias = Literal["viewer", "approver", "operator"]
# Each may do what those before it may: read; decide on calls that wait for them; change what holds for everybody.
ROLES: Final[tuple[Role, ...]] = get_args(Role)


def reaches(role: Role, needed: Role) -> bool:
    """Whether a role is enough for something."""
    return ROLES.index(role) >= ROLES.index(needed)


class User(msgspec.Struct, frozen=True):
    """A person of the console; `handle` is what authenticators know them by (WebAuthn user.id)."""

    name: str
    display_name: str
    handle: bytes
    created_at: int
    role: Role = "approver"


class Credential(msgspec.Struct, frozen=True):
    """A passkey; `id` is base64url without padding, `public_key` is COSE.

    Or, where `method` says so, what answers in another way: a registered device, whose `id` is its key's thumbprint,
    whose `public_key` is the bytes of an Ed25519 key, and whose `counter` is the time of its last message. `voucher` is
    the passkey that it was enrolled with: it ends with that.
    """

    id: str
    user: str
    handle: bytes
    public_key: bytes
    counter: int
    transports: tuple[str, ...]
    name: str = ""
    aaguid: str = ""
    attestation: str = ""
    backup_eligible: bool = False
    backed_up: bool = False
    created_at: int = 0
    last_used_at: int | None = None
    revoked_at: int | None = None
    method: str = WEBAUTHN
    voucher: str | None = None

    @property
    def is_device(self) -> bool:
        return self.method == DEVICE

    @property
    def what(self) -> str:
        return "device" if self.is_device else "passkey"

    @property
    def descriptor(self) -> dict[str, Any]:
        """As `allowCredentials` and `excludeCredentials` name it."""
        return {"type": "public-key", "id": self.id, "transports": list(self.transports)}

    def satisfies(self, wanted: AuthenticatorClass) -> bool:
        """§4.7: `platform` takes any; `cross-platform` takes what says that it works from another device."""
        return wanted == "platform" or not CROSS_PLATFORM.isdisjoint(self.transports)


class ApprovalPolicy(msgspec.Struct, frozen=True):
    """What a gated tool asks of an approval."""

    authenticator_class: AuthenticatorClass = "cross-platform"
    # §8.3.2: refuse passkeys whose counter never moves.
    require_counter: bool = False
    # Who has to sign, all of these together; none: the one person who is named for the server.
    quorums: tuple[Quorum, ...] = ()
    # The ways to answer that are taken, as evidence names them.
    methods: tuple[str, ...] = (WEBAUTHN,)

    def takes(self, held: Credential) -> bool:
        """Whether this passkey or device can approve; every place that asks this, or tells it beforehand, asks it here.

        A tool that does not take every passkey takes nothing weaker than one.
        """
        if held.method != WEBAUTHN:
            return held.method in self.methods and self.takes_any
        return held.satisfies(self.authenticator_class) and (held.counter > 0 or not self.require_counter)

    @property
    def takes_any(self) -> bool:
        """Whether every passkey can approve that verifies its user."""
        return self.authenticator_class == "platform" and not self.require_counter

    @property
    def people(self) -> str:
        """Who is asked, in words, such as "2 of ops"; empty where one person is named. No person can have such a
        name: a space is in it."""
        text = " and ".join(map(people_in, self.quorums))
        return text if len(text) <= _PEOPLE_CHARS else f"{text[: _PEOPLE_CHARS - 1]}…"

    def asks(self, groups: frozenset[str]) -> bool:
        """Whether somebody in these groups is one of those who are asked."""
        return any(not one.of or not groups.isdisjoint(one.of) for one in self.quorums)

    def demanding(self, quorums: Iterable[Quorum]) -> ApprovalPolicy:
        """The same, with more people: every demand has to be met. A demand that names ways to answer takes no other."""
        most: dict[tuple[str, ...], int] = {}
        methods = self.methods
        for one in (*self.quorums, *quorums):
            if one.methods:
                methods = tuple(name for name in methods if name in one.methods)
            of = tuple(sorted(set(one.of)))
            # One approval of anybody is what is asked for anyway.
            if one.approvals > 1 or of:
                most[of] = max(most.get(of, 0), one.approvals)
        people = tuple(Quorum(most[of], of) for of in sorted(most))
        return msgspec.structs.replace(self, quorums=people, methods=methods)


class Gated(msgspec.Struct, frozen=True):
    """A tool that needs a person: how its approvals are made and what its arguments have to be.

    `server` is the name people know the server by; `server_id` is the secret-free, never-sent discriminator of §4.6.
    """

    server: str
    server_id: str
    tool: str
    policy: ApprovalPolicy = ApprovalPolicy()
    input_schema: Any = None
    title: str | None = None
    version: str | None = None


class Challenge(msgspec.Struct, frozen=True):
    """One thing to sign. `allowed` are the credentials it was issued for; `request` is the page's request, if any."""

    id: str
    user: str
    server: str
    tool: str
    canonical: bytes
    nonce: bytes
    action_hash: bytes
    allowed: tuple[str, ...]
    display_text: str
    created_at: int
    expires_at: int
    consumed_at: int | None = None
    request: str | None = None
    # The only page it may be signed on; empty where any page of the relying party will do.
    origin: str = ""
    # Who asked for it, as a request's caller; empty where that was a page, or nobody can tell.
    caller: str = ""
    # What devices know this deployment by, where a device is to answer it.
    gateway: str = ""

    @property
    def session(self) -> str:
        """The session that the client named when it asked for this; empty where it named none."""
        return self.caller.partition("\n")[2]

    @property
    def message(self) -> bytes:
        """§4.4.3: what the authenticator signs over."""
        return self.nonce + self.action_hash


class Ticket(msgspec.Struct, frozen=True):
    """Allows one enrolment. Only the hash is kept; `purpose` is setup, enrol, device or recovery.

    A set-up ticket is for the very first passkey: it holds only while its person has none. `credential` is the passkey
    that signed for it, if one did: the ticket holds only while that passkey does.
    """

    hash: bytes
    user: str
    purpose: str
    by: str
    created_at: int
    expires_at: int
    used_at: int | None = None
    credential: str | None = None


class Registration(msgspec.Struct, frozen=True):
    """A passkey in the making: the challenge that `approval/enroll/finish` has to answer."""

    challenge: bytes
    user: str
    created_at: int
    expires_at: int
    used_at: int | None = None


class Request(msgspec.Struct, frozen=True):
    """A call that waits for its person on the approval page, or what became of it.

    `caller` is who may use the approval: the same caller with the same call, once. `agent` is what is known of the
    caller, to be shown. `evidence` is the assertion that approved it, for the record.
    """

    id: str
    user: str
    server: str
    tool: str
    caller: str
    agent: dict[str, str]
    canonical: bytes
    action_hash: bytes
    display_text: str
    policy: ApprovalPolicy
    why: str
    version: str | None
    created_at: int
    expires_at: int
    state: RequestState = "waiting"
    decided_at: int | None = None
    decided_by: str | None = None
    note: str | None = None
    evidence: dict[str, Any] | None = None
    call: str | None = None
    # Where its page is served, as far as that is known.
    page: str = ""


class Signature(msgspec.Struct, frozen=True):
    """One person's yes to a call that several have to approve; `evidence` is what goes on record of it."""

    request: str
    user: str
    credential: str
    at: int
    evidence: dict[str, Any]


class ConsoleSession(msgspec.Struct, frozen=True):
    """A person signed in to the console; `id` is the hash of what the browser holds."""

    id: bytes
    user: str
    credential: str
    csrf: str
    created_at: int
    expires_at: int
    # The person's, read anew with every request.
    role: Role = "viewer"


class ChallengeUse(msgspec.Struct, frozen=True):
    """Steps 13 and 14 of §4.8, to be made durable together with the decision: consume, and move the counter."""

    challenge: str
    credential: str
    counter: int
    at: int
    backed_up: bool = False


class GrantUse(msgspec.Struct, frozen=True):
    """An approval given on the page, to be used up together with the decision."""

    request: str
    call: str
    at: int


Use: TypeAlias = ChallengeUse | GrantUse


_ANY_LOCAL_PORT: Final = "http://localhost:*"
_LOCAL: Final = re.compile(r"http://localhost(:[0-9]{1,5})?\Z")


class ApprovalBounds(msgspec.Struct, frozen=True):
    """How much may be open at once."""

    per_user: int = 20
    in_all: int = 10_000
    # Waiting approval requests of one caller for one person (of all callers: twice as many, as with challenges), and
    # registrations under way of one person.
    requests_per_user: int = 20
    registrations_per_user: int = 5
    credentials_per_user: int = 20
    devices_per_user: int = 10


class RelyingParty(msgspec.Struct, frozen=True, dict=True):
    """`id` is the domain that passkeys are bound to; `origins` are the pages they may be used on."""

    id: str
    name: str = "Callgate"
    origins: tuple[str, ...] = ()
    top_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id or not self.origins:
            raise ConfigError("a relying party needs an id and at least one origin", advice="Give both.")

    @cached_property
    def hash(self) -> bytes:
        """What authenticator data begins with (WebAuthn §6.1)."""
        return hashlib.sha256(self.id.encode()).digest()

    @cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset(self.origins)

    @cached_property
    def _any_port(self) -> bool:
        return _ANY_LOCAL_PORT in self.origins

    def takes(self, origin: str) -> bool:
        """Whether a signature made on a page of this origin counts."""
        if origin in self._exact and origin != _ANY_LOCAL_PORT:
            return True
        return self._any_port and _LOCAL.match(origin) is not None

    def takes_around(self, top_origin: str | None) -> bool:
        """Whether a page of this origin may hold the signing page in a frame."""
        return top_origin is not None and top_origin in self.top_origins


class Attestation(msgspec.Struct, frozen=True):
    """What new passkeys have to prove: nothing, or that a listed maker made them; and which models are taken."""

    conveyance: Literal["none", "direct"] = "none"
    roots: tuple[bytes, ...] = ()
    aaguids: frozenset[str] = frozenset()


class ApprovalSettings(msgspec.Struct, frozen=True):
    """Times in milliseconds. `server_id` is the configured one of the deployment, if any."""

    challenge_ms: int = 60_000
    registration_ms: int = 300_000
    ticket_ms: int = 3_600_000
    request_ms: int = 600_000
    session_ms: int = 28_800_000
    argument_bytes: int = 262_144
    bounds: ApprovalBounds = ApprovalBounds()
    first_use: bool = False
    # Whether a person's first passkey comes with codes for when all of them are lost.
    recovery_codes: bool = True
    locale: Literal["en", "de"] = "en"
    attestation: Attestation = Attestation()
    server_id: str | None = None
