"""Key sets: which keys count, under which name, and what is left out with a reason."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from callgate.agents.keys import (
    MAX_BYTES,
    MAX_KEYS,
    BadKeys,
    key_set,
    public_jwk,
    read_key,
    read_keys,
    strict_json,
    usable,
)
from support.registry import requirement
from support.signed_requests import private
from support.table import rows

URL = "https://a.example/.well-known/http-message-signatures-directory"
# RFC 8037 appendix A.2 and its thumbprint in A.3.
RFC8037 = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
RFC8037_NAME = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
# RFC 7638 §3.1.
RFC7638 = {
    "kty": "RSA",
    "n": (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMs"
        "tn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajr"
        "n1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    ),
    "e": "AQAB",
    "alg": "RS256",
    "kid": "2011-04-29",
}
RFC7638_NAME = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def ed(which=0, **more):
    return public_jwk(private("ed25519", which).public_key()) | more


@requirement("WB-004")
def test_keys_are_found_by_the_thumbprint_of_the_rfcs():
    rsa_key = {name: value for name, value in RFC7638.items() if name != "alg"}
    found = read_keys(json.dumps({"keys": [RFC8037, rsa_key]}).encode(), URL)
    assert set(found.keys) == {RFC8037_NAME, RFC7638_NAME}
    assert found.find(RFC8037_NAME).directory == URL
    assert found.find(RFC8037_NAME[:-1]) is None


def test_what_a_key_calls_itself_makes_no_difference_to_its_name():
    assert read_key({**RFC8037, "kid": "other", "use": "sig", "x5c": ["x"]}, URL).thumbprint == RFC8037_NAME


@requirement("WB-005")
def test_a_kid_finds_its_key_only_where_that_is_asked_for():
    found = key_set([ed(kid="old-name")], URL)
    assert found.find("old-name") is None
    assert found.find("old-name", by_kid=True) is not None
    assert found.find("", by_kid=True) is None


def test_a_kid_that_two_keys_have_finds_neither():
    found = key_set([ed(0, kid="same"), ed(1, kid="same")], URL)
    assert len(found.keys) == 2
    assert found.find("same", by_kid=True) is None


def test_a_thumbprint_wins_over_a_kid_that_looks_like_it():
    honest, posing = key_set([ed(0)], URL).keys, key_set([ed(1)], URL).keys
    (name,) = honest
    found = key_set([ed(1, kid=name), ed(0)], URL)
    assert found.find(name, by_kid=True).thumbprint == name
    assert posing.keys() <= found.keys.keys()


@rows(
    "jwk",
    [
        pytest.param({**RFC7638}, id="RS256 is no algorithm of message signatures"),
        pytest.param({**RFC8037, "use": "enc"}, id="for encryption"),
        pytest.param({**RFC8037, "key_ops": ["sign"]}, id="not for verifying"),
        pytest.param({**RFC8037, "alg": "ES256"}, id="algorithm of another kind of key"),
        pytest.param({**RFC8037, "alg": 7}, id="algorithm no text"),
        pytest.param({**RFC8037, "nbf": "now"}, id="nbf no number"),
        pytest.param({**RFC8037, "exp": 1.5}, id="exp no whole number"),
        pytest.param({**RFC8037, "exp": True}, id="exp true"),
        pytest.param({**RFC8037, "kid": "k" * 257}, id="kid endless"),
        pytest.param({**RFC8037, "kid": 7}, id="kid no text"),
        pytest.param({**RFC8037, "x": RFC8037["x"] + "="}, id="padded"),
        pytest.param({**RFC8037, "x": RFC8037["x"][:-1] + "p"}, id="spare bits set: another name for the same key"),
        pytest.param({**RFC8037, "x": RFC8037["x"][:-2]}, id="too short"),
        pytest.param({**RFC8037, "crv": "X25519"}, id="no curve for signatures"),
        pytest.param({**RFC8037, "crv": "Ed448"}, id="curve not used here"),
        pytest.param({"kty": "oct", "k": "c2VjcmV0"}, id="shared secret"),
        pytest.param({"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}, id="curve P-384"),
        pytest.param({"kty": "EC", "crv": "P-256", "x": RFC8037["x"], "y": RFC8037["x"]}, id="no point of the curve"),
        pytest.param({"kty": ["OKP"]}, id="kty a list"),
        pytest.param({}, id="nothing"),
        pytest.param("key", id="no object"),
    ],
)
def test_a_key_that_does_not_count_is_left_out_and_spoils_no_other(jwk):
    found = key_set([jwk, ed()], URL)
    assert len(found.keys) == 1
    assert len(found.left_out) == 1
    assert found.left_out[0].startswith("key 0: ")


@rows("bits", [1024, 2047])
def test_a_short_rsa_key_is_left_out(bits):
    public = rsa.RSAPublicNumbers(65537, (1 << bits) - 1)
    n = base64.urlsafe_b64encode(public.n.to_bytes((bits + 7) // 8)).rstrip(b"=").decode()
    assert not key_set([{"kty": "RSA", "n": n, "e": "AQAB"}], URL).keys


def test_a_number_with_zeroes_in_front_would_be_a_second_name():
    jwk = public_jwk(private("rsa").public_key())
    raw = base64.urlsafe_b64decode(jwk["n"] + "==")
    padded = {**jwk, "n": base64.urlsafe_b64encode(b"\0" + raw).rstrip(b"=").decode()}
    assert len(key_set([jwk], URL).keys) == 1
    assert not key_set([padded], URL).keys


def test_p256_and_rsa_keys_count():
    point = public_jwk(ec.generate_private_key(ec.SECP256R1()).public_key())
    found = key_set([point, public_jwk(private("rsa").public_key()) | {"alg": "PS512"}], URL)
    assert sorted(key.algorithms[0] for key in found.keys.values()) == ["ecdsa-p256-sha256", "rsa-pss-sha512"]


def test_a_key_counts_from_nbf_on_and_before_exp():
    key = read_key(ed(nbf=100, exp=200), URL)
    assert [usable(key, now) for now in (99.9, 100, 199.9, 200)] == [False, True, True, False]
    assert usable(read_key(ed(), URL), 0)


def test_a_key_listed_twice_counts_once():
    found = key_set([ed(), ed(kid="again")], URL)
    assert len(found.keys) == 1
    assert "twice" in found.left_out[0]


@rows(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[],"keys":[]}',
        b'{"keys":[{"kty":"OKP","kty":"RSA"}]}',
        b'{"keys":[NaN]}',
        b'\xff{"keys":[]}',
        b'{"keys":' + b"[" * 100_000,
        b'{"keys":[]} ' + b" " * MAX_BYTES,
        json.dumps({"keys": [{}] * (MAX_KEYS + 1)}).encode(),
        b'{"keys":[' + b"9" * 5000 + b"]}",
    ],
)
def test_a_document_that_is_no_key_set_is_refused_whole(raw):
    with pytest.raises(BadKeys):
        read_keys(raw, URL)


def test_as_many_keys_as_allowed_are_read():
    assert len(key_set([ed(which) for which in range(MAX_KEYS)], URL).keys) == MAX_KEYS


def test_strict_json_reads_what_is_json():
    assert strict_json(b'{"a":[1,null,"\xc3\xa9"]}') == {"a": [1, None, "é"]}
