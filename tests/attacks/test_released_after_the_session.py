"""A result that was held back reaches the agent when the labels that it brought are gone: it brings them again."""

import json

import pytest
from sqlalchemy import update

from callgate.store.schema import trust_session
from support.gateway import Gateway
from support.table import rows
from support.trust_gateway import (
    EVIL,
    FRIENDS,
    HANDSHAKE,
    PAGE,
    Agent,
    fresh,
    labelled,
    tool,
    trust_servers,
    trust_site,
)

POLICY = """
[[rules]]
name = "hold"
on = "result"
effect = "quarantine"
when = "result.malicious"
say = "Held."
"""


@pytest.fixture(scope="module")
def holding(tmp_path_factory):
    directory = tmp_path_factory.mktemp("holding")
    (directory / "policy.toml").write_text(POLICY)
    flagged = {
        "tools": [tool("fetch", "url"), tool("prompts/list")],
        "results": dict.fromkeys(("fetch", "prompts/list"), labelled(PAGE, maliciousActivityHint=True)),
    }
    trust = {"mode": "enforce", "policy": "policy.toml"}
    offices = trust_servers() | {"flagged": flagged}
    with trust_site(directory, offices, trust=trust, approval={"park_seconds": 0}) as site:
        yield site


def held(agent, tool_name="fetch"):
    """The handle of a result that was held back."""
    answer = agent.call("flagged", tool_name, url="https://a.example")
    assert EVIL not in json.dumps(answer)
    return answer["result"]["_meta"]["dev.callgate/quarantine"]["handle"]


def release(site, agent, handle):
    site.run("quarantine", "release", handle, "--yes")
    assert EVIL in json.dumps(agent.call("flagged", "callgate_result", handle=handle))


def test_after_the_session_ended_by_being_idle(holding):
    agent = holding.agent()
    handle = held(agent)
    # An hour goes by for the store, and the gateway that has the session at hand is another one.
    with holding.store.writing() as conn:
        conn.execute(update(trust_session).values(seen_at=trust_session.c.seen_at - 3_600_000))
    other = Gateway(holding.gateway.config)
    try:
        later = Agent(other, HANDSHAKE, agent.name)
        assert not later.asked_about()
        release(holding, later, handle)
        assert later.asked_about()
        assert holding.trust_of("send_email")["taken"]["malicious"] is True
    finally:
        other.stop()


@rows("tool_name", ["fetch", "prompts/list"])
def test_after_an_operator_took_the_labels_away(holding, tool_name):
    agent = holding.agent(session=fresh("conversation"), prompt=FRIENDS)
    handle = held(agent, tool_name)
    session = holding.trust_of(tool_name)["session"]
    holding.run("session", "declassify", session, "--note", "a false alarm", "--yes")
    assert not agent.asked_about()
    release(holding, agent, handle)
    assert agent.asked_about("carol@example.com")
    assert holding.trust_of("send_email")["rule"] == "after-malicious-content"
    assert agent.asked_about()


def test_what_is_still_held_brings_nothing(holding):
    agent = holding.agent(session=fresh("conversation"), prompt=FRIENDS)
    handle = held(agent)
    session = holding.trust_of("fetch")["session"]
    holding.run("session", "declassify", session, "--note", "a false alarm", "--yes")
    assert "still held back" in json.dumps(agent.call("flagged", "callgate_result", handle=handle))
    assert not agent.asked_about("carol@example.com")


def test_the_server_is_not_said_to_have_dropped_its_labels(holding):
    """The released result has those that it came with."""
    agent = holding.agent()
    release(holding, agent, held(agent))
    assert holding.noted("trust.labels_missing") == []
