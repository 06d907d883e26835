"""An agent that makes up sessions without end: memory and store stay bounded, and no session takes on another's labels."""

import asyncio
import itertools

import pytest

from callgate.gateway.trust_keys import SessionName
from callgate.gateway.trust_sessions import Sessions
from callgate.store import SqlTrust, Store
from callgate.trust.model import DataLabel, SessionLabel, Step
from callgate.trust.provenance import Fingerprints, Memory
from callgate.trust.storage import NewStep
from support.offices import ERAS, fresh, said

MANY = 10_000
AT_HAND = 100
KEPT = 1_000
LATER = 10**15
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
    return Sessions(shelf, lambda: Memory(made), idle_ms=lambda: 0, most=AT_HAND, clock=lambda: next(clock))


async def test_all_of_them_are_told_apart_and_only_so_many_are_kept(shelf):
    sessions = sessions_on(shelf)
    turns = asyncio.Semaphore(64)

    async def use(number):
        async with turns:
            live = await sessions.get(name(number))
            if strange(number):
                await sessions.add(live, lambda _live: step(number), keep=10, expires_at=LATER)

    await asyncio.gather(*map(use, range(MANY)))
    assert len(sessions._live) <= AT_HAND
    for number in range(0, MANY, 997):
        live = await sessions.get(name(number))
        assert live.session.label.open_world is strange(number), number
    assert await shelf.prune(LATER - 1, sessions=KEPT) >= MANY - KEPT
    kept = await shelf.sessions(limit=MANY)
    assert len(kept) == KEPT
    # The latest seen are those that are kept.
    seen = {one.key for one in kept}
    assert {name(number).key for number in range(0, MANY, 997)} <= seen


@pytest.mark.parametrize("era", ERAS)
def test_over_the_wire_an_honest_session_keeps_its_labels_among_them(trusting, era):
    honest = trusting.agent(era, session=fresh("conversation"))
    honest.call("web", "fetch", url="https://a.example")
    flood = trusting.agent(era)
    for _ in range(150):
        flood.session = fresh("flood")
        assert said(flood.call("pipe", "fetch", url="https://a.example"))
    assert honest.asked_about()
    fresh_one = trusting.agent(era, session=fresh("conversation"))
    assert not fresh_one.asked_about()
