"""A client that gives a call up, and the calls that come right after it: they are answered, whoever makes them."""

from __future__ import annotations

import http.client
import random
import threading
import time
import uuid

import pytest

from support.pinning import pinned_site
from support.raw_clients import ERAS, Way, until
from support.shifting import tool
from support.table import rows

LEVEL = {"_meta": {"io.modelcontextprotocol/logLevel": "debug"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with pinned_site(tmp_path_factory.mktemp("given-up"), pinning={"recheck_seconds": 3600}) as running:
        yield running


def opened(site, server, era, *tools):
    tools = ("read", *tools)
    site[server].fresh(*map(tool, tools))
    visitor = site.visit(Way("serve", era, server))
    visitor.names()
    site.approve(server, *tools)
    visitor.until_open(*tools)
    return visitor


def start(visitor, mark, name="read"):
    """A call on its way, on a connection of its own."""
    guest, params = visitor.guest, {"name": name, "arguments": {"id": mark}}
    host, _, path = guest.url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host)
    connection.request("POST", f"/{path}", guest.body("tools/call", params, mark), guest.headers("tools/call", params))
    return connection


def give_up(visitor, server, name="read"):
    """A call that has reached the server, and whose client leaves."""
    mark = uuid.uuid4().hex
    connection = start(visitor, mark, name)
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


@pytest.fixture
def crowded(tmp_path):
    """A gateway that waits for the end of one process before it starts another."""
    with pinned_site(tmp_path, pinning={"recheck_seconds": 3600}, tables={"pipe": {"processes": 1}}) as running:
        # Beside the shared one, this session has the only process that there may be.
        running.visit(Way("serve", "legacy", "pipe"))
        yield running


def test_callers_are_answered_while_their_process_is_replaced(crowded):
    """Who asks for log messages after a call was given up gets another process: the others wait for its list."""
    site = crowded
    server = site["pipe"]
    opened(site, "pipe", "modern", "slow")
    server.be(linger=0.1, hold=["tools/call slow"])
    before = server.connections
    way, stop = Way("serve", "modern", "pipe"), threading.Event()
    replies = []

    def leave_again_and_again():
        guest = site.visit(way)
        while not stop.is_set():
            give_up(guest, server, "slow")
            time.sleep(0.1)

    def call_again_and_again(level):
        guest, params = site.visit(way).guest, {"name": "read", "arguments": {"id": "2"}, **level}
        for rpc_id in range(1, 26):
            replies.append(guest.request("tools/call", params, rpc_id))
            # A process that somebody waits for is not replaced.
            time.sleep(0.05 * random.random())

    leaving = threading.Thread(target=leave_again_and_again)
    calling = [threading.Thread(target=call_again_and_again, args=(level,)) for level in ({}, {}, LEVEL, LEVEL)]
    for one in (leaving, *calling):
        one.start()
    for one in calling:
        one.join()
    stop.set()
    leaving.join()
    assert server.connections > before + 1
    assert len(replies) == 100
    assert [(one.status, one.body) for one in replies if one.status != 200 or b'"result"' not in one.body] == []
    site.leave()
