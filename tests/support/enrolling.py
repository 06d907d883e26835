"""People with passkeys made of software, for tests of what stands around the ceremony."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callgate.approval import (
    ApprovalPolicy,
    ApprovalRepository,
    Approvals,
    ApprovalSettings,
    EnrolledPasskey,
    Gated,
    RelyingParty,
    VerifiedCall,
)
from callgate.canonical import canonical
from callgate.sdk.authenticators.software import SoftwareAuthenticator

ORIGIN = "http://localhost:8420"
PARTY = RelyingParty("localhost", origins=("http://localhost:*",))
GATED = Gated("notes", "urn:test:notes", "delete_note", ApprovalPolicy("platform"))


def service(shelf: ApprovalRepository, **options: Any) -> Approvals:
    return Approvals(shelf, PARTY, options.pop("settings", ApprovalSettings()), **options)


async def enrol(
    approvals: Approvals,
    ticket: str,
    authenticator: SoftwareAuthenticator | None = None,
    name: str = "",
    **bend: Any,
) -> tuple[EnrolledPasskey, SoftwareAuthenticator]:
    """A new passkey of whomever the ticket is for, with recovery codes."""
    authenticator = authenticator or SoftwareAuthenticator(ORIGIN)
    begun = await approvals.begin_enrolment(ticket)
    answer = authenticator.create(begun["options"], **bend)
    return await approvals.finish_enrolment(answer, name=name, codes=True), authenticator


async def approve(
    approvals: Approvals,
    authenticator: SoftwareAuthenticator,
    arguments: dict[str, Any],
    *,
    gated: Gated = GATED,
    user: str = "alice",
    sign: Callable[[SoftwareAuthenticator, dict[str, Any]], dict[str, Any]] = lambda key, options: key.get(options),
) -> VerifiedCall:
    """The ceremony of a call up to step 12."""
    form = canonical(arguments)
    issued = await approvals.challenge(gated, arguments, form, user)
    response = sign(authenticator, issued.result["requestOptions"])
    evidence = {"method": "webauthn", "challengeId": issued.challenge.id, "response": response}
    return await approvals.verify(gated, arguments, form, evidence)
