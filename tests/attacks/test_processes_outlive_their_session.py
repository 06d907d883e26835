"""Sessions opened and ended in a loop: a process that takes its time to end still counts against `processes`."""

from __future__ import annotations

import json
import socket
import sys

import psutil
import pytest

from support.gateway import serving
from support.hostile import head
from support.raw import streaming
from support.sessions import gone, initialize, modern_call, modern_headers, until

# It answers what a reviewer asks, tells of each call that comes and is given up, and goes on when its input ends.
STUBBORN = """
import json, os, sys, time
from pathlib import Path
about = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "stubborn", "version": "1"}, "capabilities": {"tools": {}}}
tools = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message["method"], {"error": {"code": -32602, "message": "no"}}
    if method == "tools/call":
        (Path(sys.argv[1]) / f"called-{os.getpid()}").touch()
        progress = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}), flush=True)
    if method == "notifications/cancelled":
        (Path(sys.argv[1]) / f"left-{os.getpid()}").touch()
    if method == "initialize" and message["params"].get("protocolVersion") != "wrong":
        answer = {"result": about}
    if method == "tools/list":
        answer = {"result": tools}
    if "id" in message and method != "tools/call":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    return tmp_path_factory.mktemp("called")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, called):
    stubborn = {"command": [sys.executable, "-I", "-S", "-c", STUBBORN, str(called)], "processes": 1}
    servers = {"shared": stubborn, "deleted": stubborn, "refused": stubborn, "idle": stubborn | {"idle_seconds": 1}}
    with serving(tmp_path_factory.mktemp("gateway"), servers, reviewed=False) as running:
        running.review("shared")
        yield running


def children(gateway) -> set[int]:
    return {child.pid for child in psutil.Process(gateway.pid).children() if not gone(child.pid)}


def refused_until_it_is_gone(gateway, url, before) -> None:
    """While the process is there, nobody gets another."""
    (old,) = children(gateway) - before
    while (answer := initialize(url)).status != 200:
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["data"]["reason"]) == (503, "session_limit")
        assert "processes" in error["data"]["advice"]
        assert len(children(gateway) - before) <= 1
    assert gone(old)


def called_and_left(url) -> bytes:
    """What a client who wants log messages was told first; then it leaves."""
    with streaming(url, modern_call("t", 1, "token", log=True), modern_headers("t")) as response:
        return response.read1()


def test_a_shared_process_that_is_replaced(gateway, called):
    """Who wants log messages and leaves has the next such client served by another process."""
    url, before = gateway.url("shared"), children(gateway)
    for number in range(1, 5):
        told = called_and_left(url)
        if b"toolset_unverified" in told:
            # The tools of another process are looked at before the first call of it.
            told = called_and_left(url)
        assert b"notifications/progress" in told, told
        assert len(children(gateway) - before) <= 2
        assert len(list(called.glob("called-*"))) == number
        until(lambda number=number: len(list(called.glob("left-*"))) == number)


def test_a_session_that_is_deleted(gateway):
    url, before = gateway.url("deleted"), children(gateway)
    session = initialize(url).header("mcp-session-id")
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        connection.sendall(head(None, f"mcp-session-id: {session}", path="/servers/deleted/mcp", method="DELETE"))
        # Whether the request has been read yet or not: there is one process, so there is no room.
        refused_until_it_is_gone(gateway, url, before)
        assert b"204" in connection.recv(1000)


def test_a_session_that_the_server_refused(gateway):
    url, before = gateway.url("refused"), children(gateway)
    assert "error" in json.loads(initialize(url, "wrong").body)
    refused_until_it_is_gone(gateway, url, before)


def test_a_session_that_was_idle(gateway):
    url, before = gateway.url("idle"), children(gateway)
    initialize(url)
    until(lambda: [event for event in gateway.events("session ended") if event["server"] == "idle"])
    refused_until_it_is_gone(gateway, url, before)
