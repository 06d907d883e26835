"""An agent with a grant reaches for more than was signed: after the tool, the policy or the operator's wish has
changed, against a rule, a refusal or the kill switch, in a batch, and by what one call under it leaves behind."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from sqlalchemy import select, update

from callgate.store.schema import delegation, trust_endorsed
from support.granting import KeyedAgent, Signer, api_key
from support.persons import approval_site
from support.registry import requirement
from support.sessions import Guest, modern_call, until
from support.states import reason

RULES = """
[[rules]]
name = "ask-danger"
effect = "ask"
when = 'tool.name == "danger"'
say = "Danger is asked about."

[[rules]]
name = "never-here"
effect = "block"
when = 'tool.name == "wipe" && has(args.id) && args.id == "blocked"'
say = "Never."
"""

# A label under which a value decides something.
SENDS = {
    "tools": {
        "*": {
            "destination": "public",
            "outcomes": "irreversible",
            "source": "system",
            "sensitivity": "none",
            "critical": ["id"],
        }
    }
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stretched")
    (folder / "policy.toml").write_text(RULES)
    agents = {"mode": "optional", "api_keys": {"enabled": True}}
    approval = {"park_seconds": 0, "pending_per_user": 1000}
    own = {"demands": {"wipe_all": {"grants": False}, "pay_here": {"approvals": 2}}}
    with approval_site(
        folder, agents=agents, approval=approval, trust={"policy": "policy.toml"}, servers_approval=own
    ) as it:
        it.signer = Signer.arrive(it)
        it.agent = KeyedAgent(it, api_key(it, "reports"))
        yield it


def grant(site, tool="wipe", identity="DE-1", **fields):
    given = {"rule.id": "equals", "value.id": identity, "rule.n": "anything", "calls": "100"}
    return site.signer.grant(server="web", name=tool, agent="reports", **(given | fields))


def passed(answer):
    return "result" in answer


def test_what_a_rule_blocks_stays_blocked(site):
    grant(site, identity="blocked")
    assert reason(site.agent.call("wipe", id="blocked")) == "rule_blocked"


@requirement("VA-183")
def test_a_rule_asks_about_what_the_grant_leaves_open(site):
    grant(site, "danger", "open")
    told = site.agent.call("danger", id="open", n=1)
    assert reason(told) == "missing_evidence"
    page = site.signer.get(f"/approve/{told['error']['data']['approval']['request']}").body.decode()
    assert "a rule of the policy asks about this call, and it leaves open what n is" in page
    # Without the open argument, and where it is bounded, nobody needs to be asked.
    assert passed(site.agent.call("danger", id="open"))
    grant(site, "danger", "bounded", **{"rule.n": "at_most", "value.n": "5"})
    assert passed(site.agent.call("danger", id="bounded", n=1))


def test_a_rule_asks_about_what_comes_after_a_fixed_beginning(site):
    """A stranger may have written the rest of it."""
    given = {"rule.id": "starts_with", "value.id": "https://bank.example/", "calls": "9"}
    site.signer.grant(server="web", name="danger", agent="reports", **given)
    told = site.agent.call("danger", id="https://bank.example/?to=mallory")
    assert reason(told) == "missing_evidence"
    page = site.signer.get(f"/approve/{told['error']['data']['approval']['request']}").body.decode()
    assert "it leaves open what id is" in page
    site.signer.grant(server="web", name="wipe", agent="reports", **given)
    assert passed(site.agent.call("wipe", id="https://bank.example/?to=mallory"))


def test_a_call_under_a_grant_endorses_no_value(tmp_path):
    """What a person approves counts as vouched for in the session; what nobody looked at does not."""

    def endorsed():
        with site.store.reading() as conn:
            return len(conn.execute(select(trust_endorsed)).all())

    (tmp_path / "policy.toml").write_text(RULES)
    agents = {"mode": "optional", "api_keys": {"enabled": True}}
    rules = {"trust": {"policy": "policy.toml"}, "approval": {"park_seconds": 0}, "servers_trust": SENDS}
    with approval_site(tmp_path, agents=agents, **rules) as site:
        agent, signer = KeyedAgent(site, api_key(site, "reports")), Signer.arrive(site)
        given = {"rule.id": "equals", "value.id": "unseen@example.com", "calls": "9"}
        signer.grant(server="web", name="danger", agent="reports", **given)
        assert passed(agent.call("danger", id="unseen@example.com"))
        assert reason(agent.call("danger", id="seen@example.com")) == "missing_evidence"
        asyncio.run(site.person.approve(asyncio.run(site.person.waiting_for("seen@example.com"))))
        assert passed(agent.call("danger", id="seen@example.com"))
        until(lambda: endorsed() > 0)
        # Of the call that was looked at only.
        assert endorsed() == 1


def test_tools_that_take_no_grants(site):
    """By the operator's wish, and because several people have to approve."""
    for tool, why in (("wipe_all", "switched grants off"), ("pay_here", "2 people")):
        page = site.signer.page(server="web", name=tool)
        assert why in page, tool
        with pytest.raises(AssertionError, match="No grant can be signed"):
            grant(site, tool)


def test_a_refusal_of_this_very_call_counts_more(site):
    told = site.agent.call("wipe", id="refused", n=1)
    request = asyncio.run(site.person.waiting_for("refused"))
    grant(site, identity="refused")
    asyncio.run(site.person.refuse("not this one", request))
    assert told["error"]["data"]["approval"]["request"] == request.id
    assert reason(site.agent.call("wipe", id="refused", n=1)) == "approval_refused"
    # It was about that call; what the person signed for goes on.
    assert passed(site.agent.call("wipe", id="refused", n=2))


def test_in_a_batch(site):
    grant(site, identity="batched")
    one = modern_call("wipe", id="batched").decode()
    answer = site.agent.raw(f"[{one},{one}]".encode(), "wipe")
    assert "result" not in answer


def test_members_that_nobody_signed(site):
    grant(site, identity="bare")
    message = json.loads(modern_call("wipe", id="bare"))
    message["params"]["extra"] = 1
    assert reason(site.agent.raw(json.dumps(message).encode(), "wipe")) == "invalid_params"
    del message["params"]["extra"]
    message["params"]["_meta"]["com.example/hint"] = "delete all"
    assert passed(site.agent.raw(json.dumps(message).encode(), "wipe"))
    assert "com.example/hint" not in json.dumps(site.vault("web").calls[-1])


def test_the_kill_switch(site):
    grant(site, identity="stopped")
    assert passed(site.agent.call("wipe", id="stopped"))
    site.gateway.command("block-all", "on")
    try:
        until(lambda: not passed(site.agent.call("wipe", id="stopped")))
        assert reason(site.agent.call("wipe", id="stopped")) == "blocked_by_policy"
    finally:
        site.gateway.command("block-all", "off")
    until(lambda: passed(site.agent.call("wipe", id="stopped")))


def test_the_agents_key_is_revoked(site):
    other = KeyedAgent(site, api_key(site, "nightly"))
    given = {"rule.id": "equals", "value.id": "nightly", "calls": "100", "agent": "nightly"}
    site.signer.grant(server="web", name="wipe", **given)
    assert passed(other.call("wipe", id="nightly"))
    # A new key of the same agent is another one.
    assert reason(KeyedAgent(site, api_key(site, "nightly")).call("wipe", id="nightly")) == "missing_evidence"
    site.gateway.command("agents", "remove", "nightly", "--yes")
    until(lambda: not passed(other.call("wipe", id="nightly")))


def test_the_tool_changes(tmp_path):
    """Its server lists something else under the name: the grant was for what it was."""
    agents = {"mode": "optional", "api_keys": {"enabled": True}}
    with approval_site(
        tmp_path,
        agents=agents,
        approval={"park_seconds": 0},
        pinning={"mode": "off"},
        servers_approval={"tools": ["look"]},
    ) as site:
        agent, signer = KeyedAgent(site, api_key(site, "reports")), Signer.arrive(site)
        assert reason(agent.call("look", id="x")) == "missing_evidence"
        signer.grant(server="web", name="look", agent="reports", **{"rule.id": "equals", "value.id": "x", "calls": "9"})
        assert passed(agent.call("look", id="x"))
        agent.call("grow")
        # Whoever lists the tools shows the gateway what they are now.
        Guest.arrive(site.gateway.url("web"), "legacy").answer("tools/list")
        told = agent.call("look", id="x")
        page = signer.get(f"/approve/{told['error']['data']['approval']['request']}").body.decode()
        assert "the tool has changed since it was signed" in page


def test_grants_switched_off_afterwards(tmp_path):
    agents = {"mode": "optional", "api_keys": {"enabled": True}}
    with approval_site(tmp_path, agents=agents, approval={"park_seconds": 0}) as site:
        agent, signer = KeyedAgent(site, api_key(site, "reports")), Signer.arrive(site)
        assert reason(agent.call("wipe", id="x")) == "missing_evidence"
        signer.grant(server="web", name="wipe", agent="reports", **{"rule.id": "equals", "value.id": "x", "calls": "9"})
        assert passed(agent.call("wipe", id="x"))
        path = site.gateway.config
        path.write_text(path.read_text().replace("approval = { ", 'approval = { "grants" = false, '))
        until(lambda: not passed(agent.call("wipe", id="x")))


def test_terms_changed_in_the_store(site):
    """Somebody who can write there raises what was signed; the signature is over something else then."""
    number = grant(site, identity="raised", calls="1")
    with site.store.writing() as conn:
        row = conn.execute(select(delegation).where(delegation.c.id == number)).one()
        body = msgspec.msgpack.decode(row.body)
        body["terms"] = body["terms"].replace(b'"calls":1,', b'"calls":9,')
        changed = {"body": msgspec.msgpack.encode(body), "most_calls": 9}
        conn.execute(update(delegation).where(delegation.c.id == number).values(changed))
    assert reason(site.agent.call("wipe", id="raised")) == "signature_verification_failed"
    # The columns alone allow nothing more either.
    number = grant(site, identity="counted", calls="1")
    with site.store.writing() as conn:
        conn.execute(update(delegation).where(delegation.c.id == number).values(most_calls=9))
    assert passed(site.agent.call("wipe", id="counted"))
    assert reason(site.agent.call("wipe", id="counted")) == "missing_evidence"
