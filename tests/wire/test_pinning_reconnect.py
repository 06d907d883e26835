"""After a connection is made anew, and while the tools are being checked: nothing passes before the check has ended."""

from __future__ import annotations

import json
import threading

import pytest

from callgate.pinning.model import TOOLSET_META
from support.gateway import Gateway
from support.pinning import pinned_site
from support.raw_clients import FEW_SERVED, Way, all_ways, few_ways, over_ways, reason_of, until
from support.registry import requirement
from support.shifting import tool

# A process that was killed a moment ago may still be asked, and then says nothing.
NOT_YET = ("toolset_unverified", "check_timeout", "upstream_timeout", "upstream_closed")


def settled(site, way):
    server = site.server(way)
    server.be(tools=[tool("read")], hold=None)
    visitor = site.visit(way)
    visitor.names()
    if site.row(way.server, "read")["state"] != "approved":
        site.approve(way.server, "read")
        # Both servers have a tool of this name.
        site.together()
    visitor.until_open("read")
    return visitor


@requirement("TP-018", "TP-019", "TP-070")
@all_ways
def test_after_a_reconnect_calls_wait_for_the_check(patient, way):
    """However long a list is believed: a new connection is checked. Where there are no sessions, the server is."""
    visitor = settled(patient, way)
    server = patient.server(way)
    before = server.called
    server.be(hold=["tools/list"])
    lists = len(server.received("tools/list"))
    if way.era == "modern" and way.front == "serve":
        # No connection belongs to a client: the server itself goes and comes.
        if way.server == "pipe":
            server.kill_last()
            assert_waits(patient, visitor, way, lists, before)
            return
        listener = patient.visit(way)
        with listener.listening():
            mark = server.push()
            until(lambda: mark in listener.sent_here, "the push has come")
            assert_waits(patient, listener, way, lists, before)
        return
    visitor = patient.again(visitor, way)
    assert_waits(patient, visitor, way, lists, before)


def assert_waits(site, visitor, way, lists, before):
    server = site.server(way)
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(visitor.reason("read")))
    thread.start()
    until(lambda: answers or len(server.received("tools/list")) > lists, "the gateway asks for the list")
    if way.front == "serve":
        # What is asked after it is answered meanwhile; a pipe keeps the order.
        visitor.answer("ping")
    assert server.called == before
    assert not answers or answers[0] in NOT_YET
    server.be(hold=None)
    thread.join()
    assert answers[0] == "" or answers[0] in NOT_YET
    visitor.until_open("read")


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A gateway that believes a list for an hour, and waits a second for one."""
    directory = tmp_path_factory.mktemp("hasty")
    with pinned_site(directory, pinning={"recheck_seconds": 3600}, limits={"check_seconds": 1}) as site:
        site.lasting = True
        yield site


@requirement("TP-058")
@few_ways
def test_while_the_list_never_comes_calls_are_refused(hasty, way):
    visitor = settled(hasty, way)
    server = hasty.server(way)
    with visitor.listening():
        server.be(hold=["tools/list"])
        mark = server.push()
        until(lambda: mark in visitor.sent_here, "the client is told")
        before = server.called
        assert visitor.reason("read") in NOT_YET
        assert server.called == before
        server.be(hold=None)
        visitor.until_open("read")


@requirement("TP-057")
@few_ways
def test_a_call_under_an_outdated_version_of_the_toolset_is_refused(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"), tool("write"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    version = visitor.answer("tools/list")["result"]["_meta"][TOOLSET_META]
    params = {"name": "read", "arguments": {"id": "1"}, "_meta": {TOOLSET_META: version}}
    assert reason_of(visitor.answer("tools/call", params)) == ""
    pinned.approve(way.server, "write")
    visitor.until_open("write")
    before = server.called
    assert reason_of(visitor.answer("tools/call", params)) == "toolset_outdated"
    assert server.called == before
    version = visitor.answer("tools/list")["result"]["_meta"][TOOLSET_META]
    params["_meta"] = {TOOLSET_META: version}
    assert reason_of(visitor.answer("tools/call", params)) == ""
    for wrong in ("", "0" * 16, None, 7, {}):
        params["_meta"] = {TOOLSET_META: wrong}
        reason = reason_of(visitor.answer("tools/call", params))
        assert reason == "toolset_outdated" or wrong is None


@requirement("TP-059")
def test_the_interval_and_the_last_check_of_each_server_are_on_view(tmp_path):
    with pinned_site(tmp_path, pinning={"recheck_seconds": 0.5}) as site:
        way = Way("serve", "modern", "web")
        site["web"].fresh(tool("read"))
        visitor = site.visit(way)
        visitor.names()
        site.approve("web", "read")
        visitor.until_open("read")

        def status():
            found = json.loads(site.command("tools", "servers", "--json"))["servers"]
            return next(one for one in found if one["name"] == "web")

        first = status()
        assert first["recheck_seconds"] == 0.5
        assert first["last_check"] > 0
        lists = len(site["web"].received("tools/list"))
        site["web"].change("read", description="Something else.")
        visitor.until_closed("read", "tool_changed")
        assert len(site["web"].received("tools/list")) > lists
        until(lambda: status()["last_check"] > first["last_check"], "the check is on view")


@requirement("TP-069")
@over_ways(FEW_SERVED)
def test_approvals_survive_a_restart(tmp_path, way):
    with pinned_site(tmp_path) as site:
        server = site.server(way)
        server.fresh(tool("read"), tool("write"), tool("bad"))
        visitor = site.visit(way)
        visitor.names()
        site.approve(way.server, "read")
        site.block(way.server, "bad")
        visitor.until_open("read")
        site.leave()
        site.gateway.stop()
        site.gateway = Gateway(site.gateway.config)
        try:
            visitor = site.visit(way)
            assert visitor.names() == ["read"]
            assert visitor.reason("read") == ""
            assert visitor.reason("write") == "tool_not_approved"
            assert visitor.reason("bad") == "tool_blocked"
        finally:
            site.leave()
            assert site.gateway.stop() == 0


def test_a_configuration_reloaded_keeps_what_was_approved(tmp_path):
    """And a server of the same name at another address is another server."""
    with pinned_site(tmp_path) as site:
        way = Way("serve", "legacy", "web")
        site["web"].fresh(tool("read"))
        visitor = site.visit(way)
        visitor.names()
        site.approve("web", "read")
        visitor.until_open("read")
        path = site.gateway.config
        path.write_text(path.read_text().replace("recheck_seconds = 0", "recheck_seconds = 0.01"))
        until(
            lambda: site.gateway.events("configuration reloaded") or site.gateway.events("reloaded"), "it is read again"
        )
        visitor = site.visit(way)
        assert visitor.reason("read") == ""
