"""OAuth access tokens: issuer, audience, time, scope, and keys that are fetched with care."""

import hmac
import json

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa as rsa_of
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.util import int_to_base64

from callgate.agents.tokens import AGAIN, FRESH, Bearer, BearerSettings, metadata_url
from callgate.agents.tokens import Issuer as Trusted
from callgate.errors import ConfigError, Reason, Refused
from support.callers import Issuer, compact
from support.table import rows

RESOURCE = "https://gate.example/mcp"


@pytest.fixture
def issuer():
    return Issuer()


def bearer(issuer, **more):
    trusted = Trusted(issuer.url, more.pop("jwks_url", f"{issuer.url}/jwks"), **more.pop("trusted", {}))
    return Bearer(BearerSettings(RESOURCE, (trusted,), **more), issuer.fetch, issuer.clock)


async def why(gate, token, status=401):
    with pytest.raises(Refused) as refused:
        await gate.verify(token)
    assert (refused.value.reason, refused.value.status) == (Reason.CREDENTIALS_INVALID, status)
    assert token not in str(refused.value)
    return str(refused.value)


async def test_a_token_for_us_says_who_calls(issuer):
    caller = await bearer(issuer).verify(issuer.access(scope="a b"))
    assert (caller.id, caller.source, caller.key) == ("https://issuer.example#carol", "oauth", "carol")
    assert caller.claims["scope"] == "a b"


async def test_a_subject_cannot_take_an_agents_name(issuer):
    caller = await bearer(issuer).verify(issuer.access(sub="openai-chatgpt"))
    assert caller.id != "openai-chatgpt"


async def test_an_operators_name_for_a_client(issuer):
    gate = bearer(issuer, trusted={"clients": {"client-1": "helper"}, "agents": {"dora": "doer"}})
    assert (await gate.verify(issuer.access(client_id="client-1"))).id == "helper"
    assert (await gate.verify(issuer.access(azp="client-1"))).id == "helper"
    assert (await gate.verify(issuer.access(sub="dora"))).id == "doer"
    assert (await gate.verify(issuer.access(client_id="client-2"))).id.endswith("#carol")
    assert (await gate.verify(issuer.access(sub="client-1"))).id.endswith("#client-1")
    assert (await gate.verify(issuer.access(client_id="dora"))).id.endswith("#carol")


async def test_audiences(issuer):
    gate = bearer(issuer, audiences=("urn:gate",))
    for good in (RESOURCE, [RESOURCE, "x"], "urn:gate"):
        await gate.verify(issuer.access(aud=good))
    for bad in ("https://other.example", [], ["x"], {RESOURCE: 1}, 7, None, ..., RESOURCE + "/", [[RESOURCE]]):
        assert "somebody else" in await why(gate, issuer.access(aud=bad))


async def test_another_issuer_is_refused_before_any_fetch(issuer):
    gate = bearer(issuer)
    await why(gate, issuer.access(iss="https://evil.example"))
    await why(gate, issuer.access(iss=...))
    await why(gate, issuer.access(iss=issuer.url + "/"))
    assert issuer.fetched == []


async def test_times(issuer):
    gate, now = bearer(issuer, skew=5), int(issuer.clock())
    await gate.verify(issuer.access(exp=now + 1, nbf=now + 5, iat=now + 5))
    await gate.verify(issuer.access(exp=now + 0.5))
    for claims in (
        {"exp": now - 5},
        {"exp": ...},
        {"exp": None},
        {"exp": str(now + 9)},
        {"exp": True},
        {"exp": 1e300},
        {"nbf": now + 6},
        {"iat": now + 6},
        {"iat": "yesterday"},
        {"nbf": None},
    ):
        await why(gate, issuer.access(**claims))


async def test_scopes(issuer):
    gate = bearer(issuer, scopes=("tools:call",))
    await gate.verify(issuer.access(scope="x tools:call"))
    await gate.verify(issuer.access(scp=["tools:call"]))
    for claims in ({}, {"scope": "tools"}, {"scope": 7}, {"scp": "tools"}, {"scope": "tools:callx"}):
        assert "tools:call" in await why(gate, issuer.access(**claims), status=403)


async def test_a_token_for_something_else_is_no_access_token(issuer):
    gate = bearer(issuer)
    for good in ("JWT", "application/at+jwt", None):
        await gate.verify(issuer.access({"typ": good}))
    for bad in ("kya+jwt", "dpop+jwt", "logout+jwt", "id_token"):
        await why(gate, issuer.access({"typ": bad}))


async def test_symmetric_and_absent_algorithms(issuer):
    gate = bearer(issuer)
    claims = {"iss": issuer.url, "sub": "x", "aud": RESOURCE, "exp": int(issuer.clock()) + 60}
    public = issuer.key.as_pem(private=False)
    for alg in ("HS256", "none", "None", "nOnE", "", None, 7, ["ES256"]):
        head = {"alg": alg, "kid": "k1", "typ": "at+jwt"}
        await why(gate, compact(head, claims, lambda signed: hmac.digest(public, signed, "sha256")))
        await why(gate, compact(head, claims, lambda _: b""))
    with pytest.raises(ConfigError):
        bearer(issuer, trusted={"algorithms": ("HS256",)})
    with pytest.raises(ConfigError):
        bearer(issuer, trusted={"algorithms": ("none",)})


async def test_a_key_verifies_only_what_it_is_for(issuer):
    rsa, okp = RSAKey.generate_key(2048, {"kid": "r"}), OKPKey.generate_key("Ed25519", {"kid": "o"})
    short = rsa_of.generate_private_key(65537, 1024)
    weak = {"kty": "RSA", "kid": "short", "e": "AQAB", "n": int_to_base64(short.public_key().public_numbers().n)}
    other = ECKey.generate_key("P-256", {"kid": "enc", "use": "enc"})
    issuer.publish(*(key.as_dict(private=False) for key in (rsa, okp, other)), weak)
    gate = bearer(issuer)
    claims = {"iss": issuer.url, "sub": "x", "aud": RESOURCE, "exp": int(issuer.clock()) + 60}
    for key, alg in ((rsa, "RS256"), (rsa, "PS256"), (okp, "Ed25519")):
        await gate.verify(issuer.sign(claims, {"alg": alg, "kid": key.kid}, key))
    head = {"alg": "RS256", "kid": "short"}
    await why(gate, compact(head, claims, lambda signed: short.sign(signed, padding.PKCS1v15(), hashes.SHA256())))
    await why(gate, issuer.sign(claims, {"kid": "enc"}, ECKey.import_key(other.as_dict(private=True) | {"use": "sig"})))
    await why(gate, issuer.sign(claims, {"alg": "RS256", "kid": "k1"}, rsa))


async def test_the_tokens_own_word_about_keys_is_not_heard(issuer):
    mine = ECKey.generate_key("P-256", {"kid": "mine"})
    claims = {"iss": issuer.url, "sub": "x", "aud": RESOURCE, "exp": int(issuer.clock()) + 60}
    gate = bearer(issuer)
    for header in (
        {"kid": "mine", "jwk": mine.as_dict(private=False)},
        {"kid": "k1", "jku": "https://evil.example/jwks"},
        {"kid": "../../etc/passwd"},
        {"kid": None},
    ):
        await why(gate, issuer.sign(claims, header, mine))
    assert set(issuer.fetched) == {f"{issuer.url}/jwks"}


async def test_a_token_without_the_name_of_its_key(issuer):
    assert await bearer(issuer).verify(issuer.access({"kid": None}))
    issuer.publish(ECKey.generate_key("P-256", {"kid": "k2"}).as_dict(private=False))
    assert "name its key" in await why(bearer(issuer), issuer.access({"kid": None}))


async def test_a_key_published_with_its_private_half_is_nobodys(issuer):
    leaked = ECKey.generate_key("P-256", {"kid": "leaked"})
    issuer.publish(leaked.as_dict(private=True))
    gate = bearer(issuer)
    claims = {"iss": issuer.url, "sub": "x", "aud": RESOURCE, "exp": int(issuer.clock()) + 60}
    await why(gate, issuer.sign(claims, {"kid": "leaked"}, leaked))
    assert await gate.verify(issuer.access())


async def test_a_changed_byte_anywhere(issuer):
    gate, token = bearer(issuer), issuer.access()
    await gate.verify(token)
    for at in range(0, len(token), 7):
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(Refused):
            await gate.verify(changed)


@rows("token", ["", ".", "..", "a.b.c", "a.b", "a.b.c.d", "é.b.c", "A" * 20_000, "e30.e30.AA", "W10.W10.AA"])
async def test_what_is_no_token(issuer, token):
    with pytest.raises(Refused):
        await bearer(issuer).verify(token)
    assert issuer.fetched == []


async def test_a_key_twice_in_an_object_is_refused(issuer):
    payload = b'{"iss":"https://issuer.example","aud":"x","aud":"https://gate.example/mcp","sub":"s","exp":1894800000}'
    token = jws.serialize_compact({"alg": "ES256", "kid": "k1"}, payload, issuer.key)
    await why(bearer(issuer), token)


async def test_keys_are_fetched_once_and_again_when_old(issuer):
    gate = bearer(issuer)
    for _ in range(5):
        await gate.verify(issuer.access())
    assert len(issuer.fetched) == 1
    issuer.clock.now += FRESH
    await gate.verify(issuer.access())
    assert len(issuer.fetched) == 2


async def test_a_rotated_key_is_found_but_nobody_can_make_us_fetch_at_will(issuer):
    gate = bearer(issuer)
    await gate.verify(issuer.access())
    new = ECKey.generate_key("P-256", {"kid": "k2"})
    issuer.publish(new.as_dict(private=False))
    issuer.clock.now += AGAIN
    claims = {"iss": issuer.url, "sub": "x", "aud": RESOURCE, "exp": int(issuer.clock()) + 60}
    await gate.verify(issuer.sign(claims, {"kid": "k2"}, new))
    before = len(issuer.fetched)
    for at in range(20):
        await why(gate, issuer.sign(claims, {"kid": f"made-up-{at}"}, new))
    assert len(issuer.fetched) == before


async def test_a_failed_fetch_takes_no_keys_away(issuer):
    gate = bearer(issuer)
    await gate.verify(issuer.access())
    issuer.documents.clear()
    issuer.clock.now += FRESH + 1
    await gate.verify(issuer.access())
    issuer.documents[f"{issuer.url}/jwks"] = b"<html>"
    issuer.clock.now += FRESH + 1
    await gate.verify(issuer.access())


async def test_without_keys_nothing_is_decided(issuer):
    issuer.documents.clear()
    gate = bearer(issuer)
    for _ in range(3):
        with pytest.raises(Refused) as refused:
            await gate.verify(issuer.access())
        assert refused.value.reason is Reason.CHECK_FAILED
    assert len(issuer.fetched) == 1


@rows("place", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"])
async def test_the_place_of_the_keys_can_be_asked_for(place):
    issuer = Issuer()
    document = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks"}
    issuer.documents[f"{issuer.url}{place}"] = json.dumps(document).encode()
    await bearer(issuer, jwks_url="").verify(issuer.access())


@rows(
    "document",
    [
        {"issuer": "https://evil.example", "jwks_uri": "https://issuer.example/jwks"},
        {"issuer": "https://issuer.example", "jwks_uri": "http://issuer.example/jwks"},
        {"issuer": "https://issuer.example"},
        [],
    ],
)
async def test_metadata_of_somebody_else_is_not_believed(issuer, document):
    issuer.documents[f"{issuer.url}/.well-known/oauth-authorization-server"] = json.dumps(document).encode()
    with pytest.raises(Refused) as refused:
        await bearer(issuer, jwks_url="").verify(issuer.access())
    assert refused.value.reason is Reason.CHECK_FAILED


def test_the_metadata_of_the_resource(issuer):
    gate = bearer(issuer, scopes=("tools:call",), name="Gate")
    assert gate.metadata() == {
        "resource": RESOURCE,
        "authorization_servers": [issuer.url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["tools:call"],
        "resource_name": "Gate",
    }
    assert gate.metadata_path == "/.well-known/oauth-protected-resource/mcp"
    assert metadata_url("https://x.example") == "https://x.example/.well-known/oauth-protected-resource"


def test_challenges(issuer):
    gate = bearer(issuer)
    where = 'resource_metadata="https://gate.example/.well-known/oauth-protected-resource/mcp"'
    assert gate.challenge() == f"Bearer {where}"
    assert gate.challenge(Refused(Reason.CREDENTIALS_REQUIRED)) == f"Bearer {where}"
    assert gate.challenge(Refused(Reason.CREDENTIALS_INVALID)) == f'Bearer error="invalid_token", {where}'
    scoped = bearer(issuer, scopes=("a", "b")).challenge(Refused(Reason.CREDENTIALS_INVALID, status=403))
    assert scoped == f'Bearer error="insufficient_scope", {where}, scope="a b"'


@rows(
    "settings",
    [
        BearerSettings(RESOURCE, ()),
        BearerSettings("http://gate.example", (Trusted("https://i.example"),)),
        BearerSettings('https://gate.example/"x', (Trusted("https://i.example"),)),
        BearerSettings(RESOURCE, (Trusted("i.example"),)),
        BearerSettings(RESOURCE, (Trusted("https://i.example", "http://i.example/jwks"),)),
        BearerSettings(RESOURCE, (Trusted("https://i.example"), Trusted("https://i.example"))),
        BearerSettings(RESOURCE, (Trusted("https://i.example"),), scopes=('a"b',)),
    ],
)
def test_settings_that_cannot_be_meant(settings, issuer):
    with pytest.raises(ConfigError):
        Bearer(settings, issuer.fetch, issuer.clock)
