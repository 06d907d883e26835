"""One server met in both eras of the protocol is one identity, with one review: whichever came first."""

from __future__ import annotations

from support.pinning import pinned_site
from support.raw_clients import Way
from support.registry import requirement
from support.shifting import tool
from support.table import rows


def reviewed_once(site, server, eras, names=("read", "write")):
    """Reviewed in the first of two eras, and met in the other."""
    first, then = (Way("serve", era, server) for era in eras)
    visitor = site.visit(first)
    assert visitor.names() == []
    site.approve(server, *names)
    visitor.until_open(*names)
    other = site.visit(then)
    assert other.names() == list(names)
    assert other.reason(names[0]) == ""
    assert visitor.names() == list(names)
    named = [one for one in site.servers_seen() if site[server].state["name"] in one.reported]
    assert len(named) == 1


@requirement("TP-019")
@rows(
    ("server", "eras", "stampless"),
    [
        ("web", ("legacy", "modern"), False),
        ("web", ("modern", "legacy"), False),
        ("pipe", ("legacy", "modern"), False),
        ("pipe", ("modern", "legacy"), False),
        # It says who it is in its greeting only, and is known by that.
        ("web", ("legacy", "modern"), True),
        ("pipe", ("legacy", "modern"), True),
    ],
)
def test_reviewed_in_one_era_is_approved_in_the_other(pinned, server, eras, stampless):
    pinned[server].fresh(tool("read"), tool("write"), stampless=stampless)
    reviewed_once(pinned, server, eras)


@requirement("TP-019")
def test_a_server_whose_lists_do_not_name_it_is_asked_who_it_is(tmp_path):
    """Otherwise it would be nobody in the one era and have a name in the other."""
    with pinned_site(tmp_path) as site:
        for server, names in (("web", ("fetch", "search")), ("pipe", ("read", "write"))):
            site[server].fresh(*map(tool, names), stampless=["tools/list"])
            reviewed_once(site, server, ("modern", "legacy"), names)


def test_a_server_that_never_says_who_it_is_is_asked_once(tmp_path):
    with pinned_site(tmp_path) as site:
        site["web"].fresh(tool("read"), stampless=True)
        visitor = site.visit(Way("serve", "modern", "web"))
        assert [visitor.names() for _ in range(3)] == [[], [], []]
        assert len(site["web"].received("server/discover")) == 1
