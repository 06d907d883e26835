"""A key twice in a list of tools keeps the gateway from putting its mark on one: then the client gets no list at all."""

import json

import pytest

from support.pinning import pinned_site
from support.raw_clients import FEW, reason_of
from support.registry import requirement
from support.shifting import tool
from support.table import rows

MARK = "io.modelcontextprotocol/verified-approval"
ENTRY = json.dumps(tool("pay"))[:-1]
GOOD = ENTRY + "}"
LISTS = {
    "in the _meta of the tool": '{"tools":[' + ENTRY + ',"_meta":{"a":1,"a":2}}]}',
    "with escapes": '{"tools":[' + ENTRY + ',"_meta":{"a":1,"\\u0061":2}}]}',
    "in the tool": '{"tools":[' + ENTRY + ',"title":"Pay","title":"Look"}]}',
    "in the result": '{"tools":[' + GOOD + '],"a":1,"a":2}',
    "as the list itself": '{"tools":[' + GOOD + '],"tools":[' + GOOD + "]}",
}


@pytest.fixture(scope="module")
def unpinned(tmp_path_factory):
    """A gateway that pins nothing, and asks a person before `pay`."""
    tables = {name: {"approval": {"tools": ["pay"]}} for name in ("web", "pipe")}
    approval = {"enabled": True, "park_seconds": 0}
    directory = tmp_path_factory.mktemp("unpinned")
    off = {"pinning": "it refuses such a list by itself, before a mark is tried"}
    with pinned_site(directory, tables=tables, off=off, approval=approval) as site:
        site.lasting = True
        yield site


@requirement("VA-165")
@rows("how", LISTS)
@rows("way", FEW, ids=[way.text for way in FEW])
def test_the_tool_is_not_shown_without_its_mark(unpinned, way, how):
    server = unpinned.server(way)
    server.fresh(tool("pay"))
    visitor = unpinned.visit(way)
    assert MARK in visitor.listed()["pay"]["_meta"]
    server.be(answers={"tools/list": ['{"jsonrpc":"2.0","id":"$ID","result":' + LISTS[how] + "}"]})
    assert reason_of(visitor.answer("tools/list")) == "upstream_garbage"
    server.be(answers=None)
    assert visitor.reason("pay") != ""
    assert server.called == []
    unpinned.leave()
