"""A client that tries the modern era first, in front of a server that has only the handshake: it falls back as it would
without the gateway."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from support.clients import connected, over_stdio
from support.fork_server import CALLGATE
from support.gateway import Gateway, serving
from support.persons import over_pipes
from support.raw import CLOSE, Received, json_answer, raw_server
from support.sessions import teller_argv
from support.table import rows

PID = {
    "name": "pid",
    "description": "Says nothing.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def old_server(request: Received, connection: socket.socket) -> None:
    """As servers of the handshake era answer: what comes before `initialize`, or names another version, is refused."""
    if not request.body:
        connection.sendall(b"HTTP/1.1 405 Method Not Allowed\r\n" + CLOSE + b"Content-Length: 0\r\n\r\n")
        return
    message = json.loads(request.body)
    if message["method"] == "initialize":
        about = {"name": "old", "version": "1"}
        result = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "serverInfo": about}
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        json_answer(answer, b"Mcp-Session-Id: old-1")(request, connection)
    elif request.header("mcp-session-id") != [b"old-1"]:
        error = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: no session"}}'
        head = b"HTTP/1.1 400 Bad Request\r\n" + CLOSE + b"Content-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(error) + error)
    elif "id" not in message:
        connection.sendall(b"HTTP/1.1 202 Accepted\r\n" + CLOSE + b"Content-Length: 0\r\n\r\n")
    else:
        result = {"tools": [PID]} if message["method"] == "tools/list" else {"content": []}
        json_answer(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())(request, connection)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, dict[str, Any]]]:
    with raw_server() as old:
        old.script = old_server
        directory = tmp_path_factory.mktemp("old")
        servers: dict[str, Any] = {"web": {"url": old.url}, "pipe": {"command": teller_argv(directory)}}
        with serving(directory, servers) as gateway:
            yield gateway, servers


@rows("way", ["direct-http", "direct-stdio", "http-http", "http-stdio", "stdio-stdio", "stdio-http"])
async def test_a_modern_client_meets_an_old_server(site, tmp_path, way):
    gateway, servers = site
    wrap = [CALLGATE, "wrap", "--alone", "-c", str(gateway.config)]
    server = {
        "direct-http": lambda: servers["web"]["url"],
        "direct-stdio": lambda: over_stdio(servers["pipe"]["command"], tmp_path / "stderr"),
        "http-http": lambda: gateway.url("web"),
        "http-stdio": lambda: gateway.url("pipe"),
        "stdio-stdio": lambda: over_pipes([*wrap, "pipe"], tmp_path / "stderr"),
        "stdio-http": lambda: over_pipes([*wrap, "web"], tmp_path / "stderr"),
    }[way]()
    async with connected(server, "auto", tmp_path) as connection:
        assert connection.client.protocol_version == LATEST_HANDSHAKE_VERSION
        assert connection.client.server_info is not None
        assert connection.client.server_info.name == ("old" if way.endswith("-http") else "teller")
        request = types.Request[dict[str, Any], str](method="tools/call", params={"name": "pid"})
        result = await connection.client.session.send_request(request, types.CallToolResult)
        assert result.content == []
