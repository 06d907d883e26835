"""A list of tools whose last page never comes, or comes too slowly: no call passes meanwhile, and nothing piles up."""

import pytest

from support.pinning import pinned_site
from support.shifting import tool
from support.visitors import FEW, Way, until

REFUSED = (
    "toolset_too_large",
    "toolset_unverified",
    "check_timeout",
    "upstream_timeout",
    "upstream_too_large",
    "upstream_garbage",
)


@pytest.fixture(scope="module")
def _hasty(tmp_path_factory):
    tables = {name: {"timeout_seconds": 2.0} for name in ("web", "pipe")}
    with pinned_site(tmp_path_factory.mktemp("hasty"), tables=tables, limits={"check_seconds": 1.5}) as site:
        yield site


@pytest.fixture
def hasty(_hasty):
    """A gateway that waits two seconds for an answer, and less for a check."""
    for server in _hasty.servers.values():
        server.fresh()
    yield _hasty
    _hasty.leave()


@pytest.mark.parametrize("endless", ["same", "empty", "new"])
@pytest.mark.parametrize("way", FEW, ids=[way.text for way in FEW])
def test_cursors_without_end(hasty, way, endless):
    server = hasty.server(way)
    server.fresh(tool("read"))
    visitor = hasty.visit(way)
    visitor.names()
    hasty.approve(way.server, "read")
    visitor.until_open("read")
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


@pytest.mark.parametrize("way", FEW, ids=[way.text for way in FEW])
def test_pages_that_take_too_long(hasty, way):
    server = hasty.server(way)
    server.fresh(tool("read"), tool("other"), page=1)
    visitor = hasty.visit(way)
    visitor.names()
    hasty.approve(way.server, "read")
    visitor.until_open("read")
    before = server.called
    server.be(hold=["tools/list"])
    assert visitor.reason("read") in REFUSED
    assert server.called == before
    server.be(hold=None)
    until(lambda: visitor.reason("read") == "", "calls pass again")


@pytest.mark.parametrize("code", [-32601, -32603])
def test_a_server_that_does_not_list_at_all_runs_nothing(hasty, code):
    way = Way("serve", "legacy", "web")
    server = hasty.server(way)
    server.fresh(tool("read"))
    visitor = hasty.visit(way)
    visitor.names()
    hasty.approve("web", "read")
    visitor.until_open("read")
    before = server.called
    server.be(errors={"tools/list": code})
    assert visitor.reason("read") in ("toolset_unverified", "tool_unknown", "upstream_garbage")
    assert server.called == before
