"""A new passkey (WebAuthn Level 3 §7.1): the `webauthn` package verifies it, and here is what that leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from webauthn import verify_registration_response
from webauthn.helpers import parse_attestation_object
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import AttestationFormat

from callgate.approval.assertion import (
    ALGORITHMS,
    Malformed,
    NotVerified,
    check_flags,
    check_origin,
    check_public_key,
    read_client_data,
)
from callgate.approval.encoding import from_base64url, to_base64url
from callgate.approval.party import RelyingParty
from callgate.approval.settings import Attestation

_OBJECT_CHARS: Final = 65_536
_CLIENT_CHARS: Final = 16_384
_ID_BYTES: Final = 1_023
_TRANSPORTS: Final = frozenset({"usb", "nfc", "ble", "hybrid", "internal", "smart-card", "cable"})
_SUPPORTED: Final = [COSEAlgorithmIdentifier(number) for number in ALGORITHMS]


class Answer(msgspec.Struct, frozen=True):
    """RegistrationResponseJSON as far as it is needed before verification."""

    whole: dict[str, Any]
    client_data: bytes
    attestation_object: bytes
    challenge: bytes
    transports: tuple[str, ...]


class Registered(msgspec.Struct, frozen=True):
    """What a registration that holds says of the new passkey."""

    id: str
    public_key: bytes
    counter: int
    aaguid: str
    attestation: str
    backup_eligible: bool
    backed_up: bool


def read_registration(response: object) -> Answer:
    """Decode what the browser answered; Malformed for every other shape."""
    inner = response.get("response") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(inner, dict):
        raise Malformed("not a registration response")
    client_data = _bytes(inner, "clientDataJSON", _CLIENT_CHARS)
    transports = inner.get("transports")
    listed = transports if isinstance(transports, list) else []
    known = dict.fromkeys(one for one in listed[:16] if isinstance(one, str) and one in _TRANSPORTS)
    try:
        challenge = from_base64url(read_client_data(client_data).challenge)
    except ValueError:
        raise Malformed("the challenge is not base64url") from None
    return Answer(
        whole=response,
        client_data=client_data,
        attestation_object=_bytes(inner, "attestationObject", _OBJECT_CHARS),
        challenge=challenge,
        transports=tuple("hybrid" if one == "cable" else one for one in known),
    )


def _bytes(holder: Mapping[str, Any], name: str, most: int) -> bytes:
    value = holder.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise Malformed(f"{name} is missing or too long")
    try:
        return from_base64url(value)
    except ValueError:
        raise Malformed(f"{name} is not base64url") from None


def check_registration(answer: Answer, challenge: bytes, party: RelyingParty, policy: Attestation) -> Registered:
    """Verify a new passkey against the challenge that it was asked for with; NotVerified says which part fails."""
    client = read_client_data(answer.client_data)
    check_origin(client, party)
    try:
        found = verify_registration_response(
            credential=_plain(answer),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=client.origin,
            require_user_verification=True,
            supported_pub_key_algs=_SUPPORTED,
            pem_root_certs_bytes_by_fmt={fmt: list(policy.roots) for fmt in AttestationFormat},
        )
        parsed = parse_attestation_object(answer.attestation_object)
    except (WebAuthnException, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        # The package raises its own kinds for what it foresees; hostile CBOR finds others.
        raise NotVerified(f"the registration does not hold ({type(error).__name__})") from error
    flags = check_flags(_authenticator_data(parsed), party)
    # The package compares id with rawId, both the client's word; the signed one is inside the attested data.
    if to_base64url(found.credential_id) != str(answer.whole.get("id")).rstrip("="):
        raise NotVerified("the answer names another credential than the one that was made")
    if len(found.credential_id) > _ID_BYTES:
        raise NotVerified("the credential id is too long")
    check_public_key(found.credential_public_key)
    _check_attestation(found.fmt, found.aaguid, parsed.att_stmt, policy)
    return Registered(
        id=to_base64url(found.credential_id),
        public_key=found.credential_public_key,
        counter=found.sign_count,
        aaguid=found.aaguid,
        attestation=AttestationFormat(found.fmt).value,
        backup_eligible=bool(flags & 0x08),
        backed_up=bool(flags & 0x10),
    )


def _plain(answer: Answer) -> dict[str, Any]:
    """The parts the package reads, and nothing else of what the client may have put there."""
    inner: dict[str, Any] = {
        "clientDataJSON": to_base64url(answer.client_data),
        "attestationObject": to_base64url(answer.attestation_object),
    }
    key = str(answer.whole.get("id")).rstrip("=")
    raw = str(answer.whole.get("rawId", key)).rstrip("=")
    return {"id": key, "rawId": raw, "type": answer.whole.get("type", "public-key"), "response": inner}


def _authenticator_data(parsed: Any) -> bytes:
    """The head again as bytes, so that one function judges the flags of registrations and assertions alike."""
    data = parsed.auth_data
    flags = data.flags
    bits = (flags.up, False, flags.uv, flags.be, flags.bs, False, flags.at, flags.ed)
    packed = sum(1 << place for place, bit in enumerate(bits) if bit)
    return bytes(data.rp_id_hash) + bytes([packed]) + int(data.sign_count).to_bytes(4, "big")


def _check_attestation(fmt: AttestationFormat, aaguid: str, statement: Any, policy: Attestation) -> None:
    if policy.aaguids and aaguid not in policy.aaguids:
        raise NotVerified("this model of authenticator is not among those that are taken")
    if policy.conveyance == "direct" and (fmt == AttestationFormat.NONE or not statement.x5c):
        raise NotVerified("the authenticator does not prove who made it")
