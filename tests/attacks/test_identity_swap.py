"""A server calls itself by another name or version, or goes back to one: an approval is for one identity only."""

import pytest

from support.gateway import serving
from support.pinning import PINNING, Site, shifty_site
from support.raw_clients import Way, all_ways, few_ways, reason_of
from support.registry import requirement
from support.shifting import listening, tool
from support.table import rows

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


@requirement("TP-025", "TP-027", "TP-028")
@rows("era", ["legacy", "modern"])
def test_each_part_of_an_address_counts(tmp_path, era):
    """One server by its address, by another name of the same machine, and as somebody whom the operator names."""
    with listening(tmp_path / "web") as server:
        server.fresh(tool("read"))
        local = server.url.replace("127.0.0.1", "localhost")
        proven = {"url": server.url, "pinning": {"identity": "spiffe://prod/mail"}}
        tables = {"plain": {"url": server.url}, "elsewhere": {"url": local}, "proven": proven}
        with serving(tmp_path, tables, reviewed=False, pinning=PINNING) as gateway:
            site = Site(tmp_path, gateway, dict.fromkeys(tables, server))
            plain, *others = (site.visit(Way("serve", era, name)) for name in tables)
            assert plain.names() == []
            site.approve("plain", "read")
            plain.until_open("read")
            before = len(server.called)
            for other in others:
                assert other.names() == []
                assert other.reason("read") == "tool_not_approved"
            server.be(version="1.0.1")
            plain = site.again(plain, Way("serve", era, "plain"))
            assert plain.names() == []
            assert plain.reason("read") == "tool_not_approved"
            assert len(server.called) == before
            # The record says of each refused call as whom its server was known.
            ids = {one["extra"]["pin"]["server_id"] for one in site.records() if one.get("reason")}
            assert {one.partition(" (")[0] for one in ids} == {
                f"{server.url} as unauthenticated",
                f"{local} as unauthenticated",
                f"{server.url} as spiffe://prod/mail",
            }
            assert any(one.endswith(" 1.0.1)") for one in ids)
            site.leave()


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
