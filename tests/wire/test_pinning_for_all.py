"""One gateway, many clients: one approval counts for all of them, so does its end, and one log has all their calls."""

from __future__ import annotations

from support.raw_clients import Way, over_ways, until
from support.registry import requirement
from support.shifting import tool
from support.table import rows

PAIRS = [
    (Way("serve", "legacy", "web"), Way("serve", "modern", "web")),
    (Way("serve", "legacy", "pipe"), Way("serve", "legacy", "pipe")),
    (Way("serve", "modern", "pipe"), Way("wrap", "legacy", "pipe")),
]
pairs = rows("ways", PAIRS, ids=["+".join(way.text for way in pair) for pair in PAIRS])


def arrive(pinned, ways):
    server = pinned.server(ways[0])
    server.fresh(tool("read"), tool("write"))
    visitors = [pinned.visit(way) for way in ways]
    for visitor in visitors:
        assert visitor.names() == []
    pinned.approve(ways[0].server, "read")
    for visitor in visitors:
        visitor.until_open("read")
    return server, visitors


@requirement("TP-002")
@pairs
def test_one_approval_serves_every_client(pinned, ways):
    _, visitors = arrive(pinned, ways)
    assert [visitor.names() for visitor in visitors] == [["read"], ["read"]]
    assert {visitor.reason("write") for visitor in visitors} == {"tool_not_approved"}


@requirement("TP-003")
@rows("how", ["block", "withdraw"])
@pairs
def test_taking_it_back_closes_it_for_every_client(pinned, ways, how):
    server, visitors = arrive(pinned, ways)
    getattr(pinned, how)(ways[0].server, "read")
    reason = "tool_blocked" if how == "block" else "tool_not_approved"
    for visitor in visitors:
        visitor.until_closed("read", reason)
        assert visitor.names() == []
    before = server.called
    assert {visitor.reason("read") for visitor in visitors} == {reason}
    assert server.called == before


@requirement("TP-004")
@pairs
def test_one_log_has_the_calls_of_all_with_who_made_them(pinned, ways):
    _, visitors = arrive(pinned, ways)
    before = len(pinned.records())
    for number, visitor in enumerate(visitors):
        assert visitor.reason("read", id=f"call {number}") == ""
    mine = pinned.records()[before:]
    assert [record["arguments"]["value"]["id"] for record in mine] == ["call 0", "call 1"]
    form = {"v", "call", "at", "gateway", "server", "transport", "tool", "arguments", "verdict", "checks", "extra"}
    assert all(form <= record.keys() for record in mine)
    assert {record["server"] for record in mine} == {ways[0].server}
    callers = [(record["transport"], record.get("session"), record.get("protocol")) for record in mine]
    assert callers[0] != callers[1]
    assert {record["extra"]["pin"]["approval_hash"] for record in mine} == {
        pinned.seen(ways[0].server, "read").approval_hash
    }


@over_ways([pair[0] for pair in PAIRS[:2]])
def test_a_client_is_told_when_a_decision_changes_what_it_may_see(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    assert visitor.names() == []
    with visitor.listening() as heard:
        pinned.approve(way.server, "read")

        def told():
            return [one for one in heard if one.get("method") == "notifications/tools/list_changed"]

        until(told, "the client is told that its list has changed")
        assert visitor.names() == ["read"]
        count = len(told())
        pinned.block(way.server, "read")
        until(lambda: len(told()) > count, "the client is told again")
        assert visitor.names() == []


@rows("upstream", ["web", "pipe"])
def test_wrap_tells_its_client_too(pinned, upstream):
    way = Way("wrap", "legacy", upstream)
    pinned.server(way).fresh(tool("read"))
    visitor = pinned.visit(way)
    assert visitor.names() == []
    with visitor.listening() as heard:
        pinned.approve(upstream, "read")
        until(
            lambda: [one for one in heard if one.get("method") == "notifications/tools/list_changed"],
            "the client is told that its list has changed",
        )
        assert visitor.names() == ["read"]


@over_ways([Way("serve", "legacy", "web"), Way("wrap", "legacy", "pipe")])
def test_the_greeting_says_that_the_list_may_change(pinned, way):
    """Whatever the server says: the gateway's decisions change the list."""
    pinned.server(way).fresh(tool("read"))
    pinned.server(way).be(capabilities={"tools": {}})
    visitor = pinned.visit(way)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw"}}
    capabilities = visitor.answer("initialize", hello)["result"]["capabilities"]
    assert capabilities["tools"]["listChanged"] is True
