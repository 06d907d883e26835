"""A server says that its tools changed while it still answers with the old list: that list does not count as checked."""

import json

import pytest

from support.persons import MARK
from support.pinning import pinned_site
from support.raw_clients import WAYS, Way
from support.registry import requirement
from support.shifting import CHANGED, tool
from support.table import rows

WORSE = "Something else by now."


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A gateway that believes what it read for a day, unless it hears otherwise."""
    with pinned_site(tmp_path_factory.mktemp("patient"), pinning={"recheck_seconds": 86400}) as site:
        yield site


def approved(patient, way, *tools):
    server = patient.server(way)
    server.fresh(*map(tool, tools))
    patient.leave()
    visitor = patient.visit(way)
    visitor.names()
    patient.approve(way.server, *tools)
    visitor.until_open(*tools)
    return server, visitor


def assert_looked_at_again(server, visitor):
    server.be(asides=None, page=None, events=None)
    server.change("read", description=WORSE)
    before = server.called.count("read")
    assert visitor.reason("read") == "tool_changed"
    assert server.called.count("read") == before


@requirement("TP-005")
@rows("way", WAYS, ids=[way.text for way in WAYS])
def test_told_ahead_of_the_list(patient, way):
    server, visitor = approved(patient, way, "read")
    server.be(asides={"tools/list": [CHANGED]}, events=True)
    visitor.attempt("tools/list")
    assert_looked_at_again(server, visitor)


@rows("way", WAYS[:4], ids=[way.text for way in WAYS[:4]])
@rows("late", [False, True], ids=["first page", "last page"])
def test_told_ahead_of_one_page(patient, way, late):
    server, visitor = approved(patient, way, "other", "read")
    server.be(page=1, events=True, asides=None if late else {"tools/list": [CHANGED]})
    cursor = visitor.answer("tools/list")["result"]["nextCursor"]
    server.be(asides={"tools/list": [CHANGED]} if late else None)
    assert "nextCursor" not in visitor.answer("tools/list", {"cursor": cursor})["result"]
    assert_looked_at_again(server, visitor)


@rows("way", WAYS[:4], ids=[way.text for way in WAYS[:4]])
def test_what_the_client_was_shown_so_is_remembered_all_the_same(patient, way):
    """Else a server that shows its clients another text than the gateway would only have to tell of a change."""
    server, visitor = approved(patient, way, "read")
    server.be(faces={"relayed": [tool("read", WORSE)]}, asides={"tools/list": [CHANGED]}, events=True)
    visitor.attempt("tools/list")
    assert WORSE not in json.dumps(visitor.sent_here.decode())
    server.be(asides=None, events=None)
    before = server.called.count("read")
    assert visitor.reason("read") != ""
    assert server.called.count("read") == before


WRAPPED, SERVED = Way("wrap", "legacy", "pipe"), Way("serve", "legacy", "pipe")
MARKED = {MARK: {"required": "verified", "authenticatorClass": "platform"}}


@requirement("TP-005")
@rows("change", [{"description": WORSE}, {"_meta": MARKED}, {"title": "Other"}], ids=["text", "mark", "title"])
def test_told_after_the_list_was_read_and_before_the_call_leaves(patient, change):
    """The list is read again, and has another entry: what the call was let through by does not hold for that."""
    way = WRAPPED
    server, _ = approved(patient, way, "read")
    patient.leave()
    # The first call makes `wrap` read the list twice: for what was approved, and for what needs a person.
    server.be(restless=[2], later={"3": [tool("read") | change]})
    visitor = patient.visit(way)
    before = server.called.count("read")
    assert visitor.reason("read") in ("tool_changed", "toolset_unverified")
    assert server.called.count("read") == before


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A gateway that waits a second for a list."""
    with pinned_site(tmp_path_factory.mktemp("hasty"), limits={"check_seconds": 1}) as site:
        yield site


@requirement("TP-058")
@rows(("way", "first"), [(WRAPPED, 1), (WRAPPED, 2), (SERVED, 1)], ids=["wrap", "wrap later", "serve"])
def test_told_again_and_again(hasty, way, first):
    """A server that never rests is not called, and not asked for ever either."""
    server, _ = approved(hasty, way, "read")
    hasty.leave()
    server.be(restless=list(range(first, 1000)))
    visitor = hasty.visit(way)
    before, lists = server.called.count("read"), len(server.received("tools/list"))
    assert visitor.reason("read") in ("toolset_unverified", "check_timeout")
    assert server.called.count("read") == before
    assert len(server.received("tools/list")) < lists + 40
