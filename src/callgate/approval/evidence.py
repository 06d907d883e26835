"""Evidence of approval (SEP-2672 §4.5), and its verification in the order of §4.8."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from callgate.approval.action import to_base64url
from callgate.approval.model import ApprovalPolicy, Challenge, ChallengeUse, Credential
from callgate.approval.reach import how_to_add, kind_of
from callgate.approval.settings import RelyingParty
from callgate.approval.webauthn import (
    Assertion,
    MalformedResponse,
    NotVerified,
    SignedAssertion,
    check_assertion,
    read_assertion,
)
from callgate.errors import Reason, Refused
from callgate.protocol import WEBAUTHN

_ID_CHARS: Final = 256


class Method(Protocol):
    """One way to prove an approval."""

    def read(self, response: Mapping[str, Any]) -> Any:
        """Decode it, `id` is the credential that it says it was made with; Malformed for another shape."""

    def check(self, proof: Any, challenge: Challenge, credential: Credential, party: RelyingParty) -> SignedAssertion:
        """Verify it; NotVerified if it does not hold."""

    def facts(self, proof: Any) -> dict[str, Any]:
        """What goes on record, so that the proof can be verified again later."""


class WebAuthn:
    """`method: "webauthn"`: a passkey's assertion."""

    def read(self, response: Mapping[str, Any]) -> Assertion:
        return read_assertion(response)

    def check(
        self, proof: Assertion, challenge: Challenge, credential: Credential, party: RelyingParty
    ) -> SignedAssertion:
        return check_assertion(
            proof,
            challenge.message,
            credential,
            party,
            handle_needed=not challenge.allowed,
            origin=challenge.origin,
        )

    def facts(self, proof: Assertion) -> dict[str, Any]:
        return {
            "assertion": {
                "client_data": to_base64url(proof.client_data),
                "authenticator_data": to_base64url(proof.authenticator_data),
                "signature": to_base64url(proof.signature),
            },
            # The client's word, which nothing signs (§8.3.1).
            "client_reported": {"authenticator_attachment": proof.attachment},
        }


METHODS: Final[Mapping[str, Method]] = {WEBAUTHN: WebAuthn()}


class Evidence(msgspec.Struct, frozen=True):
    """Evidence whose method is known and whose proof has the right shape."""

    name: str
    method: Method
    challenge_id: str
    proof: Any


def read_evidence(evidence: object, methods: Mapping[str, Method] = METHODS) -> Evidence:
    """Steps 1 to 3 of §4.8; Refused(MISSING_EVIDENCE | UNSUPPORTED_METHOD)."""
    if evidence is None:
        raise Refused(Reason.MISSING_EVIDENCE)
    if not isinstance(evidence, dict):
        raise _misshapen("it is not an object")
    name, challenge_id, response = evidence.get("method"), evidence.get("challengeId"), evidence.get("response")
    if not isinstance(name, str) or not isinstance(challenge_id, str) or not isinstance(response, dict):
        raise _misshapen("it lacks method, challengeId or response, or they are of another kind")
    method = methods.get(name)
    if method is None:
        raise Refused(Reason.UNSUPPORTED_METHOD)
    try:
        proof = method.read(response)
    except MalformedResponse as error:
        raise _misshapen(str(error)) from None
    if not challenge_id or len(challenge_id) > _ID_CHARS:
        raise Refused(Reason.CHALLENGE_UNKNOWN)
    return Evidence(name, method, challenge_id, proof)


def _misshapen(why: str) -> Refused:
    return Refused(Reason.MISSING_EVIDENCE, f"the approval evidence is malformed: {why}")


class VerifiedCall(msgspec.Struct, frozen=True):
    """An approval that holds; `use` makes it single, `facts` go on record."""

    challenge: Challenge
    credential: Credential
    use: ChallengeUse
    facts: dict[str, Any]


def check_state(challenge: Challenge | None, request: str | None, tool: str, now: int) -> Challenge:
    """Steps 4 to 7: unknown, consumed, expired, wrong tool. A page's challenge is unknown to calls, and vice versa."""
    if challenge is None or challenge.request != request:
        raise Refused(Reason.CHALLENGE_UNKNOWN)
    if challenge.consumed_at is not None:
        raise Refused(Reason.CHALLENGE_CONSUMED)
    if now >= challenge.expires_at:
        raise Refused(Reason.CHALLENGE_EXPIRED)
    if challenge.tool != tool:
        raise Refused(Reason.CHALLENGE_WRONG_TOOL)
    return challenge


def check_credential(credential: Credential | None, challenge: Challenge, policy: ApprovalPolicy) -> Credential:
    """Steps 8 and 9; the class is judged before membership in `allowCredentials`, or it could never be the reason."""
    if credential is None or credential.revoked_at is not None:
        raise Refused(Reason.UNKNOWN_CREDENTIAL)
    # A sign-in is issued to nobody in particular, or to the passkeys of a name that anybody may have given.
    if challenge.user and credential.user != challenge.user:
        raise Refused(Reason.UNKNOWN_CREDENTIAL)
    if not credential.satisfies(policy.authenticator_class):
        raise Refused(
            Reason.AUTHENTICATOR_CLASS_MISMATCH,
            f"this tool demands {kind_of(policy)}, and the one that signed is of another kind",
            advice=f"Sign with such a one. {how_to_add(policy, f'`callgate enroll {credential.user}`')}",
        )
    if (challenge.user or challenge.allowed) and credential.id not in challenge.allowed:
        raise Refused(Reason.UNKNOWN_CREDENTIAL)
    return credential


def check_signature(
    evidence: Evidence, challenge: Challenge, credential: Credential, party: RelyingParty
) -> SignedAssertion:
    """Steps 10 and 11: the signature first, then the counter."""
    try:
        signed = evidence.method.check(evidence.proof, challenge, credential, party)
    except (NotVerified, MalformedResponse) as error:
        # Why goes on record, not on the wire: a forger learns nothing from it.
        raise Refused(Reason.SIGNATURE_VERIFICATION_FAILED) from error
    if credential.counter > 0 and signed.counter <= credential.counter:
        raise Refused(Reason.SIGNATURE_COUNTER_REGRESSION)
    return signed


def check_action(challenge: Challenge, action: bytes) -> None:
    """Step 12: what was signed is what is called."""
    if not hmac.compare_digest(challenge.action_hash, action):
        raise Refused(Reason.ARGUMENT_HASH_MISMATCH)


def facts_of(
    evidence: Evidence, challenge: Challenge, credential: Credential, signed: SignedAssertion
) -> dict[str, Any]:
    """What the record keeps of an approval: enough to verify it again and to know its worth (§8.3.1, §8.3.2)."""
    return {
        "method": evidence.name,
        "user": credential.user,
        "credential": credential.id,
        "public_key": to_base64url(credential.public_key),
        "transports": list(credential.transports),
        "backup_eligible": signed.backup_eligible,
        "backed_up": signed.backed_up,
        "local_use_possible": "internal" in credential.transports or not credential.transports,
        "counter": signed.counter,
        "origin": signed.origin,
        "challenge": challenge.id,
        "nonce": to_base64url(challenge.nonce),
        "action_hash": to_base64url(challenge.action_hash),
        **evidence.method.facts(evidence.proof),
    }
