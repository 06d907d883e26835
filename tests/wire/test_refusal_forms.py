"""A refused call is answered in the form that its client shows: a JSON-RPC error, or a result with `isError`."""

import asyncio
import json
import subprocess
import sys

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from callgate.pipeline.dispatcher import REFUSAL_META, known_clients
from callgate.protocol import CAPABILITY
from support.gateway import serving, wrap_argv
from support.hostile import STDIO_SERVER, post
from support.table import rows

META = "io.modelcontextprotocol/"
COMMAND = [sys.executable, "-c", STDIO_SERVER]
CEREMONY = {"extensions": {CAPABILITY: {}}}
# Nobody has reviewed the tool, so its calls are refused.
CALL = {"name": "good", "arguments": {}}


def message(method, params, rpc_id=1):
    return {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}


def hello(name, capabilities):
    about = {"name": name, "version": "1"}
    return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": about}


def over_http(port, name, capabilities):
    """In a session that begins with `initialize`."""
    greeted = post(port, json.dumps(message("initialize", hello(name, capabilities))).encode())
    session = {"mcp-session-id": greeted.fields["mcp-session-id"]}
    post(port, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(), session)
    return post(port, json.dumps(message("tools/call", CALL)).encode(), session)


def stateless(port, name, capabilities):
    """As 2026-07-28 has it: each request says whose it is."""
    about = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": capabilities}
    about[f"{META}clientInfo"] = {"name": name, "version": "1"}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "good"}
    return post(port, json.dumps(message("tools/call", CALL | {"_meta": about})).encode(), headers)


def wrapped(folder, name, capabilities, **sections):
    """The answer to a call of a wrapped server."""
    folder.mkdir()
    argv = wrap_argv(folder, "one", COMMAND, **sections)
    lines = [message("initialize", hello(name, capabilities)), message("tools/call", CALL, 2)]
    lines.insert(1, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    sent = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(argv, input=sent, capture_output=True, text=True, timeout=120, check=True)
    return next(reply for line in done.stdout.splitlines() if (reply := json.loads(line)).get("id") == 2)


def assert_error(reply):
    assert reply["error"]["code"] == -31403
    assert reply["error"]["data"]["reason"] == "tool_not_approved"
    assert "result" not in reply


def assert_result(reply):
    """A sentence and what to do for those who read, and all that the error would say for programs."""
    result = reply["result"]
    assert result["isError"] is True
    [block] = result["content"]
    told = result["_meta"][REFUSAL_META]
    assert (told["code"], told["data"]["reason"]) == (-31403, "tool_not_approved")
    assert told["data"]["call"]
    assert block["type"] == "text"
    for part in (told["message"], told["data"]["advice"], "tool_not_approved"):
        assert part in block["text"]
    assert "error" not in reply


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("forms"), {"one": {"command": COMMAND}}, reviewed=False) as running:
        yield running


@rows("way", [over_http, stateless])
def test_a_client_gets_the_form_that_it_shows(gateway, way):
    names = [*known_clients(), "claude-ai (via mcp-remote 0.1.37)"]
    for name in names:
        got = way(gateway.port, name, {})
        assert got.status == 200
        assert_result(got.json)
        assert ("resultType" in got.json["result"]) == (way is stateless)


@rows("way", [over_http, stateless])
def test_every_other_client_gets_an_error(gateway, way):
    for name in ("", "raw", "Claude-Code", "claude-code-2", "mcp", "claude-code" * 50):
        assert_error(way(gateway.port, name, {}).json)


@rows("way", [over_http, stateless])
def test_whoever_does_the_ceremony_reads_the_error(gateway, way):
    assert_error(way(gateway.port, "claude-code", CEREMONY).json)


def test_every_known_client_says_how_it_was_found_out():
    for client in known_clients().values():
        assert client.form in ("error", "result")
        assert client.title
        assert client.seen


@rows("setting", ["error", "result"])
def test_the_setting_counts_more_than_the_name(tmp_path, setting):
    tables = {"one": {"command": COMMAND}}
    with serving(tmp_path, tables, reviewed=False, gateway={"refusals": setting}) as running:
        for way in (over_http, stateless):
            for name in ("claude-code", "raw"):
                reply = way(running.port, name, {}).json
                (assert_result if setting == "result" else assert_error)(reply)
            assert_error(way(running.port, "raw", CEREMONY).json)


def test_a_wrapped_server_does_the_same(tmp_path):
    assert_result(wrapped(tmp_path / "known", "claude-code", {}))
    assert_error(wrapped(tmp_path / "other", "raw", {}))
    assert_error(wrapped(tmp_path / "ceremony", "claude-code", CEREMONY))
    assert_result(wrapped(tmp_path / "set", "raw", {}, gateway={"refusals": "result"}))


@rows("off", [{}, {"pinning": "nothing is reviewed", "trust": "nothing is labelled"}])
def test_the_kill_switch_too(tmp_path, off):
    """Whatever refuses, and whichever checks are on."""
    with serving(
        tmp_path, {"one": {"command": COMMAND}}, reviewed=False, off=off, policy={"block_all": True}
    ) as running:
        reply = stateless(running.port, "claude-code", {}).json
        assert reply["result"]["_meta"][REFUSAL_META]["data"]["reason"] == "blocked_by_policy"
        assert stateless(running.port, "raw", {}).json["error"]["data"]["reason"] == "blocked_by_policy"


@rows("mode", ["legacy", "auto"])
def test_the_official_client_sees_the_text(gateway, mode):
    async def call(name):
        about = Implementation(name=name, version="1")
        async with Client(gateway.url("one"), mode=mode, client_info=about) as client:
            try:
                return await client.call_tool("good", {})
            except MCPError as error:
                return error

    result = asyncio.run(call("claude-code"))
    assert result.is_error
    assert "Callgate refused this call" in result.content[0].text
    assert result.meta[REFUSAL_META]["data"]["reason"] == "tool_not_approved"
    assert asyncio.run(call("raw")).error.data["reason"] == "tool_not_approved"
