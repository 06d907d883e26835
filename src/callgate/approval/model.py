"""What verified approval is about: people, their passkeys, challenges, requests. Times are milliseconds since 1970."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

AuthenticatorClass: TypeAlias = Literal["cross-platform", "platform"]
RequestState: TypeAlias = Literal["waiting", "approved", "refused", "used"]

# SEP-2672 §4.7: a passkey with one of these can be used from another device than the client's.
CROSS_PLATFORM: Final = frozenset({"hybrid", "usb", "nfc", "ble"})
# Stands for the call that used an approval up, where no call did: it is not one for what holds now.
WITHDRAWN: Final = "withdrawn"


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
    """A passkey; `id` is base64url without padding, `public_key` is COSE."""

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

    def takes(self, held: Credential) -> bool:
        """Whether this passkey can approve; every place that asks this, or tells it beforehand, asks it here."""
        return held.satisfies(self.authenticator_class) and (held.counter > 0 or not self.require_counter)


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

    @property
    def message(self) -> bytes:
        """§4.4.3: what the authenticator signs over."""
        return self.nonce + self.action_hash


class Ticket(msgspec.Struct, frozen=True):
    """Allows one enrolment. Only the hash is kept; `purpose` is setup, enrol, device or recovery.

    A set-up ticket is for the very first passkey: it holds only while its person has none.
    """

    hash: bytes
    user: str
    purpose: str
    by: str
    created_at: int
    expires_at: int
    used_at: int | None = None


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
