"""Sessions opened and ended in a loop: a process that takes its time to end still counts against `processes`."""

from __future__ import annotations

import json
import socket
import sys

import psutil
import pytest

from support.gateway import serving
from support.hostile import head
from support.sessions import gone, initialize, modern, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process cannot refuse SIGTERM there")

STUBBORN = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
message = json.loads(sys.stdin.readline())
about = {"protocolVersion": "2025-11-25", "serverInfo": {"pid": os.getpid()}, "capabilities": {}}
wrong = message["params"].get("protocolVersion") == "wrong"
answer = {"error": {"code": -32602, "message": "no"}} if wrong else {"result": about}
if message["method"] == "initialize":
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    stubborn = {"command": [sys.executable, "-I", "-S", "-c", STUBBORN], "processes": 1}
    mute = stubborn | {"timeout_seconds": 0.3}
    servers = {"shared": mute, "deleted": stubborn, "refused": stubborn, "idle": stubborn | {"idle_seconds": 1}}
    with serving(tmp_path_factory.mktemp("gateway"), servers) as running:
        yield running


def children(gateway) -> set[int]:
    return {child.pid for child in psutil.Process(gateway.pid).children() if not gone(child.pid)}


def test_a_shared_process_that_is_replaced(gateway):
    """Who wants log messages and leaves has the next such client served by another process."""
    before = children(gateway)
    for _ in range(4):
        modern(gateway.url("shared"), "t", log=True)
        assert len(children(gateway) - before) <= 2


def test_a_session_that_is_deleted(gateway):
    url, before = gateway.url("deleted"), children(gateway)
    session = initialize(url).header("mcp-session-id")
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        connection.sendall(head(None, f"mcp-session-id: {session}", path="/servers/deleted/mcp", method="DELETE"))
        # Whether the request has been read yet or not: there is one process, so there is no room.
        for _ in range(20):
            assert initialize(url).status == 503
        assert len(children(gateway) - before) == 1
        assert b"204" in connection.recv(1000)
    assert initialize(url).status == 200


def test_a_session_that_the_server_refused(gateway):
    url, before = gateway.url("refused"), children(gateway)
    assert "error" in json.loads(initialize(url, "wrong").body)
    for _ in range(20):
        assert initialize(url, "wrong").status == 503
    assert len(children(gateway) - before) == 1


def test_a_session_that_was_idle(gateway):
    url, before = gateway.url("idle"), children(gateway)
    initialize(url)
    until(lambda: [event for event in gateway.events("session ended") if event["server"] == "idle"])
    refused = initialize(url)
    assert json.loads(refused.body)["error"]["data"]["reason"] == "session_limit"
    assert "processes" in json.loads(refused.body)["error"]["data"]["advice"]
    assert len(children(gateway) - before) == 1
