"""A passkey's signature over a challenge (WebAuthn Level 3 §7.2), as the evidence of SEP-2672 §4.5 carries it.

The `webauthn` package reads the stored public keys. What is checked on every call is written out here, because that
package leaves out crossOrigin and topOrigin, judges the counter before the signature, and parses the key each time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from callgate.approval.encoding import from_base64url, to_base64url
from callgate.approval.model import Credential
from callgate.approval.party import RelyingParty

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


class Malformed(ValueError):
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


class Signed(msgspec.Struct, frozen=True):
    """What a signature that holds says."""

    counter: int
    backup_eligible: bool
    backed_up: bool
    origin: str


def read_assertion(response: Mapping[str, Any]) -> Assertion:
    """Decode an authenticator's answer; Malformed for every other shape."""
    try:
        answer = msgspec.convert(response, _Answer)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Malformed(str(error)) from None
    if answer.type != "public-key" or not answer.id.isascii() or not answer.raw_id.isascii():
        raise Malformed("type is not public-key, or id and rawId are not base64url")
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
        raise Malformed("clientDataJSON, authenticatorData, signature or userHandle is not base64url") from None


def check_assertion(
    assertion: Assertion,
    challenge: bytes,
    credential: Credential,
    party: RelyingParty,
    *,
    handle_needed: bool = False,
    origin: str = "",
) -> Signed:
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
    return Signed(counter, bool(flags & _BE), bool(flags & _BS), client.origin)


def _check_client_data(raw: bytes, challenge: bytes, party: RelyingParty) -> ClientData:
    try:
        client = read_client_data(raw)
    except Malformed as error:
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
        raise Malformed("clientDataJSON cannot be read") from None


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
        raise Malformed("the public key cannot be read") from error
    if decoded.alg == ES256 and isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return lambda signature, data: key.verify(signature, data, _ECDSA)
    if decoded.alg == EDDSA and isinstance(key, Ed25519PublicKey):
        return key.verify
    if decoded.alg == RS256 and isinstance(key, RSAPublicKey) and key.key_size >= _SMALLEST_RSA:
        return lambda signature, data: key.verify(signature, data, _PKCS1, _SHA256)
    raise Malformed("the public key is of a kind that is not taken")
