"""One of many tools changes: the others go on, and approving the one again approves none of the others."""

from support.raw_clients import Way, few_ways
from support.registry import requirement
from support.shifting import tool
from support.table import rows

NAMES = [f"tool_{number}" for number in range(6)]


@requirement("TP-010", "TP-065")
@few_ways
def test_others_are_never_affected(pinned, way):
    server = pinned.server(way)
    server.fresh(*map(tool, NAMES))
    visitor = pinned.visit(way)
    visitor.names()
    approved, never = NAMES[:4], NAMES[4:]
    pinned.approve(way.server, *approved)
    visitor.until_open(*approved)
    for name in ("tool_0", "tool_3"):
        server.change(name, description="Does something else.")
        assert visitor.names() == [one for one in approved if one != name]
        assert visitor.reason(name) == "tool_changed"
        for other in approved:
            assert (visitor.reason(other) == "") == (other != name)
        pinned.approve(way.server, name)
        visitor.until_open(name)
        assert visitor.names() == approved
        assert {visitor.reason(one) for one in never} == {"tool_not_approved"}
    assert not set(server.called) & set(never)


@rows("change", ["changed", "added", "gone", "reordered"])
def test_what_happens_to_a_neighbour_leaves_a_blocked_tool_blocked(pinned, change):
    way = Way("serve", "modern", "web")
    server = pinned.server(way)
    server.fresh(tool("bad"), tool("good"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.block("web", "bad", "it asks for keys")
    pinned.approve("web", "good")
    visitor.until_open("good")
    if change == "changed":
        server.change("bad", description="Now I am harmless.")
    elif change == "added":
        server.add(tool("bad_2"))
    elif change == "gone":
        server.be(tools=[tool("bad")])
    else:
        server.be(tools=[tool("good"), tool("bad")])
    answer = visitor.call("bad")
    assert answer["error"]["data"]["reason"] == "tool_blocked"
    assert "it asks for keys" in answer["error"]["message"]
    assert "bad" not in server.called
    assert "bad" not in visitor.names()
