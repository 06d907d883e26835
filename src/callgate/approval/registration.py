"""A new passkey (WebAuthn Level 3 §7.1): the `webauthn` package verifies it, and here is what that leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

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

if TYPE_CHECKING:
    from webauthn.registration.verify_registration_response import VerifiedRegistration

_OBJECT_CHARS: Final = 65_536
_CLIENT_CHARS: Final = 16_384
_ID_BYTES: Final = 1_023
_TRANSPORTS: Final = frozenset({"usb", "nfc", "ble", "hybrid", "internal", "smart-card", "cable"})
# WebAuthn §8.2.1: where a maker's certificate says which model it is for, as an OCTET STRING of 16 bytes.
_MODEL: Final = x509.ObjectIdentifier("1.3.6.1.4.1.45724.1.1.4")
_OCTETS_16: Final = b"\x04\x10"


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
    known = [one for one in listed[:16] if isinstance(one, str) and one in _TRANSPORTS]
    try:
        challenge = from_base64url(read_client_data(client_data).challenge)
    except ValueError:
        raise Malformed("the challenge is not base64url") from None
    return Answer(
        whole=response,
        client_data=client_data,
        attestation_object=_bytes(inner, "attestationObject", _OBJECT_CHARS),
        challenge=challenge,
        transports=tuple(dict.fromkeys("hybrid" if one == "cable" else one for one in known)),
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
    # Loaded when somebody first enrols: it takes as long as much of a gateway's start.
    from webauthn import verify_registration_response
    from webauthn.helpers import parse_cbor
    from webauthn.helpers.cose import COSEAlgorithmIdentifier
    from webauthn.helpers.structs import AttestationFormat

    client = read_client_data(answer.client_data)
    check_origin(client, party)
    try:
        found = verify_registration_response(
            credential=_plain(answer),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=client.origin,
            require_user_verification=True,
            supported_pub_key_algs=[COSEAlgorithmIdentifier(number) for number in ALGORITHMS],
            pem_root_certs_bytes_by_fmt={fmt: list(_single(policy.roots)) for fmt in AttestationFormat},
        )
        made = parse_cbor(answer.attestation_object)
        flags = check_flags(made["authData"], party)
        check_public_key(found.credential_public_key)
        _check_attestation(found, made.get("attStmt"), policy)
    except (Malformed, NotVerified):
        raise
    except Exception as error:
        # Three libraries read what a stranger sent, and each raises more kinds than it names.
        raise NotVerified(f"the registration does not hold ({type(error).__name__})") from error
    # The package compares id with rawId, both the client's word; the signed one is inside the attested data.
    if to_base64url(found.credential_id) != answer.whole.get("id"):
        raise NotVerified("the answer names another credential than the one that was made")
    if len(found.credential_id) > _ID_BYTES:
        raise NotVerified("the credential id is too long")
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
    return {name: answer.whole.get(name) for name in ("id", "rawId", "type")} | {"response": inner}


def _check_attestation(found: VerifiedRegistration, statement: object, policy: Attestation) -> None:
    """What the package leaves out: it reads no unknown members, trusts some makers by itself, and any without roots."""
    from webauthn.helpers import validate_certificate_chain
    from webauthn.helpers.structs import AttestationFormat

    if not isinstance(statement, dict) or (found.fmt == AttestationFormat.NONE and statement):
        raise NotVerified("the attestation statement is not what its format has")
    if policy.aaguids and found.aaguid not in policy.aaguids:
        raise NotVerified("this model of authenticator is not among those that are taken")
    chain = statement.get("x5c")
    if chain and found.fmt == AttestationFormat.PACKED:
        _check_certificate(x509.load_der_x509_certificate(chain[0]), UUID(found.aaguid))
    if policy.conveyance == "direct":
        if not chain or not policy.roots:
            raise NotVerified("the authenticator does not prove who made it")
        validate_certificate_chain(x5c=chain, pem_root_certs_bytes=list(_single(policy.roots)))


def _check_certificate(certificate: x509.Certificate, model: UUID) -> None:
    """WebAuthn §8.2.1: it is one for attestation, for nothing else, and for this model."""
    units = certificate.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATIONAL_UNIT_NAME)
    if certificate.version is not x509.Version.v3 or [unit.value for unit in units] != ["Authenticator Attestation"]:
        raise NotVerified("the maker's certificate is not one for attestation")
    if certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise NotVerified("the maker's certificate is one that signs certificates")
    for extension in certificate.extensions:
        if extension.oid == _MODEL and extension.value.public_bytes() != _OCTETS_16 + model.bytes:
            raise NotVerified("the maker's certificate is for another model")


@lru_cache(maxsize=8)
def _single(roots: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """One certificate each: of a PEM file with several, the package would take the first."""
    return tuple(one.public_bytes(Encoding.PEM) for file in roots for one in x509.load_pem_x509_certificates(file))
