"""An agent that makes up sessions without end: memory and store stay bounded, and no session takes on another's labels."""

import asyncio
import contextlib
import itertools

import pytest
from sqlalchemy import select

from callgate.store import SqlTrust, Store
from callgate.store.schema import trust_endorsed, trust_session, trust_step
from callgate.trust.model import DataLabel, SessionLabel, Step
from callgate.trust.provenance import Fingerprints, Memory
from callgate.trust.session_cache import SessionName, TrustSessionCache
from callgate.trust.storage import NewStep
from support.gateway import Gateway
from support.sessions import VERSION, until
from support.trust_gateway import FRIENDS, HANDSHAKE, Agent, fresh, said, trust_servers, trust_site

AT_HAND = 100
LATER = 10**15
# Over the wire: so many are remembered, and so many are made up.
FEW = 4
FLOOD = 8
# Another machine, as far as the gateway can tell.
ELSEWHERE = "127.0.0.9"
STRANGE = SessionLabel(open_world=True)


def name(number):
    return SessionName(f"{number:032x}", "somebody", idles=False)


def strange(number):
    """Whether a stranger's text is read in this one."""
    return number % 10 == 7


def step(number):
    label = DataLabel(open_world=True, sources=frozenset({"untrustedPublic"}))
    return NewStep(name(number).key, Step(0, number, "", "web", "fetch", "allow", label=label), STRANGE)


@pytest.fixture
def shelf(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path / 'callgate.db'}")
    yield SqlTrust(store)
    store.close_sync()


def sessions_on(shelf):
    clock = itertools.count(1_800_000_000)
    made = Fingerprints(bytes(32))
    return TrustSessionCache(shelf, lambda: Memory(made), idle_ms=lambda: 0, most=AT_HAND, clock=lambda: next(clock))


@pytest.mark.parametrize("many", [500, pytest.param(10_000, marks=pytest.mark.verify)])
async def test_all_of_them_are_told_apart_and_only_so_many_are_kept(shelf, many):
    sessions = sessions_on(shelf)
    turns, most = asyncio.Semaphore(64), many // 5

    async def use(number):
        async with turns:
            live = await sessions.get(name(number))
            if strange(number):
                await sessions.add(live, lambda _live: step(number), keep=10, expires_at=LATER)

    await asyncio.gather(*map(use, range(many)))
    assert len(sessions._live) <= AT_HAND
    for number in range(0, many, 47):
        live = await sessions.get(name(number))
        assert live.session.label.open_world is strange(number), number
    assert await shelf.prune(LATER - 1, sessions=most) >= many - most
    kept = await shelf.sessions(limit=many)
    assert len(kept) == most
    # The latest seen are those that are kept.
    seen = {one.key for one in kept}
    assert {name(number).key for number in range(0, many, 47)} <= seen


@pytest.fixture
def crowded(tmp_path):
    """A gateway with room for a few sessions only."""
    offices = {name: trust_servers()[name] for name in ("web", "mail")}
    with trust_site(tmp_path, offices, trust={"max_sessions": FEW}, approval={"park_seconds": 0}) as site:
        yield site


@contextlib.contextmanager
def another(site):
    """A second gateway on the store."""
    gateway = Gateway(site.gateway.config)
    try:
        gateway.wait_ready()
        yield gateway
    finally:
        gateway.stop()


def keys_in(site, column):
    with site.store.reading() as conn:
        return set(conn.execute(select(column)).scalars())


def found_of(site, agent):
    """What is on record of mail to somebody whom the user named, apart from whose session it is."""
    agent.prompt = FRIENDS
    assert not agent.asked_about("bob@example.com")
    return {key: value for key, value in site.trust_of("send_email").items() if key != "session"}


def is_open(site, agent):
    return found_of(site, agent)["taken"].get("open_world", False)


async def endorse(site, agent):
    """A person approves the stranger's address in this session."""
    agent.call("web", "fetch", url="https://a.example")
    assert agent.asked_about()
    (asked,) = await site.person.open_requests()
    await site.person.approve(asked)
    assert not agent.asked_about()
    # The approval is used up; from now on the address is endorsed.
    assert not agent.asked_about()


@pytest.mark.parametrize("era", [VERSION, pytest.param(HANDSHAKE, marks=pytest.mark.verify)])
def test_over_the_wire_those_of_one_who_makes_up_many_are_forgotten_and_nobody_elses(crowded, era):
    honest = crowded.agent(era, session=fresh("conversation"), peer=ELSEWHERE)
    honest.call("web", "fetch", url="https://a.example")
    flood = crowded.agent(era, session=(first := fresh("flood")))
    asyncio.run(endorse(crowded, flood))
    forgotten = crowded.trust_of("send_email")["session"]
    for _ in range(FLOOD):
        flood.session = fresh("flood")
        assert said(flood.call("web", "fetch", url="https://a.example"))
    last = flood.session
    assert len(keys_in(crowded, trust_session.c.key)) == FLOOD + 2
    assert forgotten in keys_in(crowded, trust_endorsed.c.session)
    # Whatever gateway starts on the store tidies it up.
    with another(crowded) as other:
        until(lambda: len(keys_in(crowded, trust_session.c.key)) <= FEW)
        kept = keys_in(crowded, trust_session.c.key)
        assert len(kept) == FEW
        assert forgotten not in kept
        assert keys_in(crowded, trust_step.c.session) <= kept
        assert keys_in(crowded, trust_endorsed.c.session) <= kept

        def there(session, peer="127.0.0.1", name=flood.name):
            return Agent(other, era, name, session=session, peer=peer)

        # Of those that are kept, each is what it was.
        assert is_open(crowded, there(honest.session, ELSEWHERE, honest.name))
        assert there(honest.session, ELSEWHERE, honest.name).asked_about()
        assert is_open(crowded, there(last))
        assert there(last).asked_about()
        # One that is forgotten is one that nobody knows: what was endorsed in it is so no more.
        assert found_of(crowded, there(first)) == found_of(crowded, there(fresh("new")))
        again = there(first)
        again.call("web", "fetch", url="https://a.example")
        assert crowded.trust_of("fetch")["session"] == forgotten
        assert again.asked_about()


@pytest.mark.parametrize("era", [HANDSHAKE, pytest.param(VERSION, marks=pytest.mark.verify)])
def test_over_the_wire_a_session_in_use_does_not_lose_its_labels_by_being_forgotten(crowded, era):
    agent = crowded.agent(era, session=(first := fresh("flood")))
    asyncio.run(endorse(crowded, agent))
    for _ in range(FLOOD):
        agent.session = fresh("flood")
        agent.call("web", "fetch", url="https://a.example")
    agent.session = first
    with another(crowded) as other:
        until(lambda: len(keys_in(crowded, trust_session.c.key)) <= FEW)
        assert crowded.trust_of("send_email")["session"] not in keys_in(crowded, trust_session.c.key)
        # The gateway that has it at hand says so, to itself and then to the others; what was endorsed is gone with it.
        assert agent.asked_about()
        assert agent.asked_about("bob@example.com")
        assert crowded.trust_of("send_email")["taken"]["open_world"] is True
        assert Agent(other, era, agent.name, session=first).asked_about("bob@example.com")
        assert crowded.trust_of("send_email")["taken"]["open_world"] is True
        assert not is_open(crowded, crowded.agent(era, session=fresh("new")))
