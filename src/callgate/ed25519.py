"""Public keys of Ed25519 (RFC 8032) that are safe to verify with."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_PRIME: Final = 2**255 - 19
# The y of the points of small order, whose signatures anybody can make up.
_SMALL: Final = frozenset(
    {
        0,
        1,
        _PRIME - 1,
        int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
        int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"),
    }
)


def public_key(raw: bytes) -> Ed25519PublicKey:
    """The key in these bytes; ValueError for another length, a point of small order, or a second spelling of a point
    (RFC 8032 §5.1.3)."""
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if len(raw) != _KEY_BYTES or y >= _PRIME or y in _SMALL:
        raise ValueError("no point of Ed25519 to verify with")
    return Ed25519PublicKey.from_public_bytes(raw)


def verifies(raw: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the key in these bytes has signed the message; the signature has one spelling only (RFC 8032 §5.1.7)."""
    try:
        if len(signature) != _SIGNATURE_BYTES:
            return False
        public_key(raw).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
