"""A server marks a tool only after a while; an agent that knows it calls the tool at once, before the gateway looks."""

import pytest

from support.gateway import approve_listed
from support.persons import MARK, approval_site
from support.sessions import Guest, until
from support.states import reason
from support.table import rows

CEREMONY = {"extensions": {MARK: {}}}


@pytest.fixture(
    scope="module",
    params=[
        ("modern", "slashes"),
        ("legacy", "events", "slashes"),
        *(pytest.param(one, marks=pytest.mark.verify) for one in (("legacy",), ("modern", "events"))),
    ],
    ids="-".join,
)
def site(request, tmp_path_factory):
    """What a server says once is remembered: each one is met in one era."""
    era, *options = request.param
    with approval_site(tmp_path_factory.mktemp("later"), *options) as running:
        running.era = era
        yield running


def ran(site, server, tool):
    return [one for one in site.vault(server).calls if one["params"]["name"] == tool]


def test_a_tool_that_was_not_marked_before(site):
    """Over a pipe, or a stream that passes, the server's word that its list has changed is heard."""
    agent = Guest.arrive(site.gateway.url("pipe"), site.era, **CEREMONY)
    assert "result" in agent.call("look", 1, id="early")
    before = len(ran(site, "pipe", "look"))
    agent.call("grow", 2)
    assert reason(agent.call("look", 3, id="now")) == "missing_evidence"
    assert len(ran(site, "pipe", "look")) == before


@rows("server", ["web", "pipe"])
def test_a_tool_that_was_on_no_list_before(site, server):
    """Nobody has reviewed it; once somebody has, its mark counts from the first call."""
    agent = Guest.arrive(site.gateway.url(server), site.era, **CEREMONY)
    agent.call("late", 1, id="early")
    agent.call("grow", 2)
    before = len(ran(site, server, "late"))
    assert reason(agent.call("late", 3, id="now")) in ("tool_unknown", "tool_not_approved", "missing_evidence")
    agent.answer("tools/list", {})
    approve_listed(site.gateway.config)
    until(lambda: reason(agent.call("late", 4, id="reviewed")) == "missing_evidence")
    assert len(ran(site, server, "late")) == before
