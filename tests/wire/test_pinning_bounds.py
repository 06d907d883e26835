"""How many servers agents see together, which are kept apart, and how large and how fast a list may grow."""

from __future__ import annotations

import json

from support.pinning import shifty_site
from support.raw import ask
from support.raw_clients import ERAS, RawHttpClient, Way, until
from support.registry import requirement
from support.shifting import tool
from support.table import rows


@requirement("TP-037", "TP-075")
@rows("era", ERAS)
def test_one_server_above_the_cap_is_refused_and_the_cap_is_on_view(tmp_path, era):
    with shifty_site(tmp_path, "one", "two", "three", pinning={"servers": 2}) as site:
        visitors = {}
        for name in site.servers:
            site[name].fresh(tool(f"read_{name}"))
            visitors[name] = site.visit(Way("serve", era, name))
        for name in ("one", "two"):
            visitors[name].names()
            site.approve(name, f"read_{name}")
            visitors[name].until_open(f"read_{name}")
        # By a call before any list, by a list, and by a call after it.
        assert visitors["three"].reason("read_three") == "server_limit"
        answer = visitors["three"].answer("tools/list")
        assert "read_three" not in json.dumps(answer.get("result", {}))
        assert visitors["three"].reason("read_three") == "server_limit"
        assert site["three"].called == []
        assert visitors["one"].reason("read_one") == ""
        said = json.loads(site.command("tools", "servers", "--json"))["groups"]
        assert said == [{"group": "", "connected": 2, "most": 2}]
        assert "2 of at most 2 servers" in site.command("tools", "servers")


@requirement("TP-039", "TP-076")
@rows("era", ERAS)
def test_a_server_in_a_group_is_served_only_there(tmp_path, era):
    tables = {"odd": {"pinning": {"group": "lab"}}}
    with shifty_site(tmp_path, "main", "odd", tables=tables, pinning={"servers": 1}) as site:
        site["main"].fresh(tool("read"))
        site["odd"].fresh(tool("strange"))
        inside = f"{site.gateway.address}/groups/lab/servers/odd/mcp"
        main = site.visit(Way("serve", era, "main"))
        odd = RawHttpClient(inside, era)
        site.visitors.append(odd)
        assert (main.names(), odd.names()) == ([], [])
        site.approve("main", "read")
        site.approve("odd", "strange")
        main.until_open("read")
        odd.until_open("strange")
        assert main.names() == ["read"]
        assert odd.names() == ["strange"]
        assert main.reason("strange") == "tool_unknown"
        assert odd.reason("read") == "tool_unknown"
        hello = odd.guest.body("ping", {})
        for path in (
            "/servers/odd/mcp",
            "/groups/lab/servers/main/mcp",
            "/groups/other/servers/odd/mcp",
            "/groups//servers/odd/mcp",
            "/groups/other/mcp",
        ):
            reply = ask(f"{site.gateway.address}{path}", hello, odd.guest.headers("ping", {}))
            assert reply.status == 404, (path, reply.body)
        assert set(site["odd"].called) == {"strange"}
        groups = json.loads(site.command("tools", "servers", "--json"))["groups"]
        assert groups == [{"group": "", "connected": 1, "most": 1}, {"group": "lab", "connected": 1, "most": 1}]


@requirement("TP-047")
@rows("era", ERAS)
def test_growth_between_connections_is_reported_even_when_it_is_approved(pinned, era):
    way = Way("serve", era, "web")
    server = pinned["web"]
    server.fresh(tool("read", "Reads a record. " * 10), tool("other"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve("web", "read", "other")
    visitor.until_open("read", "other")
    server_id = pinned.identity("web").server_id
    before = len(pinned.deeds("pinning.grown", server_id=server_id))
    server.change("read", description="Reads a record. " * 20)
    visitor = pinned.again(visitor, way)
    visitor.names()
    pinned.approve("web", "read")
    visitor.until_open("read")
    until(lambda: len(pinned.deeds("pinning.grown", server_id=server_id)) > before, "the growth is on record")
    warnings = [line for line in pinned.gateway.lines if "grown" in line and '"warning"' in line]
    assert warnings


@requirement("TP-043", "TP-044")
@rows("era", ERAS)
def test_a_megabyte_of_description_never_reaches_the_agent(pinned, era):
    server = pinned["pipe"]
    server.fresh(tool("read", "x" * 1_000_000), tool("other"))
    visitor = pinned.visit(Way("serve", era, "pipe"))
    visitor.attempt("tools/list")
    assert visitor.reason("read") == "tool_unfit"
    assert b"xxxxxxxx" not in visitor.sent_here
    assert visitor.reason("other") == "tool_not_approved"
