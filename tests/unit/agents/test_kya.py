"""Tokens that say on whose behalf an agent acts."""

import logging

import pytest

from callgate.agents.kya import HEADER, Attested, KyaPay, KyaPolicy, KyaSettings, attest
from callgate.errors import ConfigError, Reason, Refused, StoreUnavailable
from callgate.gate import Caller
from callgate.store.memory import MemoryAgents
from support.callers import Agent, Issuer
from support.registry import requirement
from support.table import rows


@pytest.fixture
def issuer():
    return Issuer()


@pytest.fixture
def agent(issuer):
    return Agent(issuer.clock)


@pytest.fixture
def caller(agent):
    return Caller("alice", "web-bot-auth", key=agent.keyid)


@pytest.fixture
def kyapay(issuer):
    return verifier(issuer)


def verifier(issuer):
    return KyaPay(KyaSettings({issuer.url: ""}, "seller-1"), issuer.fetch, MemoryAgents(), issuer.clock)


def sent(*tokens):
    return tuple((HEADER, token.encode()) for token in tokens)


async def why(policy, headers, caller):
    with pytest.raises(Refused) as refused:
        await attest(policy, headers, caller)
    return refused.value.status, refused.value.reason.value


class Stub:
    """A verifier that an operator brought along."""

    def __init__(self, does):
        self.does = does
        self.seen = []

    async def verify(self, token, caller):
        self.seen.append((token, caller))
        if isinstance(self.does, Exception):
            raise self.does
        return self.does


@requirement("WB-045")
async def test_off_asks_for_nothing(caller):
    assert KyaPolicy().mode == "off"
    assert await attest(KyaPolicy(), (), caller) is None
    assert await attest(KyaPolicy(verifier=Stub(ValueError())), sent("x"), caller) is None


@requirement("WB-024")
async def test_a_verifier_of_ones_own_decides(caller):
    good, bad = Stub(Attested("carol")), Stub(Refused(Reason.KYA_INVALID, "no"))
    assert await attest(KyaPolicy("required", good), sent("tok"), caller) == Attested("carol")
    assert good.seen == [("tok", caller)]
    assert await why(KyaPolicy("required", bad), sent("tok"), caller) == (401, "kya_invalid")
    other = Stub(Refused(Reason.TOOL_DENIED))
    assert await why(KyaPolicy("required", other), sent("tok"), caller) == (401, "kya_invalid")


@requirement("WB-081")
async def test_required_and_not_there(caller):
    policy = KyaPolicy("required", Stub(Attested("carol")))
    assert await why(policy, (), caller) == (401, "kya_required")
    assert await why(policy, sent(" "), caller) == (401, "kya_required")


@requirement("WB-082")
async def test_optional_takes_none_but_no_bad_one(caller, kyapay):
    policy = KyaPolicy("optional", kyapay)
    assert await attest(policy, (), caller) is None
    assert await why(policy, sent("nonsense"), caller) == (401, "kya_invalid")


@requirement("WB-083")
@rows("does", [ValueError("the token is secret"), None, "carol", True])
async def test_a_verifier_that_does_not_work(caller, does, caplog):
    assert await why(KyaPolicy("required", Stub(does)), sent("tok"), caller) == (500, "kya_invalid")
    assert await why(KyaPolicy("optional", Stub(does)), sent("tok"), caller) == (500, "kya_invalid")
    assert "secret" not in caplog.text


@requirement("WB-083")
async def test_no_verifier_at_all(caller):
    assert await why(KyaPolicy("required"), (), caller) == (500, "kya_invalid")
    assert await why(KyaPolicy("required"), sent("tok"), caller) == (500, "kya_invalid")
    assert await why(KyaPolicy("optional"), sent("tok"), caller) == (500, "kya_invalid")
    assert await attest(KyaPolicy("optional"), (), caller) is None


async def test_a_store_that_is_down_is_the_stores_fault(caller):
    with pytest.raises(StoreUnavailable):
        await attest(KyaPolicy("required", Stub(StoreUnavailable("down"))), sent("tok"), caller)


async def test_a_good_token(kyapay, issuer, agent, caller):
    attested = await kyapay.verify(issuer.kya(agent), caller)
    assert attested.principal == "https://issuer.example#buyer-7"
    assert set(attested.claims) == {"iss", "sub", "jti", "exp", "env"}
    assert "private" not in repr(attested)


async def test_a_payment_may_stand_beside_it(kyapay, issuer, agent, caller):
    pay = issuer.kya(agent, {"typ": "pay+jwt"})
    assert await attest(KyaPolicy("required", kyapay), sent(pay, issuer.kya(agent)), caller)
    combined = issuer.kya(agent, {"typ": "kya+pay+JWT"}, jti="two")
    assert await attest(KyaPolicy("required", kyapay), sent(combined), caller)


@requirement("WB-082")
@rows(
    "claims",
    [
        {"aud": "seller-2"},
        {"aud": ["seller-1"]},
        {"aud": ...},
        {"iss": "https://evil.example"},
        {"iss": ...},
        {"exp": 1},
        {"exp": ...},
        {"exp": 4_000_000_000},
        {"iat": ...},
        {"iat": 4_000_000_000},
        {"nbf": 4_000_000_000},
        {"jti": ...},
        {"jti": ""},
        {"jti": 7},
        {"jti": "x" * 600},
        {"sub": ...},
        {"env": "sandbox"},
        {"env": 7},
        {"cnf": ...},
        {"cnf": {}},
        {"cnf": {"jkt": "x"}},
        {"cnf": {"jwk": "x"}},
        {"cnf": {"jwk": {}}},
        {"cnf": [1]},
    ],
)
async def test_claims_that_do_not_hold(issuer, agent, caller, claims):
    kyapay = verifier(issuer)
    assert await why(KyaPolicy("required", kyapay), sent(issuer.kya(agent, **claims)), caller) == (401, "kya_invalid")
    assert await kyapay.verify(issuer.kya(agent), caller)


@rows("header", [{"typ": "pay+jwt"}, {"typ": "JWT"}, {"typ": None}, {"typ": "at+jwt"}, {"kid": None}])
async def test_headers_that_do_not_hold(issuer, agent, caller, header):
    kyapay = verifier(issuer)
    assert await why(KyaPolicy("required", kyapay), sent(issuer.kya(agent, header)), caller) == (401, "kya_invalid")


async def test_two_identities_are_none(kyapay, issuer, agent, caller):
    tokens = sent(issuer.kya(agent), issuer.kya(agent, jti="two"))
    assert await why(KyaPolicy("required", kyapay), tokens, caller) == (401, "kya_invalid")
    assert await why(KyaPolicy("required", kyapay), sent(*["a.b.c"] * 9), caller) == (401, "kya_invalid")
    assert await why(KyaPolicy("required", kyapay), sent("a" * 40_000), caller) == (401, "kya_invalid")
    assert await why(KyaPolicy("required", kyapay), ((HEADER, b"\xff"),), caller) == (401, "kya_invalid")


async def test_keys_that_cannot_be_fetched_are_not_the_agents_fault(kyapay, issuer, agent, caller):
    issuer.documents.clear()
    policy = KyaPolicy("required", kyapay)
    assert await why(policy, sent(issuer.kya(agent)), caller) == (500, "kya_invalid")


async def test_only_with_a_signed_request(kyapay, issuer, agent):
    for caller in (Caller("alice", "api-key", key=agent.keyid), Caller("alice", "web-bot-auth")):
        with pytest.raises(Refused, match="signed request"):
            await kyapay.verify(issuer.kya(agent), caller)


async def test_a_bad_token_uses_nothing_up(kyapay, issuer, agent, caller):
    with pytest.raises(Refused):
        await kyapay.verify(issuer.kya(agent)[:-4] + "AAAA", caller)
    await kyapay.verify(issuer.kya(agent), caller)


async def test_nothing_of_a_token_is_logged(kyapay, issuer, agent, caller, caplog):
    caplog.set_level(logging.DEBUG)
    token = issuer.kya(agent)
    await attest(KyaPolicy("required", kyapay), sent(token), caller)
    await why(KyaPolicy("required", kyapay), sent(token), caller)
    issuer.documents.clear()
    issuer.clock.now += 100
    await why(KyaPolicy("required", kyapay), sent(issuer.kya(agent, {"kid": "k9"}, jti="3")), caller)
    for secret in (token, token.split(".")[1], "buyer-7", "carol@private.example"):
        assert secret not in caplog.text


@rows("issuers", [{}, {"http://i.example": ""}, {"https://i.example": "http://i.example/jwks"}])
def test_settings_that_cannot_be_meant(issuers, issuer):
    with pytest.raises(ConfigError):
        KyaPay(KyaSettings(issuers, "seller-1"), issuer.fetch, MemoryAgents(), issuer.clock)
    with pytest.raises(ConfigError):
        KyaPay(KyaSettings({"https://i.example": ""}, ""), issuer.fetch, MemoryAgents(), issuer.clock)
