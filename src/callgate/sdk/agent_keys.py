"""Keys of agents in files: private ones to sign with, public ones to check with, as PEM or JWK."""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from callgate.agents.keys import public_jwk, thumbprint
from callgate.agents.signing import PrivateKey, Signer
from callgate.errors import ConfigError, Refused
from callgate.files import write_new

Kind: TypeAlias = Literal["ed25519", "p256"]
Form: TypeAlias = Literal["pem", "jwk"]

MAX_FILE: Final = 256 * 1024
_KEYGEN: Final = "Make one with `callgate agents keygen`."


class AgentKey:
    """The private key of an agent. It is never printed; `jwk` is its public half."""

    def __init__(self, private: PrivateKey) -> None:
        try:
            self.jwk: Mapping[str, str] = public_jwk(private.public_key())
        except Refused as refused:
            raise ConfigError(refused.message, advice=_KEYGEN) from None
        self.private = private
        self.thumbprint = thumbprint(self.jwk)

    def __repr__(self) -> str:
        return f"AgentKey({self.thumbprint})"

    @classmethod
    def generate(cls, kind: Kind = "ed25519") -> AgentKey:
        if kind == "p256":
            return cls(ec.generate_private_key(ec.SECP256R1()))
        return cls(ed25519.Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> AgentKey:
        """From a file with a private key: PEM (PKCS#8, without a password) or JWK."""
        raw = read_file(Path(path))
        private = _private_pem(raw) if _is_pem(raw) else _private_jwk(_json(raw, Path(path)))
        if private is None:
            raise ConfigError(f"{path} holds no private key that signs requests", advice=_KEYGEN)
        return cls(private)

    def write(self, path: str | os.PathLike[str], form: Form = "pem") -> None:
        """To a new file that only its owner can read. A file that is there is never replaced."""
        place = Path(path)
        text = self._pem() if form == "pem" else json.dumps(self._private_jwk(), indent=2).encode() + b"\n"
        try:
            write_new(place, text)
        except FileExistsError:
            raise ConfigError(f"{place} is there already", advice="Name another file; keys are not replaced.") from None
        except OSError as error:
            raise ConfigError(f"{place} cannot be written: {error.strerror}", advice="Name another file.") from None

    def signer(self, directory: str | None = None, *, label: str = "sig1") -> Signer:
        """What signs with this key; `directory` is where its public half is published, such as an https origin."""
        return Signer(self.private, directory, label=label)

    def _pem(self) -> bytes:
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def _private_jwk(self) -> dict[str, str]:
        if isinstance(self.private, ed25519.Ed25519PrivateKey):
            raw = self.private.private_bytes_raw()
        elif isinstance(self.private, ec.EllipticCurvePrivateKey):
            raw = self.private.private_numbers().private_value.to_bytes(32, "big")
        else:
            raise ConfigError("RSA keys are written as PEM", advice="Leave the format out.")
        return {**self.jwk, "d": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}


def read_public(path: Path) -> list[dict[str, Any]]:
    """Public keys of a file: PEM, a JWK, or a directory of them. Of a private key only the public half is taken."""
    raw = read_file(path)
    if _is_pem(raw):
        private = _private_pem(raw)
        public = _public_pem(raw) if private is None else private.public_key()
        try:
            return [dict(public_jwk(public))]
        except Refused as refused:
            raise ConfigError(f"{path}: {refused.message}", advice=_KEYGEN) from None
    found = _json(raw, path)
    keys = found.get("keys", [found])
    if not isinstance(keys, list) or not all(isinstance(one, dict) for one in keys):
        raise ConfigError(f"{path} is neither a key nor a directory of keys", advice=_KEYGEN)
    return [_public_key(one) for one in keys]


def read_file(path: Path) -> bytes:
    """A file of a bounded size."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not stat.S_ISFIFO(path.stat().st_mode):
            raise ConfigError(f"{path} is no file", advice="Name a file.")
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", advice="Name another file.") from None
    if len(raw) > MAX_FILE:
        raise ConfigError(f"{path} is larger than any key", advice="Name another file.")
    return raw


def _public_key(jwk: Mapping[str, Any]) -> dict[str, Any]:
    private = _private_jwk(jwk) if "d" in jwk else None
    return dict(jwk) if private is None else dict(public_jwk(private.public_key()))


def _is_pem(raw: bytes) -> bool:
    return raw.lstrip().startswith(b"-----BEGIN ")


def _private_pem(raw: bytes) -> PrivateKey | None:
    if b"PRIVATE KEY-----" not in raw:
        return None
    try:
        key = serialization.load_pem_private_key(raw, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        text = "the private key cannot be read; it has to be PEM without a password"
        raise ConfigError(text, advice=_KEYGEN) from None
    if isinstance(key, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        return key
    return None


def _public_pem(raw: bytes) -> Any:
    try:
        return serialization.load_pem_public_key(raw)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError("the public key cannot be read", advice=_KEYGEN) from None


def _private_jwk(jwk: Mapping[str, Any]) -> PrivateKey | None:
    """Ed25519 and P-256; the rest is for PEM."""
    kind = jwk.get("kty"), jwk.get("crv")
    text = jwk.get("d")
    if kind not in {("OKP", "Ed25519"), ("EC", "P-256")} or not isinstance(text, str):
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        made: PrivateKey = (
            ed25519.Ed25519PrivateKey.from_private_bytes(raw)
            if kind[0] == "OKP"
            else ec.derive_private_key(int.from_bytes(raw, "big"), ec.SECP256R1())
        )
    except (ValueError, binascii.Error):
        return None
    # A file whose halves do not belong together would sign what nobody can verify.
    return made if thumbprint(public_jwk(made.public_key())) == thumbprint(jwk) else None


def _json(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is neither PEM nor JSON", advice=_KEYGEN)
    return found
