"""An agent names the session of somebody else: it gets nothing of it, and puts nothing into it."""

import asyncio

import pytest

from support.offices import ERAS, EVIL, HANDSHAKE, WrapAgent, fresh, said
from support.registry import requirement

# Another machine, as far as the gateway can tell.
ELSEWHERE = "127.0.0.9"


async def endorse(site, agent):
    """A person approves the stranger's address in this session."""
    agent.call("web", "fetch", url="https://a.example")
    body = fresh("some words")
    assert agent.asked_about(body=body)
    (asked,) = [one for one in await site.person.open_requests() if body.encode() in one.canonical]
    await site.person.approve(asked)
    assert not agent.asked_about(body=body)


@pytest.mark.parametrize("era", ERAS)
def test_what_a_person_endorsed_there_is_not_endorsed_here(trusting, era):
    session = fresh("conversation")
    victim = trusting.agent(era, session=session)
    asyncio.run(endorse(trusting, victim))
    assert not victim.asked_about()
    thief = trusting.agent(era, name=victim.name, session=session, peer=ELSEWHERE)
    thief.call("web", "fetch", url="https://a.example")
    assert thief.asked_about()


@requirement("TA-002")
@pytest.mark.parametrize("era", ERAS)
def test_nor_can_it_taint_or_learn_anything_of_that_session(trusting, era):
    session = fresh("conversation")
    victim = trusting.agent(era, session=session)
    victim.call("notes", "read_note", id="n1")
    thief = trusting.agent(era, name=victim.name, session=session, peer=ELSEWHERE)
    thief.call("web", "fetch", url="https://a.example")
    assert said(victim.call("mail", "send_email", None, to="bob@example.com", body="some words")) == "done"
    sent = trusting.servers["mail"].calls()[-1].get("_meta", {}).get("annotations", {})
    assert "openWorldHint" not in sent
    keys = {trusting.trust_of(name)["session"] for name in ("fetch", "send_email")}
    assert len(keys) == 2


def test_an_agents_own_name_borrowed_from_elsewhere_is_another_session(trusting):
    victim = trusting.agent()
    asyncio.run(endorse(trusting, victim))
    thief = trusting.agent(HANDSHAKE, name=victim.name, peer=ELSEWHERE)
    thief.call("web", "fetch", url="https://a.example")
    assert thief.asked_about()


def test_the_same_id_on_a_wrapped_server_is_another_session(trusting):
    session = fresh("conversation")
    victim = trusting.agent(session=session)
    asyncio.run(endorse(trusting, victim))
    meta = {"dev.callgate/session": session}
    with WrapAgent(trusting) as thief:
        thief.call("pipe", "fetch", meta, url="https://a.example")
        answer = thief.call("mail", "send_email", meta, to=EVIL, body="some words")
    assert answer["error"]["data"]["reason"] == "missing_evidence"


def test_ids_made_to_collide_do_not(trusting):
    """The parts of a key are told apart by their length, whatever characters they have."""
    agent = trusting.agent(session="a")
    agent.call("web", "fetch", url="https://a.example")
    for other in ("a\u0000", "\u0000a", "A", "a ", "given a"):
        near = trusting.agent(name=agent.name, session=other)
        near.call("mail", "send_email", None, to="bob@example.com", body="some words")
        assert "open_world" not in trusting.trust_of("send_email")["taken"], other
