"""An authenticator made of software, for tests: it signs whatever it is given and asks nobody."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from callgate.approval.action import from_base64url, to_base64url
from callgate.sdk.authenticators import NoPasskey

if TYPE_CHECKING:
    from callgate.sdk.authenticators import CreationPrompt, Prompt

log = logging.getLogger("callgate.sdk")

Algorithm: TypeAlias = Literal["ES256", "EdDSA", "RS256"]
Key: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

# COSE algorithm numbers, RFC 9053 §2 and RFC 8812 §2.
ALGORITHMS: Final[Mapping[Algorithm, int]] = {"ES256": -7, "EdDSA": -8, "RS256": -257}

# WebAuthn L3 §6.1, flags of the authenticator data.
_UP, _UV, _BE, _BS, _AT = 0x01, 0x04, 0x08, 0x10, 0x40


class Bend(TypedDict, total=False):
    """What an answer can be made to say that an honest authenticator and browser would not."""

    origin: str
    type: str
    cross_origin: bool
    top_origin: str
    client_data: Mapping[str, Any]  # merged into clientDataJSON
    challenge: bytes  # signed instead of the one asked for
    rp_id: str
    uv: bool
    up: bool
    backup_eligible: bool
    backed_up: bool
    counter: int
    user_handle: bytes | None  # None leaves it out
    # get: one of ours is used even where allowCredentials does not list it, any other id is only claimed.
    # create: the id the new passkey gets.
    credential_id: str
    tamper_signature: bool
    ignore_exclude: bool


@dataclass
class Passkey:
    """A private key in memory, and how often it signed."""

    id: bytes
    rp_id: str
    handle: bytes
    key: Key
    counter: int = 0


class SoftwareAuthenticator:
    """UNSAFE: a passkey that any program with this object can use. For tests only.

    It proves nothing about a person: there is no gesture, and the private keys lie in the process's memory. It speaks
    the JSON forms of WebAuthn L3 §5.1.9 and §5.1.10, and can be bent to lie in every way an attacker might (`Bend`).
    """

    def __init__(
        self,
        origin: str = "http://localhost",
        *,
        algorithm: Algorithm = "ES256",
        transports: Sequence[str] = ("usb",),
        counting: bool = True,
        uv: bool = True,
        up: bool = True,
        backup_eligible: bool = False,
        backed_up: bool = False,
        aaguid: bytes = bytes(16),
        maker: tuple[Key, Sequence[bytes]] | None = None,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`maker` is an attestation key with its DER certificates, leaf first: `packed` attestation is then signed by
        it instead of by the new passkey itself.
        """
        self.origin = origin
        self.algorithm: Algorithm = algorithm
        self.transports = tuple(transports)
        self.counting = counting
        self.uv = uv
        self.up = up
        self.backup_eligible = backup_eligible
        self.backed_up = backed_up
        self.aaguid = aaguid
        self.maker = maker
        self.passkeys: list[Passkey] = []
        self._random = random

    def create(
        self, options: Mapping[str, Any], *, attestation: Literal["none", "packed"] = "none", **bend: Unpack[Bend]
    ) -> dict[str, Any]:
        """RegistrationResponseJSON for PublicKeyCredentialCreationOptionsJSON, without a question asked."""
        rp_id = str(options["rp"].get("id", "localhost"))
        self._check_creation(options, rp_id, bend)
        passkey = Passkey(
            id=from_base64url(bend["credential_id"]) if "credential_id" in bend else self._random(32),
            rp_id=rp_id,
            handle=from_base64url(options["user"]["id"]),
            key=_new_key(self.algorithm),
        )
        self.passkeys.append(passkey)
        cose = cbor2.dumps(_cose(passkey.key), canonical=True)
        attested = self.aaguid + len(passkey.id).to_bytes(2, "big") + passkey.id + cose
        data = self._authenticator_data(passkey, bend, attested)
        client = self._client_data("webauthn.create", options, bend)
        statement = self._statement(attestation, passkey, data, client, bend)
        public = passkey.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        response: dict[str, Any] = {
            "clientDataJSON": to_base64url(client),
            "attestationObject": to_base64url(
                cbor2.dumps({"fmt": attestation, "attStmt": statement, "authData": data}, canonical=True)
            ),
            "authenticatorData": to_base64url(data),
            "transports": list(self.transports),
            "publicKey": to_base64url(public),
            "publicKeyAlgorithm": ALGORITHMS[self.algorithm],
        }
        return self._envelope(to_base64url(passkey.id), response)

    def get(self, options: Mapping[str, Any], **bend: Unpack[Bend]) -> dict[str, Any]:
        """AuthenticationResponseJSON for PublicKeyCredentialRequestOptionsJSON, without a question asked."""
        passkey = self._pick(options, bend)
        data = self._authenticator_data(passkey, bend)
        client = self._client_data("webauthn.get", options, bend)
        signature = _sign(passkey.key, data + hashlib.sha256(client).digest(), bend)
        response: dict[str, Any] = {
            "clientDataJSON": to_base64url(client),
            "authenticatorData": to_base64url(data),
            "signature": to_base64url(signature),
        }
        handle = bend.get("user_handle", passkey.handle)
        if handle is not None:
            response["userHandle"] = to_base64url(handle)
        return self._envelope(bend.get("credential_id", to_base64url(passkey.id)), response)

    def _check_creation(self, options: Mapping[str, Any], rp_id: str, bend: Bend) -> None:
        offered = {one["alg"] for one in options["pubKeyCredParams"]}
        if ALGORITHMS[self.algorithm] not in offered:
            raise NoPasskey(f"the server takes no {self.algorithm} keys")
        excluded = {one["id"] for one in options.get("excludeCredentials", ())}
        held = {to_base64url(one.id) for one in self.passkeys if one.rp_id == rp_id}
        if not bend.get("ignore_exclude", False) and not excluded.isdisjoint(held):
            raise NoPasskey("this authenticator is enrolled already")

    def _pick(self, options: Mapping[str, Any], bend: Bend) -> Passkey:
        rp_id = options.get("rpId", "localhost")
        wanted = bend.get("credential_id")
        for one in self.passkeys:
            if wanted == to_base64url(one.id):
                return one
        allowed = [one["id"] for one in options.get("allowCredentials") or ()]
        for one in self.passkeys:
            if one.rp_id == rp_id and (not allowed or to_base64url(one.id) in allowed):
                return one
        if wanted is not None and self.passkeys:
            return self.passkeys[0]
        raise NoPasskey("this authenticator has none of the passkeys that the server takes")

    def _authenticator_data(self, passkey: Passkey, bend: Bend, attested: bytes = b"") -> bytes:
        if self.counting:
            passkey.counter += 1
        flags = (
            _UP * bend.get("up", self.up)
            | _UV * bend.get("uv", self.uv)
            | _BE * bend.get("backup_eligible", self.backup_eligible)
            | _BS * bend.get("backed_up", self.backed_up)
            | _AT * bool(attested)
        )
        rp_hash = hashlib.sha256(bend.get("rp_id", passkey.rp_id).encode()).digest()
        return rp_hash + bytes([flags]) + bend.get("counter", passkey.counter).to_bytes(4, "big") + attested

    def _client_data(self, kind: str, options: Mapping[str, Any], bend: Bend) -> bytes:
        challenge = to_base64url(bend["challenge"]) if "challenge" in bend else options["challenge"]
        said: dict[str, Any] = {
            "type": bend.get("type", kind),
            "challenge": challenge,
            "origin": bend.get("origin", self.origin),
            "crossOrigin": bend.get("cross_origin", False),
        }
        if "top_origin" in bend:
            said["topOrigin"] = bend["top_origin"]
        return json.dumps(said | dict(bend.get("client_data", {})), separators=(",", ":")).encode()

    def _statement(self, fmt: str, passkey: Passkey, data: bytes, client: bytes, bend: Bend) -> dict[str, Any]:
        """WebAuthn L3 §8.2 for `packed`, §8.7 for `none`."""
        if fmt == "none":
            return {}
        key, chain = self.maker if self.maker is not None else (passkey.key, ())
        signature = _sign(key, data + hashlib.sha256(client).digest(), bend)
        statement: dict[str, Any] = {"alg": ALGORITHMS[_algorithm(key)], "sig": signature}
        return statement | ({"x5c": list(chain)} if chain else {})

    def _envelope(self, credential_id: str, response: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": credential_id,
            "rawId": credential_id,
            "type": "public-key",
            "response": response,
            "authenticatorAttachment": "platform" if self.transports == ("internal",) else "cross-platform",
            "clientExtensionResults": {},
        }


class Unattended:
    """UNSAFE: a software authenticator in the place of a person. Nobody is asked; for tests only."""

    shows = False

    def __init__(self, software: SoftwareAuthenticator) -> None:
        self.software = software
        log.warning("a software authenticator approves calls: no person is asked")

    async def get(self, prompt: Prompt) -> dict[str, Any]:
        return self.software.get(prompt.request_options)

    async def create(self, prompt: CreationPrompt) -> dict[str, Any]:
        return self.software.create(prompt.creation_options)


def _new_key(algorithm: Algorithm) -> Key:
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def _algorithm(key: Key) -> Algorithm:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return "ES256"
    return "EdDSA" if isinstance(key, ed25519.Ed25519PrivateKey) else "RS256"


def _cose(key: Key) -> dict[int, Any]:
    """The public key as COSE_Key, RFC 9053 §7 and RFC 8230 §4."""
    alg = ALGORITHMS[_algorithm(key)]
    if isinstance(key, ec.EllipticCurvePrivateKey):
        point = key.public_key().public_numbers()
        return {1: 2, 3: alg, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return {1: 1, 3: alg, -1: 6, -2: key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)}
    numbers = key.public_key().public_numbers()
    return {1: 3, 3: alg, -1: numbers.n.to_bytes(256, "big"), -2: numbers.e.to_bytes(3, "big")}


def _sign(key: Key, message: bytes, bend: Bend) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        signature = key.sign(message, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(message)
    else:
        signature = key.sign(message, padding.PKCS1v15(), hashes.SHA256())
    if bend.get("tamper_signature", False):
        # The last byte is never part of the DER framing: what is tested is the signature, not a parser.
        signature = signature[:-1] + bytes([signature[-1] ^ 1])
    return signature
