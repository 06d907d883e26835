"""A server lists five thousand tools: none of them fills the model's context, and the gateway goes on."""

import pytest

from support.pinning import pinned_site
from support.raw_clients import Way, few_ways
from support.registry import requirement
from support.shifting import tool
from support.table import rows

TOOLS = [tool(f"tool_{number}") for number in range(5000)]
BOUND = 1000


@few_ways
def test_one_beyond_the_bound_no_tool_is_seen_or_called(pinned, way):
    paged = way.server == "pipe"
    flood(pinned, way, TOOLS[: BOUND + 1], 500 if paged else 0)


@pytest.mark.verify
@rows("page", [0, 500])
@few_ways
def test_far_beyond_the_bound_no_tool_is_seen_or_called(pinned, way, page):
    flood(pinned, way, TOOLS, page)


def flood(pinned, way, tools, page):
    server = pinned.server(way)
    server.fresh(tool("tool_1"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "tool_1")
    visitor.until_open("tool_1")
    before = server.called
    server.be(tools=tools, page=page)
    assert visitor.reason("tool_1") == "toolset_too_large"
    assert visitor.reason(tools[-1]["name"]) == "toolset_too_large"
    # Page by page, what was approved may still be shown: nothing that fills a context, and nothing that can be called.
    assert visitor.names() == (["tool_1"] if page else [])
    assert visitor.reason("tool_1") == "toolset_too_large"
    assert server.called == before
    server.be(tools=[tool("tool_1")])
    assert visitor.reason("tool_1") == ""


@requirement("TP-046")
def test_many_small_tools_beyond_the_sum_are_rejected(tmp_path):
    with pinned_site(tmp_path, pinning={"list_bytes": 4096, "list_tools": 100}) as site:
        visitor = site.visit(Way("serve", "modern", "web"))
        site["web"].fresh(*(tool(f"t{number}") for number in range(30)))
        assert visitor.reason("t0") == "toolset_too_large"
        assert visitor.names() == []
        site["web"].fresh(*(tool(f"t{number}") for number in range(5)))
        assert visitor.reason("t0") == "tool_not_approved"


@pytest.mark.verify
def test_where_so_many_are_allowed_they_work(tmp_path):
    """The operator's choice: five thousand tools, one of them approved, one changed."""
    bounds = {"list_tools": 10000, "list_bytes": "64 MiB", "list_tokens": 10**7}
    with pinned_site(tmp_path, pinning=bounds) as site:
        site["web"].fresh(*TOOLS)
        visitor = site.visit(Way("serve", "legacy", "web"))
        visitor.names()
        site.approve("web", "tool_1", "tool_4999")
        visitor.until_open("tool_1", "tool_4999")
        assert visitor.names() == ["tool_1", "tool_4999"]
        site["web"].change("tool_4999", description="Other.")
        assert visitor.reason("tool_4999") == "tool_changed"
        assert visitor.reason("tool_1") == ""
