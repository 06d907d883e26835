"""An agent names the session of somebody else: it gets nothing of it, and puts nothing into it."""

import asyncio
from dataclasses import dataclass

import pytest

from callgate.agents.signing import Signer
from support.agents_gate import Site, known, signer
from support.registry import requirement
from support.table import rows
from support.trust_gateway import (
    ERAS,
    EVIL,
    HANDSHAKE,
    Agent,
    WrapAgent,
    fresh,
    reason,
    said,
    trust_servers,
    trust_site,
)

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


@rows("era", ERAS)
def test_what_a_person_endorsed_there_is_not_endorsed_here(trusting, era):
    session = fresh("conversation")
    victim = trusting.agent(era, session=session)
    asyncio.run(endorse(trusting, victim))
    assert not victim.asked_about()
    thief = trusting.agent(era, name=victim.name, session=session, peer=ELSEWHERE)
    thief.call("web", "fetch", url="https://a.example")
    assert thief.asked_about()


@requirement("TA-002")
@rows("era", ERAS)
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


@dataclass(frozen=True)
class Looked:
    """A session as a call finds it: its key, whether it is one of the open world, what servers are told it has read."""

    key: str
    opened: bool
    told: frozenset[str]

    @property
    def clean(self):
        return not self.opened and not self.told


def looks(site, agent, meta=None):
    """What a call finds that adds nothing but the notes themselves."""
    assert said(agent.call("notes", "read_note", meta, id=fresh("n"))) == "done"
    found, sent = site.trust_of("read_note"), site.servers["notes"].last_labels or {}
    assert sent.get("openWorldHint", False) is found["taken"].get("open_world", False)
    told = frozenset(sent.get("attribution", ())) - {"mcp://notes"}
    return Looked(found["session"], found["taken"].get("open_world", False), told)


def stolen(agent, **more):
    """Somebody who got hold of the `Mcp-Session-Id` of every connection, and calls over them."""
    for server in ("web", "mail", "notes"):
        agent.headers(server)
    return Agent(agent.gateway, HANDSHAKE, fresh("thief"), opened=dict(agent.opened), **more)


BETTER = {"annotations": {"openWorldHint": False, "attribution": []}}


@rows("named", [False, True])
def test_with_a_stolen_connection_from_elsewhere_nothing_endorsed_is_inherited(trusting, named):
    session = fresh("conversation") if named else None
    victim = trusting.agent(session=session)
    asyncio.run(endorse(trusting, victim))
    thief = stolen(victim, session=session, peer=ELSEWHERE)
    assert said(thief.call("web", "fetch", url="https://a.example"))
    assert thief.asked_about()
    assert not victim.asked_about()


@requirement("TA-002")
@rows("named", [False, True])
def test_with_a_stolen_connection_from_elsewhere_no_label_is_inherited_or_lowered(trusting, named):
    session = fresh("conversation") if named else None
    victim = trusting.agent(session=session)
    victim.call("web", "fetch", url="https://a.example")
    before = looks(trusting, victim)
    assert (before.opened, before.told) == (True, {"mcp://web"})
    thief = stolen(victim, session=session, peer=ELSEWHERE)
    found = looks(trusting, thief, BETTER)
    assert found.clean
    assert found.key != before.key
    assert looks(trusting, victim) == before
    assert victim.asked_about()


@requirement("TA-002")
@rows("named", [False, True])
def test_with_a_stolen_connection_from_elsewhere_no_label_is_put_there(trusting, named):
    session = fresh("conversation") if named else None
    victim = trusting.agent(session=session)
    before = looks(trusting, victim)
    assert before.clean
    thief = stolen(victim, session=session, peer=ELSEWHERE)
    thief.call("web", "fetch", url="https://a.example")
    assert looks(trusting, thief).opened
    assert looks(trusting, victim) == before


def test_with_a_stolen_connection_at_the_same_address_labels_are_shared_and_only_grow(trusting):
    """Callers are told apart by their address: these two are one, so more is asked of both, and not less."""
    victim = trusting.agent()
    before = looks(trusting, victim)
    assert before.clean
    thief = stolen(victim)
    thief.call("web", "fetch", url="https://a.example")
    after = looks(trusting, victim)
    assert (after.key, after.opened, after.told) == (before.key, True, {"mcp://web"})
    assert looks(trusting, thief, BETTER) == after
    assert looks(trusting, victim) == after
    assert victim.asked_about()


def test_where_a_connection_is_a_session_a_stolen_one_is_another(tmp_path):
    offices = {"web": trust_servers()["web"]}
    with trust_site(tmp_path, offices, trust={"sessions": "transport"}, approval={"park_seconds": 0}) as site:
        victim = site.agent()

        def fetches(agent):
            assert said(agent.call("web", "fetch", url="https://a.example"))
            return site.trust_of("fetch")["session"], site.trust_of("fetch")["taken"].get("open_world", False)

        key, _ = fetches(victim)
        assert fetches(victim) == (key, True)
        thief = Agent(site.gateway, HANDSHAKE, victim.name, opened=dict(victim.opened), peer=ELSEWHERE)
        theirs, opened = fetches(thief)
        assert theirs != key
        assert not opened


@dataclass
class SignedAgent(Agent):
    """One that signs what it sends."""

    by: Signer | None = None

    def _ask(self, server, body, headers):
        return Site(self.gateway, {}).send(self.by, body, server=server, headers=headers, peer=self.peer)


@pytest.fixture(scope="module")
def signing(tmp_path_factory):
    """A gateway that knows two agents by their keys."""
    alice, bob = signer(), signer()
    offices = {name: trust_servers()[name] for name in ("web", "mail", "notes")}
    agents = {"known": {"alice": known(alice), "bob": known(bob)}}
    approval = {"park_seconds": 0, "pending_per_user": 1000}
    with trust_site(tmp_path_factory.mktemp("signing"), offices, agents=agents, approval=approval) as site:

        def make(by, era, name, session, **more):
            return SignedAgent(
                site.gateway, era, name, session=session, by={"alice": alice, "bob": bob}.get(by), **more
            )

        site.signed = make
        yield site


@rows("era", ERAS)
@rows("by", ["bob", None])
def test_the_id_of_an_agent_that_signs_is_of_no_use_to_another_at_its_address(signing, era, by):
    """Another agent that signs, or one that does not, with the same name and the same id."""
    name, session = fresh(), fresh("conversation")
    victim = signing.signed("alice", era, name, session)
    asyncio.run(endorse(signing, victim))
    before = looks(signing, victim)
    assert before.opened
    thief = signing.signed(by, era, name, session)
    found = looks(signing, thief, BETTER)
    assert found.clean
    assert found.key != before.key
    thief.call("web", "fetch", url="https://a.example")
    assert thief.asked_about()
    assert looks(signing, victim) == before
    assert not victim.asked_about()


@rows("era", ERAS)
@rows("by", ["bob", None])
def test_nor_can_that_one_taint_the_agents_session(signing, era, by):
    name, session = fresh(), fresh("conversation")
    victim = signing.signed("alice", era, name, session)
    before = looks(signing, victim)
    assert before.clean
    thief = signing.signed(by, era, name, session)
    thief.call("web", "fetch", url="https://a.example")
    assert looks(signing, thief).opened
    assert looks(signing, victim) == before


@rows("by", ["bob", None])
def test_nor_is_a_stolen_connection_of_an_agent_that_signs(signing, by):
    name, session = fresh(), fresh("conversation")
    victim = signing.signed("alice", HANDSHAKE, name, session)
    asyncio.run(endorse(signing, victim))
    before = looks(signing, victim)
    thief = signing.signed(by, HANDSHAKE, name, session, opened=dict(victim.opened))
    # Started as a process for the agent that opened it, and given to it by a server over HTTP.
    for server, tool, arguments in (("notes", "read_note", {"id": fresh("n")}), ("web", "fetch", {"url": fresh("u")})):
        assert server in victim.opened
        heard = len(signing.servers[server].calls())
        assert reason(thief.call(server, tool, **arguments)) == "session_unknown"
        assert len(signing.servers[server].calls()) == heard
        found = signing.trust_of(tool)
        assert found["session"] != before.key
        assert "open_world" not in found["taken"]
    assert looks(signing, victim) == before


@rows("era", ERAS)
def test_an_agent_that_signs_does_not_shed_its_labels_by_moving_or_by_another_name(signing, era):
    session = fresh("conversation")
    agent = signing.signed("alice", era, fresh(), session)
    agent.call("web", "fetch", url="https://a.example")
    before = looks(signing, agent)
    assert before.opened
    for peer in ("127.0.0.1", ELSEWHERE):
        moved = signing.signed("alice", era, fresh(), session, peer=peer)
        assert looks(signing, moved) == before
        assert moved.asked_about()
