"""Two programs at one address without sessions: the one must not end the other's wait, and the page says who may gain."""

import asyncio

import pytest

from support.persons import approval_site
from support.sessions import Guest
from support.table import rows

both_servers = rows("server", ["web", "pipe"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with approval_site(tmp_path_factory.mktemp("neighbours")) as running:
        yield running


def cancel(client, *ids):
    for rpc_id in ids:
        assert client.request("notifications/cancelled", {"requestId": rpc_id}, None).status < 300


@both_servers
async def test_cancelling_what_another_waits_for(site, server):
    victim, neighbour = (Guest(site.gateway.url(server), {}) for _ in range(2))
    task = asyncio.create_task(asyncio.to_thread(victim.call, "wipe", 7, id="x"))
    await site.person.waiting()
    cancel(neighbour, 7)
    # Were it heard, there would be nothing left to approve.
    await site.person.approve()
    assert "content" in (await task)["result"]


@both_servers
async def test_cancelling_before_another_calls(site, server):
    victim, neighbour = (Guest(site.gateway.url(server), {}) for _ in range(2))
    cancel(neighbour, *range(20))
    task = asyncio.create_task(asyncio.to_thread(victim.call, "wipe", 7, id="y"))
    await site.person.approve()
    assert "content" in (await task)["result"]


@both_servers
async def test_the_page_says_who_may_use_the_approval(site, server):
    for era, said in (("modern", "any program at 127.0.0.1 that makes the same call"), ("legacy", None)):
        client = Guest.arrive(site.gateway.url(server), era)
        task = asyncio.create_task(asyncio.to_thread(client.call, "wipe", 7, id="z"))
        request = await site.person.refuse()
        assert request.agent.get("usable by") == said
        await task
