"""The store fails after a call was let through: what came back is withheld, for nobody would know that it was read."""

import json
import sqlite3
from contextlib import closing

import pytest

from support.raw import raw_server, stream_answer
from support.sessions import until
from support.table import rows
from support.trust_gateway import EVIL, PAGE, tool, trust_servers, trust_site

TABLES = ("trust_step", "trust_session")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "web", "version": "1"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server that breaks the store while it answers: what it has to say comes after the decision."""
    with raw_server() as server:
        offices = trust_servers()
        servers = {"mail": offices["mail"], "pipe": offices["pipe"]}
        directory = tmp_path_factory.mktemp("failing")
        extra = {"servers.web": {"url": server.url}}
        with trust_site(directory, servers, approval={"park_seconds": 0}, **extra) as running:
            server.breaks = None
            server.script = lambda request, connection: answer(running, server, request, connection)
            running.gateway.review("web")
            yield running, server


def rename(site, table, to):
    with closing(sqlite3.connect(site.gateway.store, timeout=20, isolation_level=None)) as db:
        db.execute("PRAGMA legacy_alter_table = ON")
        db.execute(f"ALTER TABLE {table} RENAME TO {to}")


def answer(site, server, request, connection):
    message = json.loads(request.body or "{}")
    if "id" not in message:
        # Nothing to say to a notification, or to a client that leaves.
        connection.sendall(b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        return
    result = {"content": [{"type": "text", "text": PAGE}]} if message["method"] == "tools/call" else HELLO
    if message["method"] == "tools/list":
        result = {"tools": [tool("fetch", "url")]}
    if message["method"] == "tools/call" and server.breaks:
        rename(site, server.breaks, f"{server.breaks}_gone")
        server.breaks = None
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
    if message["method"] == "tools/call" and message["params"]["arguments"]["url"].endswith("stream"):
        stream_answer(f"data: {body}\n\n".encode())(request, connection)
        return
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\nConnection: close\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())


@rows("table", TABLES)
@rows("url", ["https://a.example/", "https://a.example/stream"])
def test_the_result_does_not_reach_the_client(site, table, url):
    running, server = site
    agent = running.agent()
    agent.headers("web")
    server.breaks = table
    try:
        got = agent.request("web", "tools/call", {"name": "fetch", "arguments": {"url": url}})
    finally:
        reached, server.breaks = server.breaks is None, None
        if reached:
            rename(running, f"{table}_gone", table)
    assert reached, got
    assert EVIL not in json.dumps(got)
    assert got[-1]["error"]["data"]["reason"] == "result_withheld"
    assert "it has happened" in got[-1]["error"]["data"]["advice"]
    # It works again, and the session remembers what it reads from here.
    until(lambda: "result" in agent.call("web", "fetch", url=url))
    assert agent.asked_about()


def test_while_the_store_is_gone_nothing_is_called_at_all(site):
    running, _ = site
    agent = running.agent()
    agent.headers("pipe")
    before = len(running.servers["pipe"].calls())
    rename(running, "trust_session", "trust_session_gone")
    try:
        answer_ = agent.call("pipe", "fetch", url="https://a.example")
    finally:
        rename(running, "trust_session_gone", "trust_session")
    assert "error" in answer_
    assert len(running.servers["pipe"].calls()) == before
    until(lambda: "result" in agent.call("pipe", "fetch", url="https://a.example"))
