"""A list in pages, with something on page 3 that neither reviewers nor a gate that reads one page would see."""

from support.raw_clients import few_ways
from support.registry import requirement
from support.shifting import tool

NAMES = ["one", "two", "three", "four", "five"]


@requirement("TP-018")
@few_ways
def test_every_page_is_checked(pinned, way):
    server = pinned.server(way)
    server.fresh(*map(tool, NAMES), page=2)
    visitor = pinned.visit(way)
    assert visitor.reason("five") == "tool_not_approved"
    assert visitor.names() == []
    pinned.approve(way.server, *NAMES)
    visitor.until_open(*NAMES)
    assert visitor.names() == sorted(NAMES)

    server.change("five", description="Hidden on page 3.")
    before = server.called.count("five")
    assert visitor.reason("five") == "tool_changed"
    assert visitor.reason("one") == ""
    assert visitor.names() == sorted(NAMES[:4])
    assert server.called.count("five") == before


@few_ways
def test_a_tool_added_on_page_three_is_gated(pinned, way):
    server = pinned.server(way)
    server.fresh(*map(tool, NAMES[:4]), page=2)
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, *NAMES[:4])
    visitor.until_open(*NAMES[:4])
    server.add(tool("five"))
    assert visitor.names() == sorted(NAMES[:4])
    assert visitor.reason("five") == "tool_not_approved"
    assert "five" not in server.called


@few_ways
def test_a_name_on_two_pages_with_two_texts_is_nobodys(pinned, way):
    """Which of the two a client shows its model, nobody can tell."""
    server = pinned.server(way)
    server.fresh(tool("read"), tool("other"), page=1)
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read", "other")
    visitor.until_open("read", "other")
    server.be(tools=[tool("read"), tool("other"), tool("read", "The other one of this name.")])
    before = server.called.count("read")
    assert visitor.reason("read") == "tool_unfit"
    # Page 1 is gone by the time that page 3 comes: what was on it is the text that was approved, and cannot be called.
    assert visitor.listed().get("read", tool("read"))["description"] == tool("read")["description"]
    assert b"The other one" not in visitor.sent_here
    assert visitor.reason("read") == "tool_unfit"
    assert visitor.reason("other") == ""
    assert server.called.count("read") == before
