"""A text under the gateway's own mark, made up or another call's, is sent with a call that needs nobody's approval."""

import json

import pytest

from support.persons import MARK, approval_site
from support.raw import ask, piped
from support.sessions import Guest
from support.states import modern_guest, reason, state_for, tampered
from support.table import rows


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with approval_site(tmp_path_factory.mktemp("free"), approval={"park_seconds": 0}) as running:
        yield running


def round_state(site, client):
    """The state of a call that was approved and that its server has answered with a question."""
    arguments = {"id": "round"}
    issued = client.answer("approval/challenge/create", {"toolName": "quiz", "arguments": arguments})["result"]
    params = {"name": "quiz", "arguments": arguments, "_meta": {MARK: site.person.evidence(issued)}}
    return client.answer("tools/call", params)["result"]["requestState"]


def forgeries(state):
    mark = state.partition(".")[0]
    return [
        state,
        tampered(state),
        mark,
        f"{mark}.",
        f"{mark}..",
        f"{mark}.e30.e30",
        f"{mark}.a.b.c",
        f"{mark}.\u00e9.x",
    ]


def refused(answer, rpc_id):
    assert (answer["id"], answer["error"]["code"], reason(answer)) == (rpc_id, -32602, "request_state_invalid")


@rows("spelt", ["requestState", "request\\u0053tate"])
@rows("kind", ["round", "waiting"])
@rows("server", ["web", "pipe"])
def test_over_http(site, server, kind, spelt):
    ceremony = Guest(site.gateway.url(server), {"extensions": {MARK: {}}})
    client = modern_guest(site, server)
    state = round_state(site, ceremony) if kind == "round" else state_for(client, id=spelt)
    reached = len(site.vault(server).calls)
    recorded = len(site.decisions)
    forged = forgeries(state)
    for number, text in enumerate(forged):
        params = {"name": "look", "arguments": {}, "requestState": text}
        body = client.body("tools/call", params, number).replace(b"requestState", spelt.encode())
        refused(send(client, body, params), number)
    assert len(site.vault(server).calls) == reached
    assert [one["verdict"] for one in site.decisions[recorded:]] == ["refuse"] * len(forged)
    assert "result" in client.call("look")


def send(client, body, params):
    return json.loads(ask(client.url, body, client.headers("tools/call", params)).body)


@rows("server", ["web", "pipe"])
def test_over_stdio(site, server):
    """Each process has a key of its own for rounds: its mark is learnt from it, then its text is made up."""
    client = Guest("", {"extensions": {MARK: {}}})
    with piped(site.wrap_argv(server)) as process:

        def say(method, params, rpc_id):
            process.stdin.write(client.body(method, params, rpc_id) + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        arguments = {"id": "piped"}
        issued = say("approval/challenge/create", {"toolName": "quiz", "arguments": arguments}, 1)["result"]
        params = {"name": "quiz", "arguments": arguments, "_meta": {MARK: site.person.evidence(issued)}}
        state = say("tools/call", params, 2)["result"]["requestState"]
        reached = len(site.vault(server).calls)
        for number, text in enumerate(forgeries(state), 10):
            refused(say("tools/call", {"name": "look", "arguments": {}, "requestState": text}, number), number)
            # The id is free again.
            refused(say("tools/call", {"name": "look", "arguments": {}, "requestState": text}, number), number)
        assert len(site.vault(server).calls) == reached
        assert "result" in say("tools/call", {"name": "look", "arguments": {}}, 10)
