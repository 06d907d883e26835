"""Annotations, titles, output schemas and `_meta` that come and go with every connection: seen, but no false alarm."""

import json

from support.pinning import pinned_site
from support.registry import requirement
from support.shifting import tool
from support.table import rows
from support.visitors import Way, few_ways, until

BESIDE = {
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
    "title": "Read",
    "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "_meta": {"dev.example/shown": True},
}
MARKED = BESIDE | {"_meta": {"io.modelcontextprotocol/verified-approval": {"required": "verified"}}}


@few_ways
def test_a_tool_whose_annotations_flap_stays_approved(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    for number in range(6):
        server.be(tools=[tool("read", **(BESIDE if number % 2 else {}))])
        if number % 3 == 0:
            visitor = pinned.again(visitor, way)
        assert visitor.reason("read") == ""
        assert visitor.names() == ["read"]
    server_id = pinned.identity(way.server).server_id
    alerts = until(
        lambda: pinned.deeds("pinning.changed", server_id=server_id, tool="read"), "the change beside is on record"
    )
    assert {one["detail"]["what"] for one in alerts} == {"beside"}
    assert set(BESIDE) <= {member for one in alerts for member in one["detail"]["members"]}


@requirement("TP-015")
@rows("era", ["legacy", "modern"])
def test_where_the_operator_wants_it_a_dropped_mark_closes_the_tool(tmp_path, era):
    """The mark asks for a person before every call: a server that drops it wants calls without one."""
    with pinned_site(tmp_path, pinning={"beside": "block"}) as site:
        way = Way("serve", era, "web")
        site["web"].fresh(tool("pay", **MARKED))
        visitor = site.visit(way)
        visitor.names()
        site.approve("web", "pay")
        # Reviewed, it is for a person to say, and nobody is enrolled.
        until(lambda: visitor.reason("pay") == "approval_unavailable", "the approval is heard of")
        before = site["web"].called.count("pay")
        site["web"].be(tools=[tool("pay", **{**MARKED, "_meta": {}})])
        answer = visitor.call("pay")
        assert answer["error"]["data"]["reason"] == "tool_changed"
        assert "_meta" in answer["error"]["message"]
        assert visitor.names() == []
        assert site["web"].called.count("pay") == before
        until(lambda: site.deeds("pinning.changed", tool="pay", what="beside"), "an alert")
        events = [json.loads(line) for line in site.gateway.lines if "pay" in line and line.startswith("{")]
        assert any(event.get("level") == "warning" for event in events)
