"""An agent that is shut out, or has used its budget up, calls a tool of the gateway's own, which answers before the gate
does; and one that may call little reads there which other tools wait for review."""

import json

import pytest

from support.agents_gate import TOOLS, call, known, reason, signer, site
from support.raw import ask

LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
NEW = [{"name": name, "description": "New.", "inputSchema": {"type": "object"}} for name in ("read_new", "drop_new")]
OWN = call("callgate_pending")


def with_new_tools(request, connection):
    """Answers lists with two tools that nobody has reviewed."""
    body = b""
    if request.body:
        asked = json.loads(request.body)
        listed = {"tools": [*TOOLS, *NEW]} if asked.get("method") == "tools/list" else {}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": listed}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    agents = {name: signer() for name in ("shut", "here", "picky", "greedy", "reader")}
    section = {
        "mode": "optional",
        "known": {
            "shut": known(agents["shut"], denied=True),
            "here": known(agents["here"], servers={"one": {"denied": True}}),
            "picky": known(agents["picky"], deny_tools=["callgate_*"]),
            "greedy": known(agents["greedy"], per_minute=1, burst=2),
            "reader": known(agents["reader"], allow_tools=["read", "read_*"]),
        },
    }
    with site(tmp_path_factory.mktemp("own"), agents=section) as made:
        for server in made.servers.values():
            server.script = with_new_tools
        made.agents = agents
        yield made


def names(reply):
    assert reason(reply) == (200, "")
    return {one["name"] for one in json.loads(reply.body)["result"]["tools"]}


def test_who_is_shut_out_gets_no_answer(running):
    for name, told in (("shut", "agent_denied"), ("here", "agent_denied"), ("picky", "tool_denied")):
        assert reason(running.send(running.agents[name], OWN)) == (403, told), name
    assert reason(running.send(running.agents["here"], OWN, server="two")) == (200, "")
    # Whoever may not call it does not see it.
    assert "callgate_pending" not in names(running.send(running.agents["picky"], LIST))


def test_a_budget_counts_these_calls_too(running):
    told = [reason(running.send(running.agents["greedy"], OWN)) for _ in range(4)]
    assert told == [(200, "")] * 2 + [(429, "rate_limited")] * 2


def test_names_of_tools_that_are_denied_are_not_told(running):
    assert "callgate_pending" in names(running.send(running.agents["reader"], LIST))
    told = running.send(running.agents["reader"], OWN).body
    assert b"read_new" in told
    assert b"drop_new" not in told
    everybody = ask(running.gateway.url("one"), OWN, {"Content-Type": "application/json"}).body
    assert b"drop_new" in everybody
