"""The attacker has a token that says on whose behalf an agent acts, and uses it where it does not count."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey, OKPKey, RSAKey

from callgate.agents.kya import KyaPay, KyaPolicy, KyaSettings
from callgate.store.memory import MemoryAgents
from support.callers import Gate, Issuer, compact


@pytest.fixture
def issuer():
    return Issuer()


@pytest.fixture
def gate(issuer):
    verifier = KyaPay(KyaSettings({issuer.url: ""}, "seller-1"), issuer.fetch, MemoryAgents(), issuer.clock)
    return Gate(issuer.clock, kya=KyaPolicy("required", verifier))


async def refused(gate, token, agent=None):
    """Refused as it has to be; and an honest token still counts."""
    sent = (agent or gate.alice).send(b"", {"kyapay-token": token})
    return await gate.reason(sent) == (401, "kya_invalid")


async def works(gate, issuer):
    return (await gate.decide(gate.alice.send(b"", {"kyapay-token": issuer.kya(gate.alice, jti="honest")}))).ok


async def test_for_another_audience(gate, issuer):
    for audience in ("seller-2", ["seller-1", "seller-2"], "SELLER-1", "seller-1 ", "", None, {"seller-1": 1}):
        assert await refused(gate, issuer.kya(gate.alice, aud=audience)), audience
    assert await works(gate, issuer)


async def test_for_another_key(gate, issuer):
    stolen = issuer.kya(gate.alice)
    assert await refused(gate, stolen, gate.bob)
    assert await works(gate, issuer)
    assert (await gate.decide(gate.alice.send(b"", {"kyapay-token": stolen}))).ok


async def test_for_several_keys_or_none(gate, issuer):
    for confirmed in (
        {"jwk": [gate.alice.jwk]},
        {"jwks": {"keys": [gate.alice.jwk]}},
        {"kid": gate.alice.keyid},
        {"jkt": gate.alice.keyid},
        {"jwk": {**gate.alice.jwk, "x": gate.alice.jwk["x"] + "="}},
        {"jwk": {**gate.alice.jwk, "crv": "X25519"}},
        {"jwk": {**gate.alice.jwk, "kty": "oct"}},
        {"jwk": {"kid": gate.alice.keyid, **gate.bob.jwk}},
        gate.alice.jwk,
        {},
    ):
        assert await refused(gate, issuer.kya(gate.alice, cnf=confirmed)), confirmed
    assert await works(gate, issuer)


async def test_with_the_private_key_in_it(gate, issuer):
    raw = gate.alice.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    secret = urlsafe_b64encode(raw).rstrip(b"=").decode()
    for member in ("d", "p", "k", "oth"):
        assert await refused(gate, issuer.kya(gate.alice, cnf={"jwk": {**gate.alice.jwk, member: secret}})), member
    assert await works(gate, issuer)


async def test_with_no_algorithm_or_a_shared_secret(gate, issuer):
    claims = json.loads(_payload(issuer.kya(gate.alice)))
    published = issuer.documents[f"{issuer.url}/.well-known/jwks.json"]
    secrets = [b"", b"secret", published, issuer.key.as_pem(private=False), gate.alice.keyid.encode()]
    for alg in ("none", "None", "NONE", "", "HS256", "HS512", "RS256", "ES384", "Ed25519", "ES256K"):
        head = {"alg": alg, "kid": "k1", "typ": "kya+jwt"}
        assert await refused(gate, compact(head, claims, lambda _: b"")), alg
        for secret in secrets:
            assert await refused(
                gate, compact(head, claims, lambda signed, key=secret: hmac.digest(key, signed, "sha256"))
            )
    assert await works(gate, issuer)


async def test_with_another_algorithm_of_the_same_issuer(gate, issuer):
    rsa, edwards = RSAKey.generate_key(2048, {"kid": "r"}), OKPKey.generate_key("Ed25519", {"kid": "e"})
    issuer.publish(rsa.as_dict(private=False), edwards.as_dict(private=False))
    for alg, key in (("RS256", rsa), ("PS256", rsa), ("Ed25519", edwards)):
        assert await refused(gate, issuer.kya(gate.alice, {"alg": alg, "kid": key.kid}, key)), alg
    assert await works(gate, issuer)


async def test_signed_by_whoever_the_token_names(gate, issuer):
    mine = ECKey.generate_key("P-256", {"kid": "mine"})
    for header in (
        {"kid": "mine"},
        {"kid": "mine", "jwk": mine.as_dict(private=False)},
        {"kid": "mine", "jku": "https://evil.example/jwks"},
        {"kid": "k1"},
    ):
        assert await refused(gate, issuer.kya(gate.alice, header, mine)), header
    assert await works(gate, issuer)
    assert {url.split("/")[2] for url in issuer.fetched} == {"issuer.example"}


async def test_that_asks_to_be_read_otherwise(gate, issuer):
    for header in ({"crit": ["exp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}, {"b64": True}):
        assert await refused(gate, issuer.kya(gate.alice, header)), header
    assert await works(gate, issuer)


async def test_of_an_issuer_that_nobody_trusts_causes_no_fetch(gate, issuer):
    evil = Issuer("https://evil.example", issuer.clock)
    evil.documents.update(issuer.documents)
    for url in (
        evil.url,
        "https://issuer.example.evil.example",
        "https://issuer.example/",
        "http://issuer.example",
        "x",
    ):
        assert await refused(gate, evil.kya(gate.alice, iss=url)), url
    assert (issuer.fetched, evil.fetched) == ([], [])
    assert await works(gate, issuer)


async def test_used_again(gate, issuer):
    token = issuer.kya(gate.alice)
    assert (await gate.decide(gate.alice.send(b"", {"kyapay-token": token}))).ok
    for _ in range(3):
        assert await refused(gate, token)
    # Not by another spelling of its signature either: it is the jti that counts.
    assert await refused(gate, issuer.kya(gate.alice))
    issuer.clock.now += 299
    assert await refused(gate, token)
    issuer.clock.now += 30
    assert await refused(gate, token)


async def test_beside_a_second_one(gate, issuer):
    stolen, own = issuer.kya(gate.bob), issuer.kya(gate.alice, jti="own")
    for field in (f"{own}, {stolen}", f"{stolen},{own}", f"{own},{own}", f"{own};{stolen}", f"{own} {stolen}"):
        assert await refused(gate, field)
    assert await works(gate, issuer)


async def test_of_another_kind(gate, issuer):
    for kind in ("pay+jwt", "at+jwt", "JWT", "kya", "jwt+kya", "kya+jwt;x", None):
        assert await refused(gate, issuer.kya(gate.alice, {"typ": kind})), kind
    assert await works(gate, issuer)


def _payload(token):
    part = token.split(".")[1]
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))
