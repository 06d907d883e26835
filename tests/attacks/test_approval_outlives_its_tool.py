"""A tool, its policy or its approver changes after the approval was given: it is an approval of something else then."""

import asyncio

import pytest

from support.gateway import write_config
from support.persons import approval_site, person_at
from support.sessions import Guest, until
from support.states import OPENS_URLS, reason, retry, state_for
from support.table import rows

SERVERS = {"tools": ["look"], "user": "ann"}
# Each server and each era, at one gateway: a server changes only once.
both_eras = rows(("server", "era"), [("web", "legacy"), ("pipe", "modern")])


@pytest.fixture
def site(tmp_path):
    with approval_site(tmp_path, "events", servers_approval=SERVERS, approval={"park_seconds": 0}) as running:
        yield running


@pytest.fixture
def patient(tmp_path):
    with approval_site(tmp_path, "events", servers_approval=SERVERS) as running:
        yield running


def looked(site, server):
    return [one for one in site.vault(server).calls if one["params"]["name"] == "look"]


async def asked_anew(site, server, client, old):
    """The approval lets nothing through; a new request is there instead, whose approval does."""
    told = client.call("look", id="x")
    assert reason(told) == "missing_evidence"
    assert told["error"]["data"]["approval"]["request"] != old.id
    assert looked(site, server) == []
    withdrawn = await site.person.approvals.request(old.id)
    assert (withdrawn.state, withdrawn.call) == ("used", "withdrawn")


@both_eras
async def test_another_version_of_the_tool(site, server, era):
    client = Guest.arrive(site.gateway.url(server), era)
    assert reason(client.call("look", id="x")) == "missing_evidence"
    old = await site.person.approve()
    assert "result" in client.call("grow")
    await asked_anew(site, server, client, old)
    await site.person.approve()
    assert "result" in client.call("look", id="x")


@both_eras
async def test_another_version_while_the_call_waits(patient, server, era):
    client = Guest.arrive(patient.gateway.url(server), era)
    task = asyncio.create_task(asyncio.to_thread(client.call, "look", 3, id="x"))
    request = await patient.person.waiting()
    assert "result" in await asyncio.to_thread(client.call, "grow")
    await patient.person.approve(request)
    answer = await task
    assert reason(answer) == "approval_expired"
    assert "the tool has changed" in answer["error"]["message"]
    assert looked(patient, server) == []
    assert (await patient.person.approvals.request(request.id)).call == "withdrawn"


@rows("server", ["web", "pipe"])
async def test_another_version_when_the_client_is_back_with_its_state(site, server):
    client = Guest(site.gateway.url(server), OPENS_URLS)
    state = state_for(client, "look", id="x")
    await site.person.approve()
    assert "result" in client.call("grow")
    answer = retry(client, state, "look", id="x")
    assert reason(answer) == "approval_expired"
    assert "the tool has changed" in answer["error"]["message"]
    assert looked(site, server) == []


@rows("server", ["web", "pipe"])
async def test_a_question_about_the_old_version_is_taken_back(site, server):
    """Else its approval would be worth nothing, and no other question could be asked."""
    client = Guest.arrive(site.gateway.url(server), "legacy")
    old = client.call("look", id="x")["error"]["data"]["approval"]["request"]
    assert "result" in client.call("grow")
    told = client.call("look", id="x")
    assert reason(told) == "missing_evidence"
    assert [one.id for one in await site.person.open_requests()] == [told["error"]["data"]["approval"]["request"]]
    assert (await site.person.approvals.request(old)).state == "refused"
    await site.person.approve()
    assert "result" in client.call("look", id="x")


async def changed(site, server, **approval):
    """The same gateway after a reload, with another approval section for that server."""
    table = {"url": site.vault("web").url, "approval": SERVERS | approval}
    seen = len(site.gateway.events("configuration reloaded"))
    write_config(site.directory, {server: table}, approval={"park_seconds": 0})
    until(lambda: len(site.gateway.events("configuration reloaded")) > seen)


async def test_another_policy(site):
    client = Guest.arrive(site.gateway.url("web"), "legacy")
    client.call("look", id="x")
    old = await site.person.approve()
    await changed(site, "web", authenticator_class="cross-platform")
    await asked_anew(site, "web", client, old)


async def test_another_person(site):
    client = Guest.arrive(site.gateway.url("web"), "legacy")
    client.call("look", id="x")
    old = await site.person.approve()
    async with person_at(site.directory, "ben") as ben:
        await changed(site, "web", user="ben")
        await asked_anew(site, "web", client, old)
        await ben.approve()
        assert "result" in client.call("look", id="x")
