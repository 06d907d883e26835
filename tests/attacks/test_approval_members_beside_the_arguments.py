"""An approved call is sent with something beside its arguments that a server may read, and that nobody saw or signed."""

import pytest

from support.persons import MARK, approval_site
from support.sessions import Guest
from support.states import modern_guest, reason
from support.table import rows

both_servers = rows("server", ["web", "pipe"])
ANSWERS = {"confirm": {"action": "accept", "content": {"account": "everyone"}}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with approval_site(tmp_path_factory.mktemp("beside"), approval={"park_seconds": 0}) as running:
        yield running


async def approved(site, server, era):
    """A client whose call of wipe was approved, and the call."""
    client = Guest.arrive(site.gateway.url(server), era)
    params = {"name": "wipe", "arguments": {"id": f"{server}-{era}"}}
    assert reason(client.answer("tools/call", params)) == "missing_evidence"
    await site.person.approve()
    return client, params


@both_servers
@rows("era", ["legacy", "modern"])
async def test_none_of_it_reaches_the_server(site, server, era):
    client, params = await approved(site, server, era)
    reached = len(site.vault(server).calls)
    for more, said in (
        ({"requestState": "the server's own"}, "request_state_invalid"),
        ({"requestState": "the server's own", "inputResponses": ANSWERS}, "request_state_invalid"),
        ({"requestState": {"made": "up"}}, "request_state_invalid"),
        ({"requestState": ""}, "request_state_invalid"),
        ({"inputResponses": ANSWERS}, "invalid_params"),
        ({"inputResponses": {}}, "invalid_params"),
        ({"args": {"id": 2}}, "invalid_params"),
        ({"parameters": {"id": 2}}, "invalid_params"),
        ({"x" * 5000: 1}, "invalid_params"),
    ):
        answer = client.answer("tools/call", params | more)
        assert (answer["error"]["code"], reason(answer), answer["id"]) == (-32602, said, 1), more
        assert len(answer["error"]["message"]) < 500
    assert "'args'" in client.answer("tools/call", params | {"args": 1})["error"]["message"]
    assert len(site.vault(server).calls) == reached
    # None of that used the approval up. What belongs to the protocol is taken; only what it reads itself is passed on.
    more = {"dev.example/x": "everyone", "traceparent": "00-1", "dev.callgate/x": {"id": 2}, "progressToken": "p"}
    more["annotations"] = {"account": "everyone"}
    whole = params | {"task": {"ttl": 1, "account": "everyone"}, "_meta": more, "requestState": None}
    assert "content" in client.answer("tools/call", whole)["result"]
    seen = site.vault(server).calls[-1]["params"]
    assert (seen["name"], seen["arguments"]) == (params["name"], params["arguments"])
    assert "task" not in seen
    kept = {name for name in seen["_meta"] if not name.startswith("io.modelcontextprotocol/")}
    # A modern server is told by the gateway itself where the session's data came from; by the client it is told nothing.
    assert kept - {"annotations"} == {"progressToken"}
    assert "everyone" not in str(seen)


@both_servers
async def test_evidence_does_not_help(site, server):
    client = Guest(site.gateway.url(server), {"extensions": {MARK: {}}})
    arguments = {"id": "evidence"}
    issued = client.answer("approval/challenge/create", {"toolName": "wipe", "arguments": arguments})["result"]
    params = {"name": "wipe", "arguments": arguments, "_meta": {MARK: site.person.evidence(issued)}}
    reached = len(site.vault(server).calls)
    assert reason(client.answer("tools/call", params | {"args": {"id": 2}})) == "invalid_params"
    assert reason(client.answer("tools/call", params | {"inputResponses": ANSWERS})) == "invalid_params"
    assert reason(client.answer("tools/call", params | {"requestState": "theirs"})) == "request_state_invalid"
    assert len(site.vault(server).calls) == reached
    assert "content" in client.answer("tools/call", params)["result"]


@both_servers
def test_a_tool_that_needs_nobody_gets_all_of_it(site, server):
    client = modern_guest(site, server)
    more = {"requestState": "theirs", "inputResponses": ANSWERS, "args": {"id": 2}}
    assert "content" in client.answer("tools/call", {"name": "look", "arguments": {}} | more)["result"]
    seen = site.vault(server).calls[-1]["params"]
    assert {name: seen[name] for name in more} == more
