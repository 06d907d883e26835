"""Name another algorithm than the key is for: the public key as an HMAC secret, another curve, none at all."""

import base64
import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

from callgate.agents.keys import ALGORITHMS, PublicKey
from callgate.agents.verifying import SignedMessage, inputs, signature_base
from callgate.errors import Refused
from support.registry import requirement
from support.signed_requests import adding, private, public, refusal, request, sign, terms, verify
from support.table import rows

KINDS = ["ed25519", "p256", "rsa"]


def forged(kind, alg, make):
    """A request with a signature that `make` computes from the base."""
    text = f'("@authority"){terms(public(kind), alg=alg)}'
    base = signature_base(inputs(f"sig1={text}".encode())["sig1"], SignedMessage(request()))
    value = base64.b64encode(make(base)).decode()
    return adding(request(), {"signature-input": f"sig1={text}", "signature": f"sig1=:{value}:"})


def spellings(kind):
    """The public key in every form that could be mistaken for a shared secret."""
    key = private(kind).public_key()
    yield key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    yield key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    yield "".join(public(kind).jwk.values()).encode()
    yield b""


@rows("alg", ["hmac-sha256", None, "ed25519", "ecdsa-p256-sha256", "rsa-pss-sha512"])
@rows("kind", KINDS)
@requirement("WB-061")
async def test_the_public_key_as_a_shared_secret(kind, alg):
    for secret in spellings(kind):
        signed = forged(kind, alg, lambda base, secret=secret: hmac.new(secret, base, hashlib.sha256).digest())
        status, reason = await refusal(signed, keys=[public(kind)])
        assert (status, reason) in {(400, "unsupported_alg"), (401, "signature_invalid")}
        assert alg != "hmac-sha256" or reason == "unsupported_alg"


@rows("kind", KINDS)
@rows("alg", [*ALGORITHMS, "hmac-sha256", "none", "rsa-v1_5-sha256", "ecdsa-p384-sha384"])
@requirement("WB-061")
async def test_only_the_algorithm_of_the_key_is_taken(kind, alg):
    signed = sign(request(), kind=kind, alg=alg)
    own = public(kind).algorithms[0]
    if alg == own:
        assert (await verify(signed, keys=[public(kind)])).algorithm == own
    elif alg in public(kind).algorithms:
        # RSA-PSS with SHA-256 named, and SHA-512 used.
        assert await refusal(signed, keys=[public(kind)], rsa_pss_sha256=True) == (401, "signature_invalid")
    else:
        assert await refusal(signed, keys=[public(kind)], rsa_pss_sha256=True) == (400, "unsupported_alg")


@requirement("WB-061")
async def test_older_paddings_of_rsa_are_not_taken():
    def pkcs1(base):
        return private("rsa").sign(base, padding.PKCS1v15(), hashes.SHA256())

    def short_salt(base):
        return private("rsa").sign(base, padding.PSS(padding.MGF1(hashes.SHA512()), 0), hashes.SHA512())

    def other_mask(base):
        return private("rsa").sign(base, padding.PSS(padding.MGF1(hashes.SHA1()), 64), hashes.SHA512())

    for make in (pkcs1, short_salt, other_mask):
        for alg in (None, "rsa-pss-sha512"):
            assert await refusal(forged("rsa", alg, make), keys=[public("rsa")]) == (401, "signature_invalid")


def test_a_shared_secret_is_no_key():
    for jwk in (
        {"kty": "oct", "k": "AAAA"},
        {"kty": "oct", "k": "AAAA", "alg": "HS256", "crv": "Ed25519", "x": "AAAA"},
    ):
        with pytest.raises(Refused):
            PublicKey.read(jwk)


async def test_an_empty_signature_is_none():
    signed = forged("ed25519", None, lambda base: b"")
    assert await refusal(signed) == (400, "signature_malformed")
    for zero in (b"\0" * 64, b"\0"):
        for kind in KINDS:
            assert await refusal(forged(kind, None, lambda base, zero=zero: zero), keys=[public(kind)]) == (
                401,
                "signature_invalid",
            )
