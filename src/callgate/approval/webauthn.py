"""Passkeys: a signature over a challenge (WebAuthn Level 3 §7.2), and a new passkey (§7.1)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from callgate.approval.action import from_base64url, to_base64url
from callgate.approval.model import Attestation, Credential, RelyingParty

if TYPE_CHECKING:
    from webauthn.registration.verify_registration_response import VerifiedRegistration


ES256: Final = -7
EDDSA: Final = -8
RS256: Final = -257
ALGORITHMS: Final = (ES256, EDDSA, RS256)

_UP: Final = 0x01
_UV: Final = 0x04
_BE: Final = 0x08
_BS: Final = 0x10
_AT: Final = 0x40
_ED: Final = 0x80
_DATA_BYTES: Final = 37
_ATTACHMENTS: Final = ("platform", "cross-platform")
_SMALLEST_RSA: Final = 2048
_ECDSA: Final = ECDSA(SHA256())
_PKCS1: Final = PKCS1v15()
_SHA256: Final = SHA256()

Verify: TypeAlias = Callable[[bytes, bytes], None]
_Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
_Field: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=16_384)]
_OptionalField: TypeAlias = Annotated[str, msgspec.Meta(max_length=16_384)] | None


class MalformedResponse(ValueError):
    """Not of the shape that an authenticator's answer has."""


class NotVerified(Exception):
    """The answer does not hold; the text says which part, for the record and never for the caller."""


class ClientData(msgspec.Struct, frozen=True):
    """What the browser says it signed (WebAuthn §5.8.1); it may say more."""

    type: str
    challenge: str
    origin: str
    crossOrigin: bool = False  # noqa: N815 - the wire's name
    topOrigin: str | None = None  # noqa: N815


_client_data: Final = msgspec.json.Decoder(ClientData).decode


class _AssertionResponse(
    msgspec.Struct,
    frozen=True,
    rename={"client_data": "clientDataJSON", "authenticator_data": "authenticatorData", "user_handle": "userHandle"},
):
    """AuthenticatorAssertionResponseJSON."""

    client_data: _Field
    authenticator_data: _Field
    signature: _Field
    user_handle: _OptionalField = None


class _Answer(msgspec.Struct, frozen=True, rename={"raw_id": "rawId", "attachment": "authenticatorAttachment"}):
    """AuthenticationResponseJSON (WebAuthn §5.1); it may hold more."""

    id: _Id
    raw_id: _Id
    type: str
    response: _AssertionResponse
    attachment: Any = None


class Assertion(msgspec.Struct, frozen=True):
    """AuthenticationResponseJSON, decoded."""

    id: str
    raw_id: str
    client_data: bytes
    authenticator_data: bytes
    signature: bytes
    user_handle: bytes | None
    attachment: str | None


class SignedAssertion(msgspec.Struct, frozen=True):
    """What a signature that holds says. A passkey signs a yes only; other methods can sign a no."""

    counter: int
    backup_eligible: bool
    backed_up: bool
    origin: str
    yes: bool = True


def read_assertion(response: Mapping[str, Any]) -> Assertion:
    """Decode an authenticator's answer; Malformed for every other shape."""
    try:
        answer = msgspec.convert(response, _Answer)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedResponse(str(error)) from None
    if answer.type != "public-key" or not answer.id.isascii() or not answer.raw_id.isascii():
        raise MalformedResponse("type is not public-key, or id and rawId are not base64url")
    inner = answer.response
    try:
        return Assertion(
            id=answer.id,
            raw_id=answer.raw_id,
            client_data=from_base64url(inner.client_data),
            authenticator_data=from_base64url(inner.authenticator_data),
            signature=from_base64url(inner.signature),
            user_handle=from_base64url(inner.user_handle) if inner.user_handle else None,
            # Level 3 §5.1: a value that is not known counts as none.
            attachment=answer.attachment if answer.attachment in _ATTACHMENTS else None,
        )
    except ValueError:
        raise MalformedResponse("clientDataJSON, authenticatorData, signature or userHandle is not base64url") from None


def check_assertion(
    assertion: Assertion,
    challenge: bytes,
    credential: Credential,
    party: RelyingParty,
    *,
    handle_needed: bool = False,
    origin: str = "",
) -> SignedAssertion:
    """Step 10 of SEP-2672 §4.8: type, challenge, origin, frame, relying party, presence, verification, signature.

    `origin` is the only page that counts, where there is only one.
    """
    if assertion.raw_id != assertion.id or assertion.id != credential.id:
        raise NotVerified("id and rawId name different credentials")
    client = _check_client_data(assertion.client_data, challenge, party)
    if origin and client.origin != origin:
        raise NotVerified("signed on another page than the one that asked for it")
    data = assertion.authenticator_data
    flags = check_flags(data, party)
    _check_rest(data, flags)
    if assertion.user_handle is None:
        if handle_needed:
            raise NotVerified("the user handle is missing")
    elif not hmac.compare_digest(assertion.user_handle, credential.handle):
        raise NotVerified("the user handle is another person's")
    try:
        _verifier(credential.public_key)(assertion.signature, data + hashlib.sha256(assertion.client_data).digest())
    except InvalidSignature:
        raise NotVerified("the signature does not match") from None
    counter = int.from_bytes(data[33:37], "big")
    return SignedAssertion(counter, bool(flags & _BE), bool(flags & _BS), client.origin)


def _check_client_data(raw: bytes, challenge: bytes, party: RelyingParty) -> ClientData:
    try:
        client = read_client_data(raw)
    except MalformedResponse as error:
        raise NotVerified(str(error)) from None
    if client.type != "webauthn.get":
        raise NotVerified("the signature was made for something else than an approval")
    if client.challenge != to_base64url(challenge):
        raise NotVerified("another challenge was signed")
    check_origin(client, party)
    return client


def check_origin(client: ClientData, party: RelyingParty) -> None:
    """The page has to be one of ours, and not inside a frame of someone else's."""
    if not party.takes(client.origin):
        raise NotVerified("signed on a page of another origin")
    if (client.crossOrigin or client.topOrigin is not None) and not party.takes_around(client.topOrigin):
        raise NotVerified("signed inside a page of another origin")


def check_flags(data: bytes, party: RelyingParty) -> int:
    """The head of authenticator data (WebAuthn §6.1): relying party, presence and verification of the person."""
    if len(data) < _DATA_BYTES:
        raise NotVerified("authenticator data is too short")
    if not hmac.compare_digest(data[:32], party.hash):
        raise NotVerified("signed for another relying party")
    flags = data[32]
    if not flags & _UP:
        raise NotVerified("no person was present")
    if not flags & _UV:
        raise NotVerified("the person was not verified")
    if flags & _BS and not flags & _BE:
        raise NotVerified("a passkey that cannot be backed up says that it is")
    return flags


def _check_rest(data: bytes, flags: int) -> None:
    """What follows the head: nothing, or the extensions that a flag announces (WebAuthn §6.1)."""
    if flags & _AT:
        raise NotVerified("an assertion brings a new credential along")
    if not flags & _ED:
        if len(data) != _DATA_BYTES:
            raise NotVerified("authenticator data has bytes that nothing announces")
        return
    # Loaded when a person first signs: it takes as long as much of a gateway's start.
    from webauthn.helpers import parse_authenticator_data, parse_cbor
    from webauthn.helpers.exceptions import WebAuthnException

    try:
        extensions = parse_cbor(parse_authenticator_data(data).extensions or b"")
    except WebAuthnException:
        raise NotVerified("the extensions cannot be read") from None
    if not isinstance(extensions, dict):
        raise NotVerified("the extensions are not a map")


def read_client_data(raw: bytes) -> ClientData:
    """What the browser says it was asked for; Malformed if it cannot be read."""
    try:
        # As text: of bytes, only those of the members above would have to be UTF-8.
        return _client_data(raw.decode())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise MalformedResponse("clientDataJSON cannot be read") from None


def check_public_key(cose: bytes) -> None:
    """Refuse a key that could not be verified with later; Malformed says so."""
    _verifier(cose)


@lru_cache(maxsize=4096)
def _verifier(cose: bytes) -> Verify:
    """What verifies signatures of a stored key; kept, because reading a key costs as much as verifying with it."""
    from webauthn.helpers import decode_credential_public_key, decoded_public_key_to_cryptography
    from webauthn.helpers.exceptions import WebAuthnException

    try:
        decoded = decode_credential_public_key(cose)
        key = decoded_public_key_to_cryptography(decoded)
    except (WebAuthnException, UnsupportedAlgorithm, ValueError, LookupError, TypeError, RecursionError) as error:
        raise MalformedResponse("the public key cannot be read") from error
    if decoded.alg == ES256 and isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return lambda signature, data: key.verify(signature, data, _ECDSA)
    if decoded.alg == EDDSA and isinstance(key, Ed25519PublicKey):
        return key.verify
    if decoded.alg == RS256 and isinstance(key, RSAPublicKey) and key.key_size >= _SMALLEST_RSA:
        return lambda signature, data: key.verify(signature, data, _PKCS1, _SHA256)
    raise MalformedResponse("the public key is of a kind that is not taken")


_OBJECT_CHARS: Final = 65_536
_CLIENT_CHARS: Final = 16_384
_ID_BYTES: Final = 1_023
_TRANSPORTS: Final = frozenset({"usb", "nfc", "ble", "hybrid", "internal", "smart-card", "cable"})
# WebAuthn §8.2.1: where a maker's certificate says which model it is for, as an OCTET STRING of 16 bytes.
_MODEL: Final = x509.ObjectIdentifier("1.3.6.1.4.1.45724.1.1.4")
_OCTETS_16: Final = b"\x04\x10"


class RegistrationResponse(msgspec.Struct, frozen=True):
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


def read_registration(response: object) -> RegistrationResponse:
    """Decode what the browser answered; Malformed for every other shape."""
    inner = response.get("response") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(inner, dict):
        raise MalformedResponse("not a registration response")
    client_data = _bytes(inner, "clientDataJSON", _CLIENT_CHARS)
    transports = inner.get("transports")
    listed = transports if isinstance(transports, list) else []
    known = [one for one in listed[:16] if isinstance(one, str) and one in _TRANSPORTS]
    try:
        challenge = from_base64url(read_client_data(client_data).challenge)
    except ValueError:
        raise MalformedResponse("the challenge is not base64url") from None
    return RegistrationResponse(
        whole=response,
        client_data=client_data,
        attestation_object=_bytes(inner, "attestationObject", _OBJECT_CHARS),
        challenge=challenge,
        transports=tuple(dict.fromkeys("hybrid" if one == "cable" else one for one in known)),
    )


def _bytes(holder: Mapping[str, Any], name: str, most: int) -> bytes:
    value = holder.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise MalformedResponse(f"{name} is missing or too long")
    try:
        return from_base64url(value)
    except ValueError:
        raise MalformedResponse(f"{name} is not base64url") from None


def check_registration(
    answer: RegistrationResponse, challenge: bytes, party: RelyingParty, policy: Attestation
) -> Registered:
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
    except (MalformedResponse, NotVerified):
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


def _plain(answer: RegistrationResponse) -> dict[str, Any]:
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
