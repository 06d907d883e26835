"""A passkey's signature over a challenge (WebAuthn Level 3 §7.2), as the evidence of SEP-2672 §4.5 carries it.

The `webauthn` package reads the stored public keys. What is checked on every call is written out here, because that
package leaves out crossOrigin and topOrigin, judges the counter before the signature, and parses the key each time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from webauthn.helpers import decode_credential_public_key, decoded_public_key_to_cryptography
from webauthn.helpers.exceptions import WebAuthnException

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
_FIELD_CHARS: Final = 16_384
_ID_CHARS: Final = 2_048
_SMALLEST_RSA: Final = 2048
_ECDSA: Final = ECDSA(SHA256())
_PKCS1: Final = PKCS1v15()
_SHA256: Final = SHA256()

Verify: TypeAlias = Callable[[bytes, bytes], None]


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
    inner = response.get("response")
    if not isinstance(inner, dict) or response.get("type", "public-key") != "public-key":
        raise Malformed("not an authentication response")
    key = _text(response, "id", _ID_CHARS)
    handle = inner.get("userHandle")
    attachment = response.get("authenticatorAttachment")
    return Assertion(
        id=key,
        raw_id=_text(response, "rawId", _ID_CHARS) if "rawId" in response else key,
        client_data=_bytes(inner, "clientDataJSON"),
        authenticator_data=_bytes(inner, "authenticatorData"),
        signature=_bytes(inner, "signature"),
        user_handle=None if handle is None or handle == "" else _bytes(inner, "userHandle"),
        attachment=attachment[:32] if isinstance(attachment, str) else None,
    )


def _text(holder: Mapping[str, Any], name: str, most: int) -> str:
    value = holder.get(name)
    if not isinstance(value, str) or not value or len(value) > most or not value.isascii():
        raise Malformed(f"{name} is missing or no text of that kind")
    return value.rstrip("=")


def _bytes(holder: Mapping[str, Any], name: str) -> bytes:
    try:
        return from_base64url(_text(holder, name, _FIELD_CHARS))
    except ValueError:
        raise Malformed(f"{name} is not base64url") from None


def check_assertion(
    assertion: Assertion, challenge: bytes, credential: Credential, party: RelyingParty, *, handle_needed: bool = False
) -> Signed:
    """Step 10 of SEP-2672 §4.8: type, challenge, origin, frame, relying party, presence, verification, signature."""
    if assertion.raw_id != assertion.id or assertion.id != credential.id:
        raise NotVerified("id and rawId name different credentials")
    client = _check_client_data(assertion.client_data, "webauthn.get", challenge, party)
    data = assertion.authenticator_data
    flags = check_flags(data, party)
    if not flags & (_AT | _ED) and len(data) != _DATA_BYTES:
        raise NotVerified("authenticator data has bytes that nothing announces")
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


def _check_client_data(raw: bytes, kind: str, challenge: bytes, party: RelyingParty) -> ClientData:
    try:
        client = _client_data(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotVerified("clientDataJSON cannot be read") from None
    if client.type != kind:
        raise NotVerified("the signature was made for something else than an approval")
    if not hmac.compare_digest(client.challenge.rstrip("=").encode(), to_base64url(challenge).encode()):
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


def read_client_data(raw: bytes) -> ClientData:
    """What a registration was made for; Malformed if it cannot be read."""
    try:
        return _client_data(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Malformed("clientDataJSON cannot be read") from None


def check_public_key(cose: bytes) -> None:
    """Refuse a key that could not be verified with later; Malformed says so."""
    _verifier(cose)


@lru_cache(maxsize=4096)
def _verifier(cose: bytes) -> Verify:
    """What verifies signatures of a stored key; kept, because reading a key costs as much as verifying with it."""
    try:
        decoded = decode_credential_public_key(cose)
        key = decoded_public_key_to_cryptography(decoded)
    except (WebAuthnException, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed("the public key cannot be read") from error
    if decoded.alg == ES256 and isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return lambda signature, data: key.verify(signature, data, _ECDSA)
    if decoded.alg == EDDSA and isinstance(key, Ed25519PublicKey):
        return key.verify
    if decoded.alg == RS256 and isinstance(key, RSAPublicKey) and key.key_size >= _SMALLEST_RSA:
        return lambda signature, data: key.verify(signature, data, _PKCS1, _SHA256)
    raise Malformed("the public key is of a kind that is not taken")
