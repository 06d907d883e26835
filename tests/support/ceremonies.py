"""People, passkeys and challenges without a wire in between: the service on a shelf in memory, on a clock of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Unpack

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from callgate.approval import (
    Approvals,
    ApprovalSettings,
    Credential,
    EnrolledPasskey,
    Gated,
    IssuedChallenge,
    RelyingParty,
    VerifiedCall,
)
from callgate.approval.action import from_base64url, to_base64url
from callgate.canonical import canonical
from callgate.sdk.authenticators.software import Bend, SoftwareAuthenticator
from callgate.store import AuditRow
from support.memory import MemoryShelf, witness

ORIGIN: Final = "http://localhost:8000"
PARTY: Final = RelyingParty("localhost", origins=(ORIGIN,))
SERVER_ID: Final = "urn:uuid:5e0e2f7e-0d0c-4f4c-9a9f-6a2b1f5d7c33"
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["resourceId"],
    "properties": {"resourceId": {"type": "string", "minLength": 1}},
}
GATED: Final = Gated("store", SERVER_ID, "delete_resource", input_schema=SCHEMA)
ARGUMENTS: Final[dict[str, Any]] = {"resourceId": "abc123"}


class Clock:
    """Milliseconds that pass only when told to."""

    def __init__(self, at: int = 1_800_000_000_000) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at / 1000

    def tick(self, milliseconds: int) -> None:
        self.at += milliseconds


class Scene:
    """An approval service with its clock, its shelf and what it told its log."""

    def __init__(self, settings: ApprovalSettings | None = None, *, party: RelyingParty = PARTY, **more: Any) -> None:
        self.clock = Clock()
        self.shelf: MemoryShelf = more.pop("shelf", None) or MemoryShelf()
        self.log: list[tuple[str, str, dict[str, Any]]] = []
        self.approvals = Approvals(self.shelf, party, settings, clock=self.clock, witness=self._witness, **more)

    def _witness(self, action: str, by: str, detail: dict[str, Any]) -> AuditRow:
        self.log.append((action, by, detail))
        return witness(action, by)

    async def options(self, user: str = "ann") -> dict[str, Any]:
        """The options of an enrolment that has begun."""
        ticket = await self.approvals.ticket(user, by="operator")
        options: dict[str, Any] = (await self.approvals.begin_enrolment(ticket))["options"]
        return options

    async def enrol(self, authenticator: SoftwareAuthenticator, user: str = "ann", **bend: Unpack[Bend]) -> Credential:
        options = await self.options(user)
        enrolled: EnrolledPasskey = await self.approvals.finish_enrolment(authenticator.create(options, **bend))
        return enrolled.credential

    async def issue(
        self, gated: Gated = GATED, arguments: dict[str, Any] | None = None, user: str = "ann", **more: Any
    ) -> IssuedChallenge:
        given = ARGUMENTS if arguments is None else arguments
        return await self.approvals.challenge(gated, given, canonical(given), user, **more)

    async def verify(
        self, evidence: object, gated: Gated = GATED, arguments: dict[str, Any] | None = None
    ) -> VerifiedCall:
        given = ARGUMENTS if arguments is None else arguments
        return await self.approvals.verify(gated, given, canonical(given), evidence)

    async def call(
        self, evidence: object, gated: Gated = GATED, arguments: dict[str, Any] | None = None
    ) -> VerifiedCall:
        """All fourteen steps."""
        verified = await self.verify(evidence, gated, arguments)
        await self.shelf.use(verified.use)
        return verified


def evidence(issued: IssuedChallenge, authenticator: SoftwareAuthenticator, **bend: Unpack[Bend]) -> dict[str, Any]:
    """What a client sends with the call (SEP-2672 §4.5)."""
    response = authenticator.get(issued.result["requestOptions"], **bend)
    return {"method": "webauthn", "challengeId": issued.challenge.id, "response": response}


def authenticator(**more: Any) -> SoftwareAuthenticator:
    """A security key in the hands of somebody on our page."""
    return SoftwareAuthenticator(ORIGIN, **more)


def resigned(
    authenticator: SoftwareAuthenticator,
    response: dict[str, Any],
    *,
    data: bytes | None = None,
    client: bytes | None = None,
) -> dict[str, Any]:
    """The same answer with other authenticator data or client data, and a signature that holds for them."""
    inner = response["response"]
    data = from_base64url(inner["authenticatorData"]) if data is None else data
    client = from_base64url(inner["clientDataJSON"]) if client is None else client
    signature = _signature(authenticator.passkeys[0].key, data + hashlib.sha256(client).digest())
    changed = {"authenticatorData": data, "clientDataJSON": client, "signature": signature}
    return response | {"response": inner | {name: to_base64url(value) for name, value in changed.items()}}


def _signature(key: object, message: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(SHA256()))
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key.sign(message, padding.PKCS1v15(), SHA256())
