"""Calls that several people have to approve: each signs the same call, and only all of them together let it through."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from callgate.cli import run
from callgate.errors import Refused
from support.persons import MARK, Person, approval_site, enrolled
from support.registry import requirement
from support.sessions import Guest, until
from support.states import modern_guest, reason, retry
from support.stores import ready
from support.table import rows

DEMANDS = {"demands": {"wipe*": {"approvals": 2, "of": ["ops"]}}}
_numbers = itertools.count(1)


def fresh() -> str:
    return f"several-{next(_numbers)}"


async def group(site, *names: str, of: str = "ops") -> list[Person]:
    """People of a group, enrolled now."""
    people = []
    for name in names:
        known = await site.person.approvals.shelf.user(name)
        people.append(site.person if name == site.person.name else await enrolled(site.store, name))
        assert known is None or name == site.person.name
        await site.person.approvals.join_group(of, name, by="test")
    return people


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    with ready(request.param, folder) as url, approval_site(folder, servers_approval=DEMANDS, store={"url": url}) as it:
        it.ops = asyncio.run(group(it, "ann", "ben", "cleo"))
        asyncio.run(enrolled(it.store, "dora"))
        yield it


async def aside(work, *arguments, **named):
    return await asyncio.to_thread(lambda: work(*arguments, **named))


def arrivals(site, identity):
    return sum(call["params"]["arguments"].get("id") == identity for call in site.vault("web").calls)


@requirement("VA-182")
@rows("era", ["legacy", "modern"])
async def test_the_first_of_two_signatures_does_not_execute_and_the_second_does(site, era):
    ann, ben, cleo = site.ops
    identity = fresh()
    client = Guest.arrive(site.gateway.url("web"), era)
    calling = asyncio.create_task(aside(client.call, "wipe", id=identity))
    request = await ann.waiting_for(identity)
    assert request.user == "2 of ops"
    first = await ann.approve(request)
    assert first.state == "waiting"
    assert not calling.done()
    assert arrivals(site, identity) == 0
    signers = await cleo.approvals.signers(request)
    assert [one[0] for one in signers.signed] == ["ann"]
    assert [(one.left, one.could) for one in signers.missing] == [(1, ("ben", "cleo"))]
    assert (await ben.approve(request)).state == "approved"
    answer = await calling
    assert json.loads(answer["result"]["content"][0]["text"])["ran"] == "wipe"
    assert arrivals(site, identity) == 1
    # The record names both, each with their own assertion over the same hash.
    [facts] = [
        one["extra"]["approval"]
        for one in site.decisions
        if one["verdict"] == "allow" and one["extra"].get("approval", {}).get("request") == request.id
    ]
    assert [one["user"] for one in facts["signatures"]] == ["ann", "ben"]
    assert len({one["assertion"]["signature"] for one in facts["signatures"]}) == 2
    assert len({one["action_hash"] for one in facts["signatures"]}) == 1
    with pytest.raises(Refused):
        await cleo.approve(request)


async def test_any_refusal_ends_it(site):
    ann, ben, _ = site.ops
    identity = fresh()
    client = Guest.arrive(site.gateway.url("web"), "modern")
    calling = asyncio.create_task(aside(client.call, "wipe", id=identity))
    request = await ann.waiting_for(identity)
    await ann.approve(request)
    await ben.refuse("not this account", request)
    answer = await calling
    assert reason(answer) == "approval_refused"
    assert "not this account" in answer["error"]["message"]
    assert arrivals(site, identity) == 0


async def test_a_client_that_signs_by_itself_is_sent_to_the_page(site):
    """One evidence is one signature, and it would not say which of the two it is."""
    ann, ben, _ = site.ops
    identity = fresh()
    call = {"name": "wipe", "arguments": {"id": identity}}
    client = Guest(site.gateway.url("web"), {"extensions": {MARK: {}}})
    asked = client.answer("approval/challenge/create", {"toolName": "wipe", "arguments": call["arguments"]})
    assert reason(asked) == "approval_on_page"
    assert f"http://localhost:{site.gateway.port}/approvals" in asked["error"]["message"]
    listed = {tool["name"]: tool for tool in client.answer("tools/list")["result"]["tools"]}
    assert MARK not in listed["wipe"].get("_meta", {})
    # A passkey's signature for another tool, or none at all: the answer names the page of this very call.
    evidence = {"method": "webauthn", "challengeId": "x", "response": {}}
    told = client.answer("tools/call", call | {"_meta": {MARK: evidence}})
    assert reason(told) == "approval_on_page"
    request = await ann.waiting_for(identity)
    assert told["error"]["data"]["approval"]["url"].endswith(f"/approve/{request.id}")
    await ann.approve(request)
    await ben.approve(request)
    assert reason(client.answer("tools/call", call | {"_meta": {MARK: evidence}})) == "approval_on_page"
    assert arrivals(site, identity) == 0
    assert "content" in client.answer("tools/call", call)["result"]
    assert arrivals(site, identity) == 1


async def test_a_client_that_opens_pages_goes_on_when_all_have_signed(site):
    ann, ben, _ = site.ops
    identity = fresh()
    guest = modern_guest(site)
    begun = guest.call("wipe", id=identity)["result"]
    assert begun["resultType"] == "input_required"
    request = await ann.waiting_for(identity)
    [asked] = begun["inputRequests"].values()
    assert "2 of ops" in asked["params"]["message"]
    assert asked["params"]["url"].endswith(f"/approve/{request.id}")
    await ann.approve(request)
    await ben.approve(request)
    answer = retry(guest, begun["requestState"], "wipe", id=identity)
    assert "content" in answer["result"]
    assert arrivals(site, identity) == 1


async def test_the_receipt_proves_every_signature(site, tmp_path, monkeypatch, capsys):
    ann, _, cleo = site.ops
    identity = fresh()
    client = Guest.arrive(site.gateway.url("web"), "modern")
    calling = asyncio.create_task(aside(client.call, "wipe", id=identity))
    request = await ann.waiting_for(identity)
    await cleo.approve(request)
    await ann.approve(request)
    await calling
    call = next(one["call"] for one in site.decisions if one["extra"].get("approval", {}).get("request") == request.id)
    path = tmp_path / "receipt.json"
    until(lambda: run(["audit", "receipt", call, "-c", str(site.gateway.config), "-o", str(path)]) == 0)
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    given = tmp_path / "arguments.json"
    given.write_text(json.dumps({"id": identity}))
    assert run(["audit", "verify", "--receipt", path.name, "--arguments", given.name, "--json"]) == 0
    approval = json.loads(capsys.readouterr().out)["approval"]
    assert [one["user"] for one in approval["signers"]] == ["cleo", "ann"]
    assert all(one["whole"] for one in approval["signers"])
    assert run(["audit", "verify", "--receipt", path.name]) == 0
    printed = capsys.readouterr().out
    assert printed.count("The approval holds:") == 2
    assert await aside(run, ["audit", "show", call, "-c", str(site.gateway.config)]) == 0
    shown = capsys.readouterr().out
    assert "approved by cleo" in shown
    assert "approved by ann" in shown


RULES = """
[[rules]]
name = "large-transfers"
effect = "ask"
when = 'tool.name == "grow" && args.amount > 1000'
approvals = 2
of = ["board"]
say = "Large transfers need two people of the board."
"""


@pytest.fixture
def ruled(tmp_path):
    (tmp_path / "rules.toml").write_text(RULES)
    with approval_site(tmp_path, trust={"policy": "rules.toml"}, approval={"park_seconds": 0}) as running:
        yield running


async def test_a_rule_of_the_policy_demands_it(ruled):
    # A small one asks nobody, a large one needs a board; nobody is in it yet.
    client = Guest.arrive(ruled.gateway.url("web"), "modern")
    assert "content" in (await aside(client.call, "grow", amount=10))["result"]
    told = await aside(client.call, "grow", amount=5000)
    assert reason(told) == "approval_unavailable"
    assert "2 of board" in told["error"]["message"]
    assert "callgate groups add board USER" in told["error"]["data"]["advice"]
    ann, eve = await group(ruled, "ann", "eve", of="board")
    told = await aside(client.call, "grow", amount=5000)
    assert reason(told) == "missing_evidence"
    request = await ann.waiting("grow")
    assert request.user == "2 of board"
    await ann.approve(request)
    assert reason(await aside(client.call, "grow", amount=5000)) == "missing_evidence"
    await eve.approve(request)
    assert "content" in (await aside(client.call, "grow", amount=5000))["result"]
    assert reason(await aside(client.call, "grow", amount=5000)) == "missing_evidence"
