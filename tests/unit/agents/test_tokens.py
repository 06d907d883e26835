"""Reading tokens of others: whatever comes, it is a token or it is refused."""

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.agents.kya import KyaPay, KyaSettings
from callgate.agents.tokens import BadToken, Bearer, BearerSettings, outline
from callgate.agents.tokens import Issuer as Trusted
from callgate.errors import Refused
from callgate.gate import Caller
from callgate.store.memory import MemoryAgents
from support.callers import Agent, Issuer

ISSUER = Issuer()
AGENT = Agent(ISSUER.clock)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
CLAIMS = ("iss", "sub", "aud", "exp", "iat", "nbf", "jti", "cnf", "env", "scope", "client_id")


def segment(value):
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@given(st.text(max_size=200) | st.lists(st.text("AZaz09-_", max_size=40), min_size=3, max_size=3).map(".".join))
def test_any_text(text):
    try:
        found = outline(text)
    except BadToken:
        return
    assert isinstance(found.header, dict)


@given(
    st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "x5c"]), VALUES, max_size=4),
    st.dictionaries(st.sampled_from(CLAIMS), VALUES, max_size=8),
)
async def test_any_header_and_claims_that_nobody_signed(header, claims):
    settings = BearerSettings("https://gate.example/mcp", (Trusted(ISSUER.url, f"{ISSUER.url}/jwks"),))
    bearer = Bearer(settings, ISSUER.fetch, ISSUER.clock)
    kya = KyaPay(KyaSettings({ISSUER.url: ""}, "seller-1"), ISSUER.fetch, MemoryAgents(), ISSUER.clock)
    token = f"{segment(header)}.{segment({'iss': ISSUER.url, **claims})}.AAAA"
    with pytest.raises(Refused):
        await bearer.verify(token)
    with pytest.raises(Refused):
        await kya.verify(token, Caller("a", "web-bot-auth", key=AGENT.keyid))


@given(st.dictionaries(st.sampled_from(CLAIMS), VALUES, min_size=1, max_size=3))
async def test_any_claim_of_a_token_that_is_signed(claims):
    """A change of what matters is refused; what is let through is what we asked for."""
    kya = KyaPay(KyaSettings({ISSUER.url: ""}, "seller-1"), ISSUER.fetch, MemoryAgents(), ISSUER.clock)
    try:
        attested = await kya.verify(ISSUER.kya(AGENT, **claims), Caller("a", "web-bot-auth", key=AGENT.keyid))
    except Refused:
        return
    assert attested.claims["iss"] == ISSUER.url
    assert "aud" not in claims
    assert "cnf" not in claims
