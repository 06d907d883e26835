"""A client, or what the model was talked into, calls a tool that is on no list; the server would run it."""

from support.raw import ask
from support.raw_clients import Way, all_ways, few_ways, reason_of
from support.registry import requirement
from support.sessions import message
from support.shifting import tool


@requirement("TP-007")
@all_ways
def test_a_tool_on_no_list_is_unknown_and_the_server_never_hears_of_the_call(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    first = visitor.call("debug_shell")
    assert (first["error"]["code"], reason_of(first)) == (-32602, "tool_unknown")
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    assert visitor.reason("debug_shell") == "tool_unknown"
    assert "debug_shell" not in server.called


@few_ways
def test_a_tool_that_is_gone_from_the_list_is_gone(pinned, way):
    """Even though it was approved: what the server no longer lists, nobody can check."""
    server = pinned.server(way)
    server.fresh(tool("read"), tool("old"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read", "old")
    visitor.until_open("read", "old")
    server.be(tools=[tool("read")])
    before = server.called.count("old")
    assert visitor.reason("old") == "tool_unknown"
    assert server.called.count("old") == before
    assert visitor.reason("read") == ""
    server.be(tools=[tool("read"), tool("old")])
    assert visitor.reason("old") == ""


def test_a_batch_hides_no_unlisted_call(pinned):
    way = Way("serve", "legacy", "web")
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve("web", "read")
    visitor.until_open("read")
    before = server.called
    calls = [message("tools/call", {"name": name, "arguments": {"id": "1"}}, name) for name in ("read", "debug_shell")]
    answer = ask(visitor.guest.url, b"[" + b",".join(calls) + b"]", visitor.guest.headers("", {}))
    assert b"tool_unknown" in answer.body
    assert "debug_shell" not in server.called
    assert server.called in (before, [*before, "read"])
