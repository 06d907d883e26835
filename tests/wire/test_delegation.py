"""Grants over real HTTP: a person signs on the page, an agent with a key calls, and passes within what was signed."""

from __future__ import annotations

import json

import pytest

from support.granting import KeyedAgent, Signer, api_key
from support.persons import approval_site
from support.registry import requirement
from support.states import reason
from support.stores import ready
from support.table import rows
from support.trust_gateway import WrapAgent

AGENTS = {"mode": "optional", "api_keys": {"enabled": True}}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("delegation")
    # Nobody waits here: what needs a person is refused at once, with the page's address.
    approval = {"park_seconds": 0, "pending_per_user": 1000}
    with (
        ready(request.param, folder) as url,
        approval_site(folder, agents=AGENTS, approval=approval, store={"url": url}, audit={"arguments": "whole"}) as it,
    ):
        it.signer = Signer.arrive(it)
        yield it


@pytest.fixture
def agent(site, request):
    """An agent of this test's own, and a page that knows its tools."""
    name = f"agent-{request.node.name.partition('[')[0][-40:]}"
    it = KeyedAgent(site, api_key(site, name))
    it.name = name
    assert reason(it.call("wipe", id="nobody")) == "missing_evidence"
    return it


def transfers(site, agent, **fields):
    given = {"server": "web", "name": "wipe", "agent": agent.name, "rule.id": "equals", "value.id": "DE-1"}
    return site.signer.grant(**(given | {"rule.n": "at_most", "value.n": "60", "calls": "3"} | fields))


def passed(answer):
    return "result" in answer and not answer["result"].get("isError")


def facts(site, grant):
    return [
        one["extra"]["approval"]
        for one in site.decisions
        if one["verdict"] == "allow" and one["extra"].get("approval", {}).get("grant") == grant
    ]


@requirement("VA-183")
@requirement("VA-184")
def test_calls_within_pass_and_others_do_not(site, agent):
    grant = transfers(site, agent, sum_of="n", sum="100")
    assert passed(agent.call("wipe", id="DE-1", n=60))
    # Another account, too much at once, an argument that is not named, one that is missing.
    for arguments in ({"id": "DE-2", "n": 1}, {"id": "DE-1", "n": 61}, {"id": "DE-1", "n": 1, "x": 1}, {"id": "DE-1"}):
        assert reason(agent.call("wipe", **arguments)) == "missing_evidence", arguments
    # Another tool, and the same call of another agent, and of somebody without a key.
    assert reason(agent.call("wipe_all", id="DE-1", n=1)) == "missing_evidence"
    assert reason(KeyedAgent(site, api_key(site, "mallory")).call("wipe", id="DE-1", n=1)) == "missing_evidence"
    assert reason(KeyedAgent(site, "").call("wipe", id="DE-1", n=1)) == "missing_evidence"
    # The sum: 40 is left.
    assert reason(agent.call("wipe", id="DE-1", n=40.5)) == "missing_evidence"
    assert passed(agent.call("wipe", id="DE-1", n=39.99))
    assert passed(agent.call("wipe", id="DE-1", n=0.01))
    assert reason(agent.call("wipe", id="DE-1", n=0)) == "missing_evidence"
    # Each record names the grant, its person, what it used and what was left.
    seen = facts(site, grant)
    assert [one["used"] for one in seen] == [
        {"calls": 1, "amount": "60"},
        {"calls": 1, "amount": "39.99"},
        {"calls": 1, "amount": "0.01"},
    ]
    assert [one["left"] for one in seen] == [
        {"calls": 2, "amount": "40"},
        {"calls": 1, "amount": "0.01"},
        {"calls": 0, "amount": "0"},
    ]
    assert {one["user"] for one in seen} == {site.person.name}
    assert json.loads(seen[0]["terms"])["id"] == grant


def test_a_person_reads_why_a_grant_did_not_do(site, agent):
    grant = transfers(site, agent)
    told = agent.call("wipe", id="DE-1", n=61)
    assert "cover" not in told["error"]["message"]
    page = site.signer.get(f"/approve/{told['error']['data']['approval']['request']}").body.decode()
    assert f"Grant {grant} of {site.person.name} does not cover it: n has to be a number, at most 60." in page


def test_revoked_at_once(site, agent):
    grant = transfers(site, agent, calls="100")
    assert passed(agent.call("wipe", id="DE-1", n=1))
    assert site.signer.post(f"/grants/{grant}/revoke") == (200, {"state": "revoked"})
    assert reason(agent.call("wipe", id="DE-1", n=1)) == "missing_evidence"
    assert site.signer.post(f"/grants/{grant}/revoke")[0] == 403


def test_programs_of_this_computer(site):
    """A server that the person's own programs start: the grant is for all of them, and for nobody else."""
    with WrapAgent(site) as local:
        told = local.call("pipe", "wipe", id="here")
        page = site.signer.page(request=told["error"]["data"]["approval"]["request"])
        assert "any program of yours on this computer" in page
        request = told["error"]["data"]["approval"]["request"]
        given = {"rule.id": "equals", "value.id": "here", "calls": "1"}
        grant = site.signer.grant(server="pipe", name="wipe", request=request, **given)
        other = KeyedAgent(site, api_key(site, "far"))
        assert reason(other.call("wipe", "pipe", id="here")) == "missing_evidence"
        assert passed(local.call("pipe", "wipe", id="here"))
        assert reason(local.call("pipe", "wipe", id="here")) == "missing_evidence"
        assert [one["left"] for one in facts(site, grant)] == [{"calls": 0}]


def test_made_from_a_call_that_waits(site, agent):
    told = agent.call("wipe", id="DE-7", n=5)
    page = site.signer.page(request=told["error"]["data"]["approval"]["request"])
    assert 'value="equals" selected' in page
    assert "DE-7" in page
    assert f"{agent.name}, which uses the API key" in page


@rows(
    "body",
    [
        b'{"id":"DE-1","n":-1}',
        b'{"id":"DE-1","n":-0.0}',
        b'{"id":"DE-1","n":"1"}',
        b'{"id":"DE-1","n":true}',
        b'{"id":"DE-1","n":null}',
        b'{"id":"DE-1","n":[1]}',
        b'{"id":"DE-1","n":1e-7}',
        b'{"id":"DE-1","n":0.10000000000000000001}',
        b'{"id":"DE-1","n":1e300}',
        b'{"id":"DE-1","N":1}',
        b'{"id":"DE\xe2\x80\x911","n":1}',
        b'{"id":["DE-1"],"n":1}',
        b'{"id":"DE-1 ","n":1}',
        b'{"id":"de-1","n":1}',
    ],
)
def test_amounts_and_values_that_are_no_plain_ones(site, agent, body):
    transfers(site, agent, sum_of="n", sum="100", calls="100", **{"rule.n": "anything", "value.n": ""})
    whole = modern(body)
    answer = agent.raw(whole, "wipe")
    assert reason(answer) in ("missing_evidence", "arguments_invalid", "invalid_params", "number_out_of_range"), body
    assert passed(agent.call("wipe", id="DE-1", n=1))


def modern(arguments: bytes) -> bytes:
    meta = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wipe","arguments":'
        + arguments
        + b',"_meta":'
        + meta
        + b"}}"
    )
