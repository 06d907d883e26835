"""The reviewer reads one text; the server has another by the time that the approval arrives."""

from support.raw_clients import Way, few_ways
from support.registry import requirement
from support.shifting import tool


@requirement("TP-020")
@few_ways
def test_an_approval_of_what_is_no_longer_there_is_refused_and_leaves_nothing(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    read = pinned.seen(way.server, "read").approval_hash
    server.change("read", description="What nobody has read.")
    assert visitor.reason("read") == "tool_not_approved"
    pinned.seen(way.server, "read")
    words = ("tools", "approve", "--server", pinned.identity(way.server).server_id, "--tool", "read", "--hash", read)
    said = pinned.command(*words, status=1)
    assert "tool_changed" in said
    assert visitor.reason("read") == "tool_not_approved"
    assert visitor.names() == []
    assert "read" not in server.called
    server_id = pinned.identity(way.server).server_id
    assert not pinned.deeds("pinning.approved", server_id=server_id, tool="read")


@few_ways
def test_the_text_changes_right_after_the_approval(pinned, way):
    """Approved in good faith, swapped in the same moment: the approval does not cover what came after it."""
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.seen(way.server, "read")
    pinned.approve(way.server, "read")
    server.change("read", description="What nobody has read.")
    before = server.called
    visitor.until_closed("read", "tool_changed")
    assert server.called == before


def test_a_hash_that_never_was_approves_nothing(pinned):
    server = pinned["web"]
    server.fresh(tool("read"))
    visitor = pinned.visit(Way("serve", "modern", "web"))
    visitor.names()
    named = pinned.seen("web", "read").server_id
    for made_up in ("sha256:" + "0" * 64, "", "read", "sha256:*", "sha256:"):
        pinned.command("tools", "approve", "--server", named, "--tool", "read", "--hash", made_up, status=1)
    assert visitor.reason("read") == "tool_not_approved"


@requirement("TP-010")
def test_there_is_no_command_that_approves_a_whole_server(pinned):
    server = pinned["web"]
    server.fresh(tool("read"), tool("write"))
    visitor = pinned.visit(Way("serve", "modern", "web"))
    visitor.names()
    seen = pinned.seen("web", "read")
    named = ("tools", "approve", "--server", seen.server_id)
    pinned.command(*named, status=2)
    pinned.command(*named, "--hash", seen.approval_hash, status=2)
    for every in ("*", "", "read,write"):
        pinned.command(*named, "--tool", every, "--hash", seen.approval_hash, status=1)
    assert {visitor.reason("read"), visitor.reason("write")} == {"tool_not_approved"}
