"""Evidence of approval (SEP-2672 §4.5), and its verification in the order of §4.8.

`METHODS` is the registry of ways to answer. Which of them a tool takes is its policy's to say.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

import msgspec

from callgate.approval import device
from callgate.approval.action import action_hash, from_base64url, to_base64url
from callgate.approval.delegation import check_grant, is_grant
from callgate.approval.display import escape
from callgate.approval.model import ApprovalPolicy, Challenge, ChallengeUse, Credential, RelyingParty
from callgate.approval.overview import fingerprint
from callgate.approval.reach import how_to_add, kind_of
from callgate.approval.webauthn import (
    Assertion,
    MalformedResponse,
    NotVerified,
    SignedAssertion,
    check_assertion,
    read_assertion,
    read_client_data,
)
from callgate.errors import Reason, Refused
from callgate.protocol import DEVICE, WEBAUTHN

_ID_CHARS: Final = 256


class Method(Protocol):
    """One way to prove an approval. `keys` is the kind of credential (`Credential.method`) that it is proved with."""

    @property
    def keys(self) -> str: ...

    def read(self, response: Mapping[str, Any]) -> Any:
        """Decode it, `id` is the credential that it says it was made with; Malformed for another shape."""

    def check(self, proof: Any, challenge: Challenge, credential: Credential, party: RelyingParty) -> SignedAssertion:
        """Verify it; NotVerified if it does not hold."""

    def facts(
        self, proof: Any, signed: SignedAssertion, challenge: Challenge, credential: Credential
    ) -> dict[str, Any]:
        """What goes on record, so that the proof can be verified again later."""


class WebAuthn:
    """`method: "webauthn"`: a passkey's assertion."""

    keys = WEBAUTHN

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

    def facts(
        self,
        proof: Assertion,
        signed: SignedAssertion,
        challenge: Challenge,  # noqa: ARG002 - for methods that need it
        credential: Credential,
    ) -> dict[str, Any]:
        return {
            "transports": list(credential.transports),
            "backup_eligible": signed.backup_eligible,
            "backed_up": signed.backed_up,
            "local_use_possible": "internal" in credential.transports or not credential.transports,
            "origin": signed.origin,
            "assertion": {
                "client_data": to_base64url(proof.client_data),
                "authenticator_data": to_base64url(proof.authenticator_data),
                "signature": to_base64url(proof.signature),
            },
            # The client's word, which nothing signs (§8.3.1).
            "client_reported": {"authenticator_attachment": proof.attachment},
        }


class SignedOnDevice:
    """`method: "device"`: a yes or a no that a registered device has signed."""

    keys = DEVICE

    def read(self, response: Mapping[str, Any]) -> device.DeviceAnswer:
        return device.read_answer(response)

    def check(
        self,
        proof: device.DeviceAnswer,
        challenge: Challenge,
        credential: Credential,
        party: RelyingParty,  # noqa: ARG002 - a device knows the gateway by another name
    ) -> SignedAssertion:
        return device.check_answer(proof, challenge, credential)

    def facts(
        self,
        proof: device.DeviceAnswer,
        signed: SignedAssertion,  # noqa: ARG002 - all of it is in the proof
        challenge: Challenge,
        credential: Credential,
    ) -> dict[str, Any]:
        return device.facts(proof, challenge, credential)


METHODS: Final[Mapping[str, Method]] = {WEBAUTHN: WebAuthn(), DEVICE: SignedOnDevice()}


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
    """An answer that holds; `use` makes it single, `facts` go on record. `yes` says whether it is an approval."""

    challenge: Challenge
    credential: Credential
    use: ChallengeUse
    facts: dict[str, Any]
    yes: bool = True


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


def check_credential(
    credential: Credential | None, challenge: Challenge, policy: ApprovalPolicy, keys: str = WEBAUTHN
) -> Credential:
    """Steps 8 and 9; the class is judged before membership in `allowCredentials`, or it could never be the reason.

    `keys` is the kind of credential that the method is for: no method verifies with the key of another.
    """
    if credential is None or credential.revoked_at is not None or credential.method != keys:
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
        "counter": signed.counter,
        "challenge": challenge.id,
        "nonce": to_base64url(challenge.nonce),
        "action_hash": to_base64url(challenge.action_hash),
        **evidence.method.facts(evidence.proof, signed, challenge, credential),
    }


_HASH: Final = 32


class _Signature(msgspec.Struct, frozen=True):
    client_data: str
    authenticator_data: str
    signature: str


class _Facts(msgspec.Struct, frozen=True):
    """What verify.py has put on record, as far as it is needed to verify it."""

    user: str
    credential: str
    public_key: str
    nonce: str
    action_hash: str
    assertion: _Signature
    origin: str
    counter: int
    backed_up: bool
    rp_id: str | None = None
    server_id: str | None = None


class Proven(msgspec.Struct, frozen=True):
    """What a passkey has signed, or the key of the device that is named. `whole` says that tool, arguments and server
    were found in it, not only a hash."""

    user: str
    credential: str
    fingerprint: str
    origin: str
    rp_id: str
    framed_in: str | None
    counter: int
    backed_up: bool
    action_hash: str
    whole: bool
    device: str = ""
    # What was signed is this grant, which the call is within; empty where it is the call itself.
    grant: str = ""

    @property
    def what(self) -> str:
        """What has signed, in words."""
        return f"the device “{escape(self.device)}”, without a passkey" if self.device else "a passkey"


# The member of a record that has the signature, by the method.
_SIGNATURES: Final = {WEBAUTHN: "assertion", DEVICE: "signature"}


def is_proof(facts: object) -> bool:
    """Whether a record holds a signature that can be verified."""
    if not isinstance(facts, Mapping):
        return False
    method = facts.get("method")
    return isinstance(method, str) and method in _SIGNATURES and _SIGNATURES[method] in facts


def proofs_in(facts: object) -> list[Mapping[str, Any]]:
    """The signatures that a record holds: one, or one of each person where several approved."""
    if is_proof(facts):
        assert isinstance(facts, Mapping)
        return [facts]
    if is_grant(facts):
        assert isinstance(facts, Mapping)
        signed = facts.get("signature")
        # Nothing but a passkey signs a grant.
        passkey = isinstance(signed, Mapping) and is_proof(signed) and signed["method"] == WEBAUTHN
        return [cast("Mapping[str, Any]", signed)] if passkey else []
    several = facts.get("signatures") if isinstance(facts, Mapping) else None
    if not isinstance(facts, Mapping) or not isinstance(several, list) or not all(map(is_proof, several)):
        return []
    return [{**one, "server_id": facts.get("server_id")} for one in several]


def check_proofs(facts: object, tool: str, canonical: bytes | None) -> list[Proven]:
    """Verify every signature in a record (`check_proof`). Where several people approved, each of them is another one,
    with another passkey, all signed for the same call, and they are as many as had to; NotVerified where not.
    """
    if is_grant(facts):
        assert isinstance(facts, Mapping)
        [signed] = [check_proof(one, tool, None) for one in proofs_in(facts)]
        check_grant(facts, bytes.fromhex(signed.action_hash), signed.rp_id, tool, canonical)
        if facts.get("user") != signed.user:
            raise NotVerified("the record names another person than the one who signed")
        return [msgspec.structs.replace(signed, whole=canonical is not None, grant=str(facts.get("grant")))]
    proven = [check_proof(one, tool, canonical) for one in proofs_in(facts)]
    if len({one.user for one in proven}) < len(proven) or len({one.fingerprint for one in proven}) < len(proven):
        raise NotVerified("one person, passkey or device signed twice")
    if len({one.action_hash for one in proven}) > 1:
        raise NotVerified("the people on record signed for different calls")
    wanted = facts.get("approvals") if isinstance(facts, Mapping) else None
    if isinstance(wanted, int) and len(proven) < wanted:
        raise NotVerified(f"{wanted} people had to sign, and {len(proven)} did")
    return proven


def check_proof(facts: object, tool: str, canonical: bytes | None) -> Proven:
    """Verify the signature in a record; NotVerified or Malformed say what does not hold.

    `canonical` is the RFC 8785 form of the arguments, where the record or somebody else has them whole.
    """
    if isinstance(facts, Mapping) and facts.get("method") == DEVICE:
        return _check_device(facts, tool, canonical)
    read = _read(facts)
    assertion = _assertion(read)
    client = read_client_data(assertion.client_data)
    if client.origin != read.origin:
        raise NotVerified("the record names another origin than the browser did")
    framed_in = client.topOrigin
    party = RelyingParty(
        id=_relying_party(read, assertion.authenticator_data),
        origins=(client.origin,),
        top_origins=() if framed_in is None else (framed_in,),
    )
    action = _bytes(read.action_hash, "action_hash")
    challenge = _bytes(read.nonce, "nonce") + action
    signed = check_assertion(assertion, challenge, _credential(read), party)
    if (signed.counter, signed.backed_up) != (read.counter, read.backed_up):
        raise NotVerified("the record names another counter or backup state than the passkey signed")
    whole = canonical is not None and read.server_id is not None
    if canonical is not None and read.server_id is not None:
        _check_action(action, tool, canonical, read.server_id)
    return Proven(
        user=read.user,
        credential=read.credential,
        fingerprint=fingerprint(_credential(read).public_key),
        origin=client.origin,
        rp_id=party.id,
        framed_in=framed_in,
        counter=signed.counter,
        backed_up=signed.backed_up,
        action_hash=action.hex(),
        whole=whole,
    )


def _check_device(facts: Mapping[str, Any], tool: str, canonical: bytes | None) -> Proven:
    """The same for the answer of a device."""
    proven, server_id = device.prove(facts), facts.get("server_id")
    whole = canonical is not None and isinstance(server_id, str)
    if canonical is not None and isinstance(server_id, str):
        _check_action(proven.action_hash, tool, canonical, server_id, "device")
    return Proven(
        user=proven.user,
        credential=proven.credential,
        fingerprint=fingerprint(proven.public_key),
        origin="",
        rp_id="",
        framed_in=None,
        counter=proven.counter,
        backed_up=False,
        action_hash=proven.action_hash.hex(),
        whole=whole,
        device=proven.device,
    )


def _check_action(signed: bytes, tool: str, canonical: bytes, server_id: str, what: str = "passkey") -> None:
    """SEP-2672 §4.6, from the call on record."""
    if not hmac.compare_digest(signed, action_hash(tool, canonical, server_id)):
        raise NotVerified(f"the {what} signed for another call than the one on record")


def _read(facts: object) -> _Facts:
    try:
        return msgspec.convert(facts, _Facts)
    except msgspec.ValidationError as error:
        raise MalformedResponse(f"the approval on record lacks something: {error}") from None


def _assertion(read: _Facts) -> Assertion:
    return Assertion(
        id=read.credential,
        raw_id=read.credential,
        client_data=_bytes(read.assertion.client_data, "client_data"),
        authenticator_data=_bytes(read.assertion.authenticator_data, "authenticator_data"),
        signature=_bytes(read.assertion.signature, "signature"),
        # The record leaves it out: it adds nothing to the public key that is in the record.
        user_handle=None,
        attachment=None,
    )


def _credential(read: _Facts) -> Credential:
    return Credential(read.credential, read.user, b"", _bytes(read.public_key, "public_key"), 0, ())


def _relying_party(read: _Facts, data: bytes) -> str:
    """The domain that was signed for: the one on record, or else the origin's host or a domain above it."""
    candidates = [read.rp_id] if read.rp_id is not None else [*_domains(read.origin)]
    for domain in candidates:
        if domain and hmac.compare_digest(RelyingParty(domain, origins=(read.origin,)).hash, data[:_HASH]):
            return domain
    raise NotVerified("signed for another relying party")


def _domains(origin: str) -> Iterator[str]:
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return
    while host:
        yield host
        host = host.partition(".")[2]


def _bytes(text: str, name: str) -> bytes:
    try:
        return from_base64url(text)
    except ValueError:
        raise MalformedResponse(f"{name} is not base64url") from None
