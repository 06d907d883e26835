"""A client that gives a call up, and the calls that come right after it: they are answered, whoever makes them."""

from __future__ import annotations

import http.client
import threading
import uuid

import pytest

from support.pinning import pinned_site
from support.shifting import tool
from support.table import rows
from support.visitors import ERAS, Way, until

LEVEL = {"_meta": {"io.modelcontextprotocol/logLevel": "debug"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with pinned_site(tmp_path_factory.mktemp("given-up"), pinning={"recheck_seconds": 3600}) as running:
        yield running


def opened(site, server, era):
    site[server].fresh(tool("read"))
    visitor = site.visit(Way("serve", era, server))
    visitor.names()
    site.approve(server, "read")
    visitor.until_open("read")
    return visitor


def start(visitor, mark):
    """A call on its way, on a connection of its own."""
    guest, params = visitor.guest, {"name": "read", "arguments": {"id": mark}}
    host, _, path = guest.url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host)
    connection.request("POST", f"/{path}", guest.body("tools/call", params, mark), guest.headers("tools/call", params))
    return connection


def give_up(visitor, server):
    """A call that has reached the server, and whose client leaves."""
    mark = uuid.uuid4().hex
    connection = start(visitor, mark)
    until(lambda: mark in (server.directory / "calls").read_text(), "the call has reached the server")
    connection.close()


@rows("level", [{}, LEVEL], ids=["plain", "log level"])
@rows("era", ERAS)
@rows("name", ["web", "pipe"])
def test_the_next_call_is_answered(site, name, era, level):
    """Also where it asks for log messages, and goes to a process that all share."""
    visitor = opened(site, name, era)
    server = site[name]
    params = {"name": "read", "arguments": {"id": "2"}, **level}
    for number in range(5):
        server.be(hold=["tools/call"])
        give_up(visitor, server)
        server.be(hold=None)
        reply = visitor.guest.request("tools/call", params, f"next-{number}")
        assert (reply.status, b'"result"' in reply.body) == (200, True), reply
    site.leave()


@rows("name", ["web", "pipe"])
def test_leaving_while_the_tools_are_looked_at(site, name):
    """The gateway reads the list of a new session for the first caller; who comes next is answered all the same."""
    opened(site, name, "legacy")
    server = site[name]
    for _ in range(3):
        visitor = site.visit(Way("serve", "legacy", name))
        server.be(hold=["tools/list"])
        lists = len(server.received("tools/list"))
        connection = start(visitor, "left")
        until(lambda lists=lists: len(server.received("tools/list")) > lists, "the list is asked for")
        connection.close()
        server.be(hold=None)
        reply = visitor.guest.request("tools/call", {"name": "read", "arguments": {"id": "2"}}, "next")
        assert (reply.status, b'"result"' in reply.body) == (200, True), reply
    site.leave()


@rows("era", ERAS)
@rows("name", ["web", "pipe"])
def test_another_client_is_answered_while_clients_leave(site, name, era):
    """Whatever is shared, a connection or a process: nobody else hears of who has left."""
    visitor = opened(site, name, era)
    server = site[name]
    server.be(delay={"tools/call": 0.05})
    stop = threading.Event()

    def leave_again_and_again():
        guest = site.visit(Way("serve", era, name))
        while not stop.is_set():
            give_up(guest, server)

    leaving = [threading.Thread(target=leave_again_and_again) for _ in range(3)]
    for one in leaving:
        one.start()
    try:
        guest, params = visitor.guest, {"name": "read", "arguments": {"id": "2"}}
        replies = [guest.request("tools/call", params, rpc_id) for rpc_id in range(1, 11)]
    finally:
        stop.set()
        for one in leaving:
            one.join()
    assert [(one.status, one.body) for one in replies if one.status != 200 or b'"result"' not in one.body] == []
    site.leave()
