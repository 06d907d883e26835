"""A list of tools whose last page never comes, or comes too slowly: no call passes meanwhile, and nothing piles up."""

import pytest

from support.pinning import pinned_site
from support.raw_clients import FEW, Way, few_ways
from support.shifting import tool
from support.table import rows

REFUSED = ("toolset_too_large", "toolset_unverified", "upstream_too_large", "upstream_garbage")


@pytest.fixture(scope="module")
def _hasty(tmp_path_factory):
    with pinned_site(tmp_path_factory.mktemp("hasty"), limits={"check_seconds": 1}) as site:
        yield site


@pytest.fixture
def hasty(_hasty):
    """A gateway that waits a second for a check."""
    _hasty.begin_row()
    yield _hasty
    _hasty.leave()


def approved(site, way, *tools, **more):
    site.server(way).fresh(*map(tool, tools), **more)
    visitor = site.visit(way)
    visitor.names()
    site.approve(way.server, "read")
    visitor.until_open("read")
    return visitor


KINDS = ["same", "empty", "new"]


def test_cursors_without_end(pinned):
    never_ends(pinned, FEW[1], "new")


@pytest.mark.verify
@rows("endless", KINDS)
@few_ways
def test_cursors_without_end_of_every_kind(pinned, way, endless):
    never_ends(pinned, way, endless)


def never_ends(site, way, endless):
    visitor = approved(site, way, "read")
    server = site.server(way)
    before = server.called
    server.be(endless=endless)
    lists = len(server.received("tools/list"))
    assert visitor.reason("read") in REFUSED
    assert server.called == before
    assert len(server.received("tools/list")) - lists <= 2000
    asked = len(server.received("tools/list"))
    page = visitor.answer("tools/list")
    assert len(server.received("tools/list")) - asked <= 2000
    # A page is passed on as it comes; what is on it was approved, and cannot be called while the list does not end.
    assert {entry["name"] for entry in page.get("result", {}).get("tools", [])} <= {"read", "callgate_pending"}
    assert visitor.reason("read") in REFUSED
    assert server.called == before
    server.be(endless=None)
    visitor.until_open("read")


@few_ways
def test_pages_that_take_too_long(hasty, way):
    visitor = approved(hasty, way, "read", "other", page=1)
    server = hasty.server(way)
    before = server.called
    server.be(hold=["tools/list"])
    assert visitor.reason("read") in ("check_timeout", "toolset_unverified")
    assert server.called == before
    server.be(hold=None)
    visitor.until_open("read")


@rows("code", [-32601, -32603])
def test_a_server_that_does_not_list_at_all_runs_nothing(pinned, code):
    way = Way("serve", "legacy", "web")
    visitor = approved(pinned, way, "read")
    server = pinned.server(way)
    before = server.called
    server.be(errors={"tools/list": code})
    assert visitor.reason("read") in ("toolset_unverified", "tool_unknown", "upstream_garbage")
    assert server.called == before
