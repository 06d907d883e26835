"""A description of five megabytes, to crowd the model's context or to choke the gateway, the store or the reviewer."""

import json

from support.pinning import pinned_site
from support.raw_clients import Way, few_ways
from support.registry import requirement
from support.shifting import tool
from support.table import rows

LARGE, HUGE = ("Reads a record. " * (size * 1024 * 1024 // 16) for size in (1, 5))


@requirement("TP-043")
@few_ways
def test_beyond_the_room_for_a_whole_list_nothing_of_the_list_is_used(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"), tool("other"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read", "other")
    visitor.until_open("read", "other")
    before = server.called
    server.change("read", description=HUGE)
    assert {"read", "other"}.isdisjoint(visitor.listed())
    assert HUGE[:200].encode() not in visitor.sent_here
    assert visitor.reason("read") == visitor.reason("other") == "toolset_too_large"
    assert server.called == before


@requirement("TP-043")
@few_ways
def test_a_megabyte_never_reaches_the_agent_and_its_neighbours_work(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"), tool("other"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read", "other")
    visitor.until_open("read", "other")
    before = server.called.count("read")
    server.change("read", description=LARGE)
    listed = visitor.listed()
    assert "read" not in listed
    assert "other" in listed
    assert visitor.reason("read") == "tool_unfit"
    assert visitor.reason("other") == ""
    assert server.called.count("read") == before


@requirement("TP-044")
@rows("where", ["description", "inputSchema"])
def test_one_byte_beyond_the_limit_is_rejected_and_has_no_hash(tmp_path, where):
    def sized(size):
        entry = tool("read", "")
        missing = size - len(json.dumps(entry, separators=(",", ":")))
        if where == "description":
            return entry | {"description": "x" * missing}
        schema = entry["inputSchema"]
        more = len('"title":"",')
        return entry | {"inputSchema": {"title": "x" * (missing - more), **schema}}

    with pinned_site(tmp_path, pinning={"tool_bytes": 2048}) as site:
        visitor = site.visit(Way("serve", "modern", "web"))
        site["web"].fresh(sized(2049), tool("other"))
        visitor.until_closed("read", "tool_unfit")
        assert visitor.names() == []
        server_id = site.identity("web").server_id
        site.seen("web", "other")
        hashes = {one.tool: one.approval_hash for one in site.tools_seen(server_id)}
        assert hashes.get("read", "") == ""
        assert hashes["other"]
        site["web"].fresh(sized(2048))
        assert visitor.reason("read") == "tool_not_approved"
        site.approve("web", "read", override=True)
        visitor.until_open("read")


@requirement("TP-045")
def test_within_the_bytes_but_beyond_the_tokens_is_rejected(tmp_path):
    """Digits cost more tokens than words of the same length."""
    with pinned_site(tmp_path, pinning={"tool_bytes": 65536, "tool_tokens": 200}) as site:
        visitor = site.visit(Way("serve", "modern", "web"))
        site["web"].fresh(tool("wordy", " ".join(str(number) for number in range(1000, 1800))), tool("short"))
        assert visitor.reason("wordy") == "tool_unfit"
        assert visitor.reason("short") == "tool_not_approved"
        assert visitor.names() == []
