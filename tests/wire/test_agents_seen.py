"""Who called is seen by everybody who decides about the call: the policy, the person who approves, the log, the metrics."""

import json

import pytest

from support.agents_gate import INSIDE, Site, known, reason, signer, web
from support.raw import ask
from support.sessions import modern_call, modern_headers
from support.trust_gateway import text, tool, trust_site

HOUSE = {"destination": "internal", "outcomes": "benign", "source": "internal", "sensitivity": "none"}
POLICY = """
[[rules]]
name = "somebody-has-to-sign"
effect = "block"
when = 'agent.source == "none"'
[[rules]]
name = "careful-asks"
effect = "ask"
when = 'agent.id == "careful" && agent.source == "web-bot-auth" && agent.key == "{key}" && agent.directory == "static"'
[[rules]]
name = "guests-look-only"
effect = "block"
when = 'agent.directory.startsWith("{url}/") && agent.principal == ""'
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    directory = tmp_path_factory.mktemp("seen")
    with web(directory) as pages:
        careful, free, guest = signer(), signer(), signer(pages.url)
        pages.publish(guest)
        (directory / "policy.toml").write_text(POLICY.format(key=careful.keyid, url=pages.url), encoding="utf-8")
        section = {
            "known": {"careful": known(careful), "free": known(free), "guest": {"directory": pages.url}},
            "signatures": {"allow_addresses": INSIDE},
        }
        servers = {
            "one": {"tools": [tool("look", "at")], "results": {"look": text("Seen.")}, "trust": {"tools": {"*": HOUSE}}}
        }
        trust = {"mode": "enforce", "policy": "policy.toml", "default_policy": False}
        with trust_site(
            directory, servers, env=pages.env, trust=trust, agents=section, approval={"park_seconds": 0}
        ) as made:
            made.careful, made.free, made.guest, made.pages = careful, free, guest, pages
            yield made


def look(seen, by, at="home"):
    return Site(seen.gateway, {}).send(by, modern_call("look", at=at), headers=modern_headers("look"))


def test_the_policy_goes_by_who_proved_what(seen):
    assert reason(look(seen, seen.free)) == (200, "")
    assert reason(look(seen, None))[1] == "rule_blocked"
    assert reason(look(seen, seen.guest))[1] == "rule_blocked"
    assert reason(look(seen, seen.careful))[1] == "missing_evidence"
    assert len(seen.servers["one"].calls("look")) == 1


def test_the_person_who_approves_is_shown_what_was_verified(seen):
    assert reason(look(seen, seen.careful, at="door"))[1] == "missing_evidence"
    (waiting,) = [one for one in json.loads(seen.run("approvals", "list", "--json")) if one["tool"] == "look"][:1]
    shown = json.loads(seen.run("approvals", "show", waiting["id"], "--json"))["agent"]
    assert list(shown)[:3] == ["agent", "proved by", "key"]
    assert shown["agent"] == "careful"
    assert shown["proved by"] == "web-bot-auth"
    assert shown["key"] == seen.careful.keyid
    assert shown["body signed"] == "yes"
    assert "careful" in seen.run("approvals", "show", waiting["id"])


def test_the_log_and_the_metrics_have_it(seen):
    look(seen, seen.free, at="back-yard")
    look(seen, None, at="back-yard")
    signed, unsigned = [one for one in seen.records("decision") if "back-yard" in json.dumps(one)][-2:]
    assert signed["caller"]["agent"] == "free"
    assert signed["caller"]["key"] == seen.free.keyid
    assert "caller" not in unsigned
    assert unsigned["reason"] == "rule_blocked"
    assert reason(look(seen, signer())) == (401, "unknown_keyid")
    told = ask(f"{seen.gateway.address}/metrics", None, {}, "GET").body.decode()
    assert 'callgate_agent_requests_total{source="web-bot-auth"}' in told
    assert 'callgate_agent_requests_total{source="none"}' in told
    assert 'callgate_agent_refusals_total{reason="unknown_keyid"}' in told


def test_sessions_of_two_agents_are_two_whatever_their_clients_call_themselves(seen):
    look(seen, seen.free)
    look(seen, seen.careful)
    agents = {one["agent"] for one in json.loads(seen.run("session", "list", "--json"))}
    assert any("free" in one for one in agents)
    assert any("careful" in one for one in agents)
