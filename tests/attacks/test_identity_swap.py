"""A server calls itself by another name or version, or goes back to one: an approval is for one identity only."""

import pytest

from support.pinning import shifty_site
from support.registry import requirement
from support.shifting import tool
from support.table import rows
from support.visitors import Way, all_ways, few_ways, reason_of

SWAPS = {"renamed": lambda state: {"name": state["name"] + "-2"}, "re-versioned": lambda _state: {"version": "1.0.1"}}


def approved(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"), tool("other"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read", "other")
    visitor.until_open("read", "other")
    visitor.until_open("other")
    return visitor


@requirement("TP-028", "TP-050", "TP-068", "TP-072", "TP-082")
@rows("swap", SWAPS)
@all_ways
def test_nothing_is_inherited(pinned, way, swap):
    visitor = approved(pinned, way)
    server = pinned.server(way)
    before, known = server.called, pinned.identity(way.server).server_id
    server.be(**SWAPS[swap](server.state))
    visitor = pinned.again(visitor, way)
    assert visitor.names() == []
    assert {visitor.reason("read"), visitor.reason("other")} == {"tool_not_approved"}
    assert server.called == before
    assert pinned.identity(way.server).server_id != known
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    assert visitor.reason("other") == "tool_not_approved"


@pytest.mark.verify
@requirement("TP-051")
@few_ways
def test_a_known_origin_with_a_new_identity_is_pointed_out(pinned, way):
    visitor = approved(pinned, way)
    known = pinned.identity(way.server).server_id
    pinned.server(way).be(version="2.0.0")
    visitor = pinned.again(visitor, way)
    assert visitor.names() == []
    answer = visitor.call("read")
    assert reason_of(answer) == "tool_not_approved"
    assert "another version" in answer["error"]["message"]
    row = pinned.row(way.server, "read")
    assert row["state"] == "new"
    assert any(known in hint and row["server_id"] in hint for hint in row["hints"]), row["hints"]


@pytest.mark.verify
@few_ways
def test_a_version_rolled_back_to_an_approved_one_is_asked_for_again(pinned, way):
    """The version is the server's own word: an attacker with a flaw in the old one would like it back."""
    visitor = approved(pinned, way)
    server = pinned.server(way)
    server.be(version="1.1.0")
    visitor = pinned.again(visitor, way)
    assert visitor.reason("read") == "tool_not_approved"
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    server.be(version="1.0.0")
    visitor = pinned.again(visitor, way)
    before = server.called.count("read")
    assert "read" not in visitor.names()
    assert visitor.reason("read") == "tool_changed"
    assert server.called.count("read") == before
    pinned.approve(way.server, "read")
    visitor.until_open("read")


@requirement("TP-014", "TP-025", "TP-049")
@rows("era", ["legacy", "modern"])
def test_another_server_that_says_the_same_of_itself_gets_nothing(tmp_path, era):
    """Same name, same version, same tools, another address."""
    with shifty_site(tmp_path, "first", "second") as site:
        for server in site.servers.values():
            server.fresh(tool("read"))
            server.be(name="the-same", version="1.0.0")
        first, second = (site.visit(Way("serve", era, name)) for name in ("first", "second"))
        assert (first.names(), second.names()) == ([], [])
        site.approve("first", "read")
        site.together()
        first.until_open("read")
        assert second.names() == []
        assert second.reason("read") == "tool_not_approved"
        assert site["second"].called == []
        ids = {one.server_id for one in site.servers_seen()}
        assert len(ids) == 2


@rows("name", ["x (y 1.0.0)", "a) as tls:bank (b", "%20", "shifty\u0000", "\u202egnp", "n" * 5000])
def test_no_reported_name_imitates_another_identity(pinned, name):
    way = Way("serve", "legacy", "web")
    visitor = approved(pinned, way)
    known = pinned.identity("web").server_id
    pinned["web"].be(name=name)
    visitor = pinned.again(visitor, way)
    assert visitor.names() == []
    assert visitor.reason("read") == "tool_not_approved"
    newest = pinned.servers_seen()[0]
    assert newest.server_id != known
    assert newest.server_id.isprintable()
    assert len(newest.server_id) < 1000


@rows("front", ["serve", "wrap"])
def test_another_program_in_the_same_place_is_another_server(pinned, front):
    """The name and the version that it reports are those of the old one."""
    way = Way(front, "legacy", "pipe")
    visitor = approved(pinned, way)
    program = pinned["pipe"].program
    text = program.read_text()
    program.write_text(text + "\n# Other code.\n")
    try:
        visitor = pinned.again(visitor, way)
        assert visitor.names() == []
        assert visitor.reason("read") == "tool_not_approved"
    finally:
        program.write_text(text)
