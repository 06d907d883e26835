"""Signed requests for the load generator: each call with a signature, a nonce and a digest of its own."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from callgate.agents.model import Signed
from callgate.agents.signing import Signer


def signer(seed: str) -> Signer:
    """An agent by the seed of its key, in hex."""
    return Signer(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)))


def signing(url: str, seed: str) -> Callable[[bytes], dict[str, str]]:
    """What gives the headers for a body that is posted there; nothing where there is no key."""
    if not seed:
        return lambda _: {}
    by, parts = signer(seed), urlsplit(url)
    return lambda body: by.sign(Signed("POST", parts.scheme, parts.netloc, parts.path, None, (), body))
