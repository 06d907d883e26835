"""A client asks for another list by a header of its own: the server lists less to it, and nobody else loses a tool."""

import json

import pytest

from support.gateway import command, serving
from support.hostile import answer, hostile_server, post
from support.pinning import PINNING
from support.raw_clients import until
from support.shifting import tool

META = "io.modelcontextprotocol/"
ENVELOPE = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}


def behave(peer, request):
    """As servers do that let each client choose its toolsets."""
    few = "x-mcp-toolsets" in request.headers
    result = {"tools": [] if few else [tool("read")], "resultType": "complete"}
    if request.message["method"] == "tools/call":
        result = {"content": [], "isError": False, "resultType": "complete"}
    peer.send(answer(json.dumps({"jsonrpc": "2.0", "id": request.id, "result": result}).encode()))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    pinning = PINNING | {"recheck_seconds": 600}
    with hostile_server({"": behave, "read": behave}) as server:
        tables = {"web": {"url": server.url}}
        with serving(tmp_path_factory.mktemp("callers"), tables, pinning=pinning) as running:
            yield running


def asked(gateway, method, more, headers):
    params = {**more, "_meta": ENVELOPE}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    routing = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    routing |= {"mcp-name": more["name"]} if "name" in more else {}
    return post(gateway.port, body, {**routing, **headers}).json


def called(gateway, **headers):
    return asked(gateway, "tools/call", {"name": "read", "arguments": {"id": "1"}}, headers)


def test_each_is_held_to_the_list_that_it_is_shown(gateway):
    asked(gateway, "tools/list", {}, {})

    def met():
        return [one for one in json.loads(command(gateway.config, "tools", "list", "--json")) if one["tool"] == "read"]

    found = until(met, "the tool was met")[0]
    words = ("--server", found["server_id"], "--tool", "read", "--hash", found["approval_hash"])
    command(gateway.config, "tools", "approve", *words)
    until(lambda: "result" in called(gateway), "calls pass")
    few = {"x-mcp-toolsets": "none"}
    for _ in range(2):
        names = [one["name"] for one in asked(gateway, "tools/list", {}, few)["result"]["tools"]]
        assert names == []
        assert called(gateway, **few)["error"]["data"]["reason"] == "tool_unknown"
        assert "result" in called(gateway)
        # What differs with every request is no other caller.
        assert "result" in called(
            gateway, **{"x-request-id": "7", "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
        )
