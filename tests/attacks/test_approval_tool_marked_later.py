"""A server marks a tool only after a while; an agent that knows it calls the tool at once, before the gateway looks."""

import pytest

from support.persons import MARK, approval_site
from support.sessions import Guest

CEREMONY = {"extensions": {MARK: {}}}


@pytest.fixture(
    params=[(), ("events",), ("events", "slashes"), ("slashes",)], ids=lambda options: "-".join(options) or "plain"
)
def site(request, tmp_path):
    with approval_site(tmp_path, *request.param) as running:
        yield running


def refused(answer):
    return "error" in answer and answer["error"]["data"]["reason"] == "missing_evidence"


def ran(site, server, tool):
    return [one for one in site.vault(server).calls if one["params"]["name"] == tool]


@pytest.mark.parametrize("server", ["web", "pipe"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_tool_that_was_on_no_list_before(site, server, era):
    agent = Guest.arrive(site.gateway.url(server), era, **CEREMONY)
    agent.call("late", 1, id="early")
    agent.call("grow", 2)
    before = len(ran(site, server, "late"))
    assert refused(agent.call("late", 3, id="now"))
    assert len(ran(site, server, "late")) == before


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_tool_that_was_not_marked_before(site, era):
    """Over a pipe, or a stream that passes, the server's word that its list has changed is heard."""
    agent = Guest.arrive(site.gateway.url("pipe"), era, **CEREMONY)
    assert "result" in agent.call("look", 1, id="early")
    agent.call("grow", 2)
    assert refused(agent.call("look", 3, id="now"))
    assert len(ran(site, "pipe", "look")) == 1
