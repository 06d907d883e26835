"""A tool that needs a person is called by almost its name, to a server that takes the one for the other."""

import json

import pytest

from support.gateway import list_tools, serving
from support.hostile import hostile_server
from support.persons import approval_site
from support.raw import ask
from support.sessions import Guest, call
from support.states import reason
from support.table import rows

FULL_WIDTH = "\uff44anger"
UNPRINTED = ["danger\0", "danger\0x", "\0danger", "danger\n", "\tdanger", "danger\x7f", "dan\x1bger", "look\0"]
ALIKE = ["Danger", "DANGER", " danger", "danger ", "danger\u200b", "\ufeffdanger", "danger\u00a0", FULL_WIDTH]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("spelt")
    approval = {"tools": ["danger", "wipe*"]}
    off = {"pinning": "with it on, no name but a listed one gets as far as the check that these attacks are on"}
    with approval_site(directory, servers_approval=approval, approval={"park_seconds": 0}, off=off) as running:
        # It has read its kill switch, on however busy a machine.
        list_tools(running.gateway.url("web"))
        yield running


def refused(site, server, name):
    client = Guest.arrive(site.gateway.url(server), "legacy")
    before = len(site.vault(server).calls)
    answer = client.call(name)
    assert (answer["error"]["code"], reason(answer)) == (-32602, "invalid_params"), (name, answer)
    assert "tools/list" in answer["error"]["data"]["advice"]
    assert len(site.vault(server).calls) == before


@rows("server", ["web", "pipe"])
@rows("name", UNPRINTED)
def test_with_characters_that_nobody_can_see(site, server, name):
    refused(site, server, name)


@rows("server", ["web", "pipe"])
@rows("name", ALIKE)
def test_in_another_case_or_with_blanks(site, server, name):
    refused(site, server, name)


@rows("server", ["web", "pipe"])
@rows("name", ["Wipe", "WIPE_EVERYTHING", " wipe_all", "Pay", "pay ", "Pay_Here", "ODD"])
def test_like_a_pattern_or_like_a_tool_that_the_server_marks(site, server, name):
    refused(site, server, name)


@rows("server", ["web", "pipe"])
def test_in_a_batch(site, server):
    client = Guest.arrive(site.gateway.url(server), "legacy")
    before = len(site.vault(server).calls)
    reply = ask(client.url, b"[" + call("Danger") + b"]", client.headers("", {}))
    assert reason(json.loads(reply.body)[0]) == "invalid_params"
    assert len(site.vault(server).calls) == before


@rows("server", ["web", "pipe"])
@rows("name", ["look", "Look", " look", "stranger", "dangerous"])
def test_other_names_pass(site, server, name):
    client = Guest.arrive(site.gateway.url(server), "legacy")
    assert "result" in client.call(name)
    assert site.vault(server).calls[-1]["params"]["name"] == name


def test_a_server_that_has_both_keeps_both(tmp_path):
    with hostile_server(tools=["danger", "Danger"]) as upstream:
        table = {"url": upstream.url, "approval": {"tools": ["danger"]}}
        with serving(tmp_path, {"one": table}) as gateway:
            client = Guest(gateway.url("one"), {})
            assert "result" in client.call("Danger")
            assert reason(client.call("danger")) == "approval_unavailable"
            assert reason(client.call("DANGER")) == "tool_unknown"
        assert upstream.tools == ["Danger"]
