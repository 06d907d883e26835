"""Keys of issuers over real TLS, through the guard that fetches directories."""

import pytest

from callgate.agents.fetching import Reach
from callgate.agents.kya import KyaPay, KyaSettings
from callgate.agents.tokens import Bearer, BearerSettings
from callgate.agents.tokens import Issuer as Trusted
from callgate.errors import Reason, Refused
from callgate.gate import Caller
from callgate.store.memory import MemoryAgents
from support.agent_directories import world
from support.callers import Agent, Clock, Issuer


@pytest.fixture
async def there():
    async with world() as made:
        yield made


@pytest.fixture
def issuer(there):
    made = Issuer(there.server.url("a.example"), Clock(there.clock()))
    there.server.put("a.example", {"keys": [made.key.as_dict(private=False)]}, path="/.well-known/jwks.json")
    return made


def bearer(issuer, fetcher, jwks_url=""):
    settings = BearerSettings("https://gate.example/mcp", (Trusted(issuer.url, jwks_url),))
    return Bearer(settings, fetcher.body, issuer.clock)


async def test_the_keys_of_an_issuer_are_found_and_fetched(there, issuer):
    metadata = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/.well-known/jwks.json"}
    there.server.put("a.example", metadata, path="/.well-known/oauth-authorization-server")
    gate = bearer(issuer, there.fetcher())
    assert (await gate.verify(issuer.access())).key == "carol"
    assert (await gate.verify(issuer.access())).key == "carol"
    assert [one.path for one in there.server.asked] == [
        "/.well-known/oauth-authorization-server",
        "/.well-known/jwks.json",
    ]


async def test_an_issuer_cannot_send_us_inside(there, issuer):
    gate = bearer(issuer, there.fetcher(Reach()), f"{issuer.url}/.well-known/jwks.json")
    with pytest.raises(Refused) as refused:
        await gate.verify(issuer.access())
    assert refused.value.reason is Reason.CHECK_FAILED
    assert there.server.connections == 0


async def test_metadata_that_leads_elsewhere_inside(there, issuer):
    there.dns["eve.example"] = ["10.0.0.7"]
    metadata = {"issuer": issuer.url, "jwks_uri": "https://eve.example/jwks"}
    there.server.put("a.example", metadata, path="/.well-known/oauth-authorization-server")
    with pytest.raises(Refused) as refused:
        await bearer(issuer, there.fetcher()).verify(issuer.access())
    assert refused.value.reason is Reason.CHECK_FAILED
    assert there.server.hits("eve.example") == 0


async def test_a_kya_token(there, issuer):
    agent = Agent(issuer.clock)
    settings = KyaSettings({issuer.url: ""}, "seller-1")
    kyapay = KyaPay(settings, there.fetcher().body, MemoryAgents(), issuer.clock)
    caller = Caller("alice", "web-bot-auth", key=agent.keyid)
    attested = await kyapay.verify(issuer.kya(agent), caller)
    assert attested.principal == f"{issuer.url}#buyer-7"
