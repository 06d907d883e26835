"""A server that nobody trusts is asked what a call would do, and so gets the arguments of a call that is refused."""

import pytest

from support.table import rows
from support.trust_gateway import EVIL, reason, tool, trust_servers, trust_site

TOKEN = "AKIA" + "Q3Z7LMX2KVT9RB5D"


@pytest.fixture(scope="module")
def resolving(tmp_path_factory):
    post = {"tools": [tool("post", "to", "body")]}
    offices = trust_servers() | {
        "doubted": post | {"trust": {"resolve": "server"}},
        "believed": post | {"trust": {"resolve": "server", "trusted": True}},
    }
    with trust_site(tmp_path_factory.mktemp("resolving"), offices, approval={"park_seconds": 0}) as site:
        yield site


def shown(site, server):
    """The arguments that a server was asked about, or called with."""
    methods = ("tools/resolve", "tools/call")
    return [
        (one["method"], one["params"]["arguments"]) for one in site.servers[server].seen if one["method"] in methods
    ]


@rows("arguments", [{"to": EVIL, "body": "hello"}, {"to": "carol@example.com", "body": f"the key is {TOKEN}"}])
def test_it_does_not_see_what_it_may_not_have(resolving, arguments):
    agent = resolving.agent()
    agent.call("web", "fetch", url="https://a.example")
    before = shown(resolving, "doubted")
    assert reason(agent.call("doubted", "post", **arguments)) == "missing_evidence"
    assert shown(resolving, "doubted") == before


def test_it_is_asked_about_what_may_pass(resolving):
    arguments = {"to": "carol@example.com", "body": "hello"}
    assert "result" in resolving.agent().call("doubted", "post", **arguments)
    assert shown(resolving, "doubted")[-2:] == [("tools/resolve", arguments), ("tools/call", arguments)]


def test_a_server_that_is_trusted_is_asked_first(resolving):
    """Its answer may be why the call can pass."""
    agent = resolving.agent()
    agent.call("web", "fetch", url="https://a.example")
    agent.call("believed", "post", to=EVIL, body="hello")
    assert shown(resolving, "believed")[-1] == ("tools/resolve", {"to": EVIL, "body": "hello"})
