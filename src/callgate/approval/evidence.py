"""The envelope around a proof of approval (SEP-2672 §4.5), and the methods that can be in it.

Another method is another `Method` under another name: the envelope, the order of the checks and the reasons stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from callgate.approval.assertion import Assertion, Malformed, NotVerified, Signed, check_assertion, read_assertion
from callgate.approval.encoding import to_base64url
from callgate.approval.model import Challenge, Credential
from callgate.approval.party import RelyingParty
from callgate.errors import Reason, Refused
from callgate.protocol import WEBAUTHN

_ID_CHARS: Final = 256


class Proof(Protocol):
    """What a method makes of `evidence.response`."""

    @property
    def id(self) -> str:
        """The credential that it says it was made with."""


class Method(Protocol):
    """One way to prove an approval."""

    def read(self, response: Mapping[str, Any]) -> Proof:
        """Decode it; Malformed for another shape."""

    def check(self, proof: Any, challenge: Challenge, credential: Credential, party: RelyingParty) -> Signed:
        """Verify it; NotVerified if it does not hold."""

    def facts(self, proof: Any) -> dict[str, Any]:
        """What goes on record, so that the proof can be verified again later."""


class WebAuthn:
    """`method: "webauthn"`: a passkey's assertion."""

    def read(self, response: Mapping[str, Any]) -> Assertion:
        return read_assertion(response)

    def check(self, proof: Assertion, challenge: Challenge, credential: Credential, party: RelyingParty) -> Signed:
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
    proof: Proof


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
    except Malformed as error:
        raise _misshapen(str(error)) from None
    if not challenge_id or len(challenge_id) > _ID_CHARS:
        raise Refused(Reason.CHALLENGE_UNKNOWN)
    return Evidence(name, method, challenge_id, proof)


def _misshapen(why: str) -> Refused:
    return Refused(Reason.MISSING_EVIDENCE, f"the approval evidence is malformed: {why}")


__all__ = ["METHODS", "Evidence", "Malformed", "Method", "NotVerified", "Proof", "Signed", "WebAuthn", "read_evidence"]
