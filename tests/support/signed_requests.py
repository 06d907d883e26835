"""Signed requests for tests: keys of all kinds, a signer that signs anything, a verifier over a few keys."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from callgate.agents.keys import ECDSA_P256, ED25519, RSA_PSS_512, PublicKey, public_jwk
from callgate.agents.model import Signed, Verified
from callgate.agents.signing import _SIGNERS
from callgate.agents.storage import NonceStore
from callgate.agents.verifying import SignedMessage, Verifier, VerifySettings, inputs, signature_base
from callgate.errors import Refused
from callgate.store.memory import MemoryAgents

NOW = 1_790_000_000
AGENT = "https://agent.example"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}'


@cache
def private(kind: str = "ed25519", which: int = 0) -> Any:
    """A private key; another `which` is another key."""
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.from_private_bytes(bytes([which + 1]) * 32)
    if kind == "p256":
        return ec.derive_private_key(0x1234567 + which, ec.SECP256R1())
    return rsa.generate_private_key(65537, 2048)


def public(kind: str = "ed25519", which: int = 0, directory: str = AGENT, **members: Any) -> PublicKey:
    return PublicKey.read(public_jwk(private(kind, which).public_key()) | members, directory)


def request(**changed: Any) -> Signed:
    """A call as it comes to a gateway; each part can be another."""
    parts: dict[str, Any] = {
        "method": "POST",
        "scheme": "https",
        "authority": "gate.example",
        "path": "/mcp",
        "query": None,
        "headers": ((b"host", b"gate.example"), (b"content-type", b"application/json")),
        "body": BODY,
    }
    return Signed(**(parts | changed))


def change(signed: Signed, **parts: Any) -> Signed:
    return Signed(**({name: getattr(signed, name) for name in Signed.__struct_fields__} | parts))


def adding(signed: Signed, headers: dict[str, str] | Sequence[tuple[str, str]]) -> Signed:
    """With more header lines; those of that name stay."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    return change(signed, headers=signed.headers + tuple((n.lower().encode(), v.encode()) for n, v in pairs))


def replacing(signed: Signed, name: str, edit: Callable[[bytes], bytes]) -> Signed:
    """With one header edited."""
    return change(signed, headers=tuple((n, edit(v) if n == name.encode() else v) for n, v in signed.headers))


def terms(key: PublicKey, **changed: Any) -> str:
    """The parameters of a good signature, as text; None leaves one out, and text that starts with `=` goes in as it is."""
    params: dict[str, Any] = {
        "created": NOW,
        "expires": NOW + 60,
        "keyid": key.thumbprint,
        "alg": key.algorithms[0],
        "nonce": "n-1",
        "tag": "web-bot-auth",
    }
    params |= changed
    written = []
    for name, value in params.items():
        if value is None:
            continue
        if isinstance(value, str):
            written.append(f";{name}{value}" if value.startswith("=") else f';{name}="{value}"')
        else:
            written.append(f";{name}={value}")
    return "".join(written)


def sign(
    signed: Signed,
    covered: str = '"@method" "@authority" "@path"',
    *,
    kind: str = "ed25519",
    which: int = 0,
    label: str = "sig1",
    algorithm: str = "",
    **changed: Any,
) -> Signed:
    """The request with a signature over whatever is named, whether that makes sense or not."""
    key = public(kind, which)
    text = f"({covered}){terms(key, **changed)}"
    given = inputs(f"{label}={text}".encode())[label]
    assert given is not None
    how = algorithm or {"ed25519": ED25519, "p256": ECDSA_P256, "rsa": RSA_PSS_512}[kind]
    value = _SIGNERS[how](private(kind, which), signature_base(given, SignedMessage(signed)))
    return adding(signed, {"signature-input": f"{label}={text}", "signature": f"{label}=:{b64encode(value).decode()}:"})


class Found:
    """A lookup over keys that counts how often it is asked."""

    def __init__(self, *keys: PublicKey) -> None:
        self.keys = keys
        self.asked: list[tuple[str, str | None]] = []

    async def __call__(self, keyid: str, directory: str | None) -> PublicKey | None:
        self.asked.append((keyid, directory))
        return next((key for key in self.keys if keyid in {key.thumbprint, key.kid}), None)


async def verify(
    signed: Signed,
    *,
    keys: Sequence[PublicKey] = (),
    nonces: NonceStore | None = None,
    now: float = NOW,
    lookup: Found | None = None,
    **settings: Any,
) -> Verified:
    found = lookup or Found(*(keys or (public(),)))
    return await Verifier(VerifySettings(**settings), found, nonces or MemoryAgents(), lambda: now).verify(signed)


async def refusal(signed: Signed, **options: Any) -> tuple[int, str]:
    """Why it is refused, and with which status; a request that is let through is an error of the test."""
    with pytest.raises(Refused) as caught:
        await verify(signed, **options)
    assert caught.value.message
    assert caught.value.advice
    return caught.value.status, caught.value.reason.value
