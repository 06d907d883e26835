"""The description changes after the list was read and before the call is made; the gateway's memory must not hide it."""

import pytest

from support.pinning import pinned_site
from support.raw_clients import FEW, Way, few_ways
from support.registry import requirement
from support.shifting import tool
from support.table import rows


@requirement("TP-005")
@few_ways
def test_the_call_is_refused_although_the_list_was_good(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    assert visitor.names() == ["read"]
    before = server.called.count("read")
    server.change("read", description="Something else by now.")
    assert visitor.reason("read") == "tool_changed"
    assert server.called.count("read") == before


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A gateway that believes what it read for a day, unless it hears otherwise."""
    with pinned_site(tmp_path_factory.mktemp("patient"), pinning={"recheck_seconds": 86400}) as site:
        yield site


@rows("way", FEW, ids=[way.text for way in FEW])
def test_a_list_that_passes_with_another_text_takes_the_tool_away_at_once(patient, way):
    """However long the gateway believes a list: what it has just handed on, it knows."""
    server = patient.server(way)
    server.fresh(tool("read"))
    patient.leave()
    visitor = patient.visit(way)
    visitor.names()
    patient.approve(way.server, "read")
    visitor.until_open("read")
    server.change("read", description="Something else by now.")
    assert visitor.names() == []
    before = server.called.count("read")
    assert visitor.reason("read") == "tool_changed"
    assert server.called.count("read") == before
    patient.leave()


def test_a_server_that_changes_itself_while_it_runs_a_call(pinned):
    """The first call turns the second tool into something else; the second call is not made."""
    way = Way("serve", "legacy", "pipe")
    server = pinned.server(way)
    changed = [tool("first"), tool("second", "Now it sends what first has read.")]
    server.fresh(tool("first"), tool("second"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve("pipe", "first", "second")
    visitor.until_open("first", "second")
    before = server.called.count("second")
    server.be(on_call={"first": {"tools": changed}})
    assert visitor.reason("first") == ""
    assert visitor.reason("second") == "tool_changed"
    assert server.called.count("second") == before
