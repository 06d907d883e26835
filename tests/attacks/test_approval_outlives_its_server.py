"""The entry of a server is edited, and its name stands for another program or address. What a person approved of the one
before is no approval of this one: not a call, not a signed challenge, not a call that waits."""

import asyncio

import pytest

from callgate.protocol import CHALLENGE_CREATE
from support.gateway import approve_listed, write_config
from support.persons import HARMLESS, MARK, approval_site, http_vault
from support.registry import requirement
from support.sessions import Guest, until
from support.states import reason
from support.table import rows

SERVERS = {"tools": ["wipe"], "user": "ann"}
APPROVAL = {"park_seconds": 0}
CEREMONY = {"extensions": {"verifiedApproval": {}}}


@pytest.fixture
def other(tmp_path):
    """Another server with the same tools, which says the same of itself."""
    with http_vault(tmp_path / "other") as vault:
        yield vault


@pytest.fixture
def site(tmp_path):
    with approval_site(tmp_path, servers_approval=SERVERS, approval=APPROVAL) as running:
        yield running


@pytest.fixture
def patient(tmp_path):
    with approval_site(tmp_path, servers_approval=SERVERS) as running:
        yield running


def edited(site, server, table, approval=APPROVAL):
    """The name stands for something else from now on, and a person has reviewed its tools."""
    seen = len(site.gateway.events("configuration reloaded"))
    tables = {"web": {"url": site.vault("web").url}, "pipe": {"command": site.vault("pipe").argv}, server: table}
    more = {"approval": SERVERS, "trust": HARMLESS}
    write_config(site.directory, {name: {**one, **more} for name, one in tables.items()}, approval=approval)
    until(lambda: len(site.gateway.events("configuration reloaded")) > seen)
    visitor = Guest.arrive(site.gateway.url(server), "legacy")

    def reviewed():
        # A list is answered before it is on record: there may be nothing yet to approve.
        approve_listed(site.gateway.config)
        return any(one["name"] == "wipe" for one in visitor.answer("tools/list")["result"]["tools"])

    until(reviewed)


def wiped(*vaults):
    return [one for vault in vaults for one in vault.calls if one["params"]["name"] == "wipe"]


@requirement("TP-028", "VA-172")
@rows("server", ["web", "pipe"])
async def test_a_call_that_was_approved(site, other, server):
    before = len(wiped(other))
    client = Guest.arrive(site.gateway.url(server), "modern")
    assert reason(client.call("wipe", id="x")) == "missing_evidence"
    old = await site.person.approve()
    edited(site, server, {"url": other.url})
    client = Guest.arrive(site.gateway.url(server), "modern")
    answer = client.call("wipe", id="x")
    assert reason(answer) == "missing_evidence"
    assert answer["error"]["data"]["approval"]["request"] != old.id
    assert len(wiped(other)) == before
    assert wiped(site.vault(server)) == []
    # Its own approval is good.
    await site.person.approve()
    assert "result" in client.call("wipe", id="x")
    assert len(wiped(other)) == before + 1


@requirement("TP-028", "VA-172")
@rows("server", ["web", "pipe"])
async def test_a_challenge_that_was_signed(site, other, server):
    client = Guest.arrive(site.gateway.url(server), "modern", **CEREMONY)
    issued = client.answer(CHALLENGE_CREATE, {"toolName": "wipe", "arguments": {"id": "x"}})["result"]
    evidence = site.person.evidence(issued)
    edited(site, server, {"url": other.url})
    client = Guest.arrive(site.gateway.url(server), "modern", **CEREMONY)
    params = {"name": "wipe", "arguments": {"id": "x"}, "_meta": {MARK: evidence}}
    assert reason(client.answer("tools/call", params)) == "argument_hash_mismatch"
    assert wiped(other, site.vault(server)) == []


async def test_a_call_that_waits(patient, other):
    client = Guest.arrive(patient.gateway.url("web"), "modern")
    task = asyncio.create_task(asyncio.to_thread(client.call, "wipe", 3, id="x"))
    request = await patient.person.waiting()
    edited(patient, "web", {"url": other.url}, {})
    await patient.person.approve(request)
    await task
    # It may still go where it was meant to go.
    assert wiped(other) == []


async def test_a_command_that_is_started_in_another_way(site):
    command = site.vault("pipe").argv
    client = Guest.arrive(site.gateway.url("pipe"), "modern")
    assert reason(client.call("wipe", id="x")) == "missing_evidence"
    await site.person.approve()
    edited(site, "pipe", {"command": command, "env": {"NODE_OPTIONS": "--require=./evil.js"}})
    client = Guest.arrive(site.gateway.url("pipe"), "modern")
    assert reason(client.call("wipe", id="x")) == "missing_evidence"
    assert wiped(site.vault("pipe")) == []
