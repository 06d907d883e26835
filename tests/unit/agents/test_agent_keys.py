"""Keys of agents: what is taken as one, what it may be used with, and that it has one name."""

import base64

import pytest

from callgate.agents.keys import ALGORITHMS, PublicKey, public_jwk, thumbprint
from callgate.errors import Reason, Refused
from support.signed_requests import private, public
from support.table import rows

ED = public_jwk(private().public_key())
EC = public_jwk(private("p256").public_key())
RSA = public_jwk(private("rsa").public_key())
TAKEN = frozenset(ALGORITHMS)


@rows(
    ("jwk", "alg", "algorithms"),
    [
        (ED, None, ("ed25519",)),
        (ED, "EdDSA", ("ed25519",)),
        (ED, "Ed25519", ("ed25519",)),
        (EC, None, ("ecdsa-p256-sha256",)),
        (EC, "ES256", ("ecdsa-p256-sha256",)),
        (RSA, None, ("rsa-pss-sha512", "rsa-pss-sha256")),
        (RSA, "PS512", ("rsa-pss-sha512",)),
        (RSA, "PS256", ("rsa-pss-sha256",)),
    ],
)
def test_what_a_key_may_be_used_with(jwk, alg, algorithms):
    key = PublicKey.read(jwk if alg is None else {**jwk, "alg": alg, "use": "sig", "key_ops": ["verify"]})
    assert key.algorithms == algorithms
    assert key.thumbprint == thumbprint(jwk)
    assert key.algorithm(None, TAKEN) == algorithms[0]


@rows(
    "jwk",
    [
        {},
        {"kty": "oct", "k": "AAAA"},
        {"kty": ["OKP"]},
        {**ED, "crv": "X25519"},
        {**ED, "crv": "Ed448"},
        {**ED, "x": ED["x"][:-1]},
        {**ED, "x": ED["x"] + "="},
        {**ED, "x": ED["x"][:-1] + "$"},
        {**ED, "x": 7},
        {**ED, "x": ""},
        {**ED, "d": "AAAA"},
        {**ED, "use": "enc"},
        {**ED, "key_ops": ["sign"]},
        {**ED, "key_ops": "verify"},
        {**ED, "alg": "HS256"},
        {**ED, "alg": "none"},
        {**ED, "alg": 1},
        {**ED, "nbf": "now"},
        {**ED, "exp": 1.5},
        {**ED, "exp": True},
        {**EC, "alg": "ES384"},
        {**EC, "crv": "P-384"},
        {**EC, "y": EC["x"]},
        {**EC, "x": "A" * 43, "y": "A" * 43},
        {**RSA, "alg": "RS256"},
        {**RSA, "e": "Aw"},
        {**RSA, "e": "AQAA"},
        {**RSA, "n": RSA["n"][:100]},
        {**RSA, "n": "A" * 3000},
        {"kty": "RSA", "e": "AQAB"},
    ],
)
def test_what_is_no_key_for_signatures(jwk):
    with pytest.raises(Refused) as caught:
        PublicKey.read(jwk)
    assert caught.value.reason is Reason.UNSUPPORTED_ALG


def test_only_an_object_is_a_key():
    for thing in (None, [], "x", 1):
        with pytest.raises(Refused):
            PublicKey.read(thing)
        with pytest.raises(Refused):
            thumbprint(thing)


@rows("last", [0x00, 0x80])
@rows("first", [0x00, 0x01])
def test_points_that_verify_anything_are_no_keys(first, last):
    raw = bytes([first]) + bytes(30) + bytes([last])
    with pytest.raises(Refused):
        PublicKey.read({**ED, "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()})


@rows("kind", ["ed25519", "p256", "rsa"])
def test_a_message_cannot_choose_what_its_key_is_not_for(kind):
    key = public(kind)
    for named in {*ALGORITHMS, "hmac-sha256", "none", ""} - set(key.algorithms):
        with pytest.raises(Refused) as caught:
            key.algorithm(named, TAKEN)
        assert caught.value.reason is Reason.UNSUPPORTED_ALG
    with pytest.raises(Refused):
        key.algorithm(None, frozenset())


def test_a_key_does_not_show_itself_in_a_log():
    assert "public" not in repr(public())
