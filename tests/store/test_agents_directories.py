"""Fetched directories through a store: gateways that share it share what one of them fetched, and what one flushed."""

import pytest

from callgate.agents.storage import Listed
from callgate.store import SqlAgents, Store
from support.agent_directories import world
from support.registry import requirement


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


@pytest.fixture
async def gateways(shared_agents, ground):
    """Two gateways, each with a store of its own on one database."""
    shelf, url = shared_agents
    store = Store.open(url)
    yield ground.directories(shelf=shelf), ground.directories(shelf=SqlAgents(store))
    for one in ground.opened:
        await one.close()
    await store.close()


@requirement("WB-091")
async def test_a_flush_on_one_gateway_is_one_on_all(gateways, ground):
    here, there = gateways
    old, new = ground.signer(), ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", old)
    assert await here.key(old.keyid, url)
    assert await there.key(old.keyid, url)
    assert ground.server.hits("a.example") == 1
    ground.server.publish("a.example", new)
    assert await there.flush(url) == 1
    assert await there.key(old.keyid, url) is None
    # At the latest it is noticed after a second.
    ground.clock.now += 1
    assert await here.key(old.keyid, url) is None
    assert await here.key(new.keyid, url)
    assert ground.server.hits("a.example") == 2


@requirement("WB-012")
async def test_a_gateway_that_starts_while_a_directory_is_down_has_its_keys(gateways, ground):
    here, there = gateways
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    assert await here.key(signer.keyid, url)
    ground.server.take_down("a.example")
    ground.clock.now += 10_000
    assert await here.key(signer.keyid, url)
    assert await there.key(signer.keyid, url)
    (shown,) = await there.show(url)
    assert shown.failed_at == int(ground.clock.now * 1000)


@requirement("WB-091")
async def test_an_agent_added_on_one_gateway_is_known_on_all(gateways, ground, shared_agents):
    shelf, _ = shared_agents
    _, there = gateways
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    assert (await there.why(signer.keyid, ground.server.url("a.example"))).agent.agent == signer.keyid
    await shelf.add_agent(Listed("helper", "", ground.server.directory("a.example")))
    ground.clock.now += 1
    assert (await there.why(signer.keyid, ground.server.url("a.example"))).agent.agent == "helper"


async def test_a_refresh_on_one_gateway_counts_on_all(gateways, ground):
    here, there = gateways
    old, new = ground.signer(), ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", old)
    assert await here.key(old.keyid, url)
    assert await there.key(old.keyid, url)
    ground.server.publish("a.example", new)
    assert (await there.refresh(url)).ok
    ground.clock.now += 1
    assert await here.key(old.keyid, url) is None
    assert await here.key(new.keyid, url)
    assert ground.server.hits("a.example") == 2
