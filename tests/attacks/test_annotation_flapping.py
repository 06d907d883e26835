"""Annotations, titles, output schemas and `_meta` that come and go with every connection: what a model or a client acts
on is reviewed each time, the rest is only logged."""

import json

from support.pinning import pinned_site
from support.raw_clients import Way, few_ways, until
from support.registry import requirement
from support.shifting import tool
from support.table import rows

BESIDE = {
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
    "title": "Read",
    "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "_meta": {"dev.example/shown": True},
}
MARKED = BESIDE | {"_meta": {"io.modelcontextprotocol/verified-approval": {"required": "verified"}}}


@few_ways
def test_what_nobody_acts_on_flaps_freely(pinned, way):
    flapping = {"_meta": {"dev.example/shown": True}, "icons": [{"src": "https://icons.test/read.png"}]}
    visitor = _approved(pinned, way, flapping)
    assert {one["detail"]["what"] for one in _alerts(pinned, way)} == {"beside"}
    assert set(flapping) <= {member for one in _alerts(pinned, way) for member in one["detail"]["members"]}
    assert visitor.names() == ["read"]


@few_ways
def test_what_a_model_or_a_client_acts_on_is_reviewed_when_it_flaps(pinned, way):
    """Each time it is another than what was approved, the tool is away; that it flaps is told to whoever reviews it."""
    for name in ("annotations", "title", "outputSchema", "audience"):
        _approved(pinned, way, {name: {**BESIDE, "audience": "models"}[name]}, closes=True)
        hint = until(lambda: "".join(pinned.row(way.server, "read")["hints"]), "it is told that it flaps")
        assert "changes again and again" in hint


def _approved(pinned, way, beside, *, closes=False):
    """A visitor of a tool that was approved without these members, and has them every other time."""
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    for number in range(6):
        server.be(tools=[tool("read", **(beside if number % 2 else {}))])
        if number % 3 == 0:
            visitor = pinned.again(visitor, way)
        closed = closes and number % 2 == 1
        assert visitor.reason("read") == ("tool_changed" if closed else "")
        assert visitor.names() == ([] if closed else ["read"])
        pinned.seen(way.server, "read")
    return visitor


def _alerts(pinned, way):
    server_id = pinned.identity(way.server).server_id
    return until(
        lambda: pinned.deeds("pinning.changed", server_id=server_id, tool="read"), "the change beside is on record"
    )


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
