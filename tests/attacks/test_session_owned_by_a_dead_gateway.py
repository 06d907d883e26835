"""A gateway that has a session to itself asks nobody before a call. What if it dies, sleeps or is no longer the owner?

A stranger's address comes through one gateway, and the call that sends something there through another one. Whatever
became of the first meanwhile, the address is known as a stranger's.
"""

import asyncio
import random
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from callgate.store import SqlTrust, Store
from callgate.store.leases import _NOTIFY, ALONE, SessionLeases
from callgate.store.trust import SessionDraft
from callgate.trust.model import SessionLabel
from callgate.trust.session_cache import SessionName
from support.owning import NAME, found, impatient, reads, sessions_on
from support.stores import ready
from support.table import rows
from support.trust_store import KEY, LATER, NOW

TESTS = Path(__file__).parents[1]
EVIL = "mallory@evil.example"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    for name in ("beat_seconds", "relied_seconds", "patience_seconds"):
        monkeypatch.setattr(SessionLeases, name, getattr(SessionLeases, name))
    impatient()


@pytest.fixture
def url(tmp_path):
    with ready("postgresql", tmp_path) as made:
        yield made


class Gateway:
    """What a gateway process has of sessions."""

    def __init__(self, url):
        self.store = Store.open(url, busy_seconds=30)
        self.shelf = SqlTrust(self.store)
        self.sessions = sessions_on(self.shelf)

    @property
    def leases(self):
        return self.store.backend.leases

    async def owns(self, name=NAME):
        """Works alone with the session until it has it to itself."""
        async with asyncio.timeout(60):
            while True:
                for number in range(ALONE + 2):
                    await reads(self.sessions, f"page {number}", name)
                live = self.sessions.at_once(name)
                if live is not None:
                    return live
                await asyncio.sleep(0.05)

    def vanish(self):
        """As by kill -9: nothing is left to others."""
        if self.store.kind != "sqlite":
            self.leases._stop.set()
            if self.leases._thread is not None:
                self.leases._thread.join()
            self.leases.owner = self.leases._former = ""
        self.store.close_sync()


@pytest.fixture
def gateways(url):
    opened = []

    def make():
        opened.append(Gateway(url))
        return opened[-1]

    yield make
    for one in opened:
        one.store.close_sync()


async def nobody(_keys):
    raise AssertionError("the store was asked")


async def test_an_owner_asks_nobody(gateways):
    ours = gateways()
    live = await ours.owns()
    ours.shelf._asking._ask = nobody
    assert await ours.sessions.get(NAME) is live
    assert await found(ours.sessions, "page") == "untrusted"


async def test_what_another_gateway_read_is_known_to_who_had_it_alone(gateways):
    ours, theirs = gateways(), gateways()
    await ours.owns()
    assert await found(theirs.sessions, EVIL) == "nowhere"
    await reads(theirs.sessions, f"pay {EVIL}")
    assert ours.sessions.at_once(NAME) is None
    assert await found(ours.sessions, EVIL) == "untrusted"
    await reads(ours.sessions, "pay eve@evil.example")
    assert await found(theirs.sessions, "eve@evil.example") == "untrusted"


async def test_what_an_owner_read_is_known_after_its_death(gateways):
    ours, theirs = gateways(), gateways()
    await ours.owns()
    await reads(ours.sessions, f"pay {EVIL}")
    ours.vanish()
    assert await found(theirs.sessions, EVIL) == "untrusted"
    await reads(theirs.sessions, "pay eve@evil.example")
    assert await found(gateways().sessions, "eve@evil.example") == "untrusted"


async def test_an_owner_that_lost_it_unknowingly_writes_nothing_over(gateways):
    """Its next step is made anew on what others have written, whatever it has at hand."""
    ours, theirs = gateways(), gateways()
    await ours.owns()
    with theirs.store.writing() as conn:
        conn.exec_driver_sql("UPDATE trust_session SET owner = ''")
    await theirs.shelf.declassify(KEY, SessionLabel(), "ann", "a false alarm", NOW)
    await reads(theirs.sessions, f"pay {EVIL}")
    await reads(ours.sessions, "all is well")
    steps = await theirs.shelf.steps(KEY)
    assert [step.seq for step in steps] == list(range(1, len(steps) + 1))
    assert (await theirs.shelf.session(KEY)).steps == len(steps)
    assert await found(ours.sessions, EVIL) == "untrusted"
    assert await found(gateways().sessions, EVIL) == "untrusted"


async def test_nor_over_a_session_that_began_anew(gateways):
    ours, theirs = gateways(), gateways()
    await ours.owns()
    with theirs.store.writing() as conn:
        conn.exec_driver_sql("UPDATE trust_session SET owner = ''")
    anew = await theirs.shelf.open(KEY, "127.0.0.1 host", LATER, 1)
    await reads(ours.sessions, "all is well")
    assert (await theirs.shelf.session(KEY)).opened_at == anew.opened_at


async def test_an_owner_whose_count_is_stuck_relies_on_nothing(gateways):
    """The thread that counts waits for a database that does not answer; calls go on."""
    ours, theirs, entered, stuck = gateways(), gateways(), threading.Event(), threading.Event()
    await ours.owns()
    ours.leases._beat = lambda _driver: entered.set() or stuck.wait()
    try:
        assert await asyncio.to_thread(entered.wait, 30)
        await reads(theirs.sessions, f"pay {EVIL}")
        assert await found(ours.sessions, EVIL) == "untrusted"
        # Its own step does not wait for what it calls itself.
        await reads(ours.sessions, "pay eve@evil.example")
        assert await found(theirs.sessions, "eve@evil.example") == "untrusted"
    finally:
        stuck.set()


async def test_one_that_is_let_go_of_while_its_owner_writes_to_it_is_not_relied_on(gateways, monkeypatch):
    """The writer reads it while it is owned still, and is done when it is not any more."""
    ours = gateways()
    await ours.owns()
    await ours.shelf.landed()
    held, (forgotten, seen, left) = ours.leases, [threading.Event() for _ in range(3)]
    forget, keep, leave, of = held.sessions.forget, held.keep, held._leave, SessionDraft.of

    def forgets(key):
        forget(key)
        forgotten.set()
        assert seen.wait(30)

    def drafts(*given):
        draft = of(*given)
        if forgotten.is_set():
            seen.set()
        return draft

    monkeypatch.setattr(SessionDraft, "of", drafts)
    held.sessions.forget = forgets
    held.keep = lambda *given: left.wait(30) and keep(*given)
    held._leave = lambda *given: (leave(*given), left.set())
    with held._connect() as driver:
        # As whoever needs it asks: again and again.
        while not forgotten.is_set():
            driver.execute(_NOTIFY, (f"{held.owner} {KEY}",))
            await asyncio.sleep(0.05)
    await reads(ours.sessions, "one more page")
    assert left.is_set()
    assert KEY not in held.sessions.kept
    assert await owner_of(ours.store) == ""


async def test_an_operator_takes_labels_away_through_another_gateway(gateways):
    ours, theirs = gateways(), gateways()
    await ours.owns()
    await reads(ours.sessions, f"pay {EVIL}")
    await theirs.shelf.declassify(KEY, SessionLabel(), "ann", "a false alarm", NOW)
    assert await found(ours.sessions, EVIL) == "nowhere"
    assert not (await ours.sessions.get(NAME)).session.label.open_world


async def test_one_that_is_in_use_is_not_pruned(gateways):
    ours, theirs = gateways(), gateways()
    await ours.owns()
    assert await theirs.shelf.prune(NOW, sessions=0) == 0
    assert (await theirs.shelf.session(KEY)).label.open_world


async def test_an_owner_that_closes_leaves_it_to_others(gateways):
    ours, theirs = gateways(), gateways()
    await ours.owns()
    await ours.store.close()
    with theirs.store.reading() as conn:
        assert conn.exec_driver_sql("SELECT owner FROM trust_session").scalar_one() == ""
        assert conn.exec_driver_sql("SELECT count(*) FROM trust_owner").scalar_one() == 0


@contextmanager
def process(url):
    """One that can be stopped and killed, with what asks it something."""
    command = [sys.executable, str(TESTS / "support" / "owning.py"), url]
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS, env={"PYTHONPATH": str(TESTS)}
    )

    async def ask(what):
        running.stdin.write(f"{what}\n")
        running.stdin.flush()
        return (await asyncio.to_thread(running.stdout.readline)).strip()

    try:
        yield running, ask
    finally:
        with suppress(ProcessLookupError):
            running.send_signal(signal.SIGCONT)
        running.kill()
        running.communicate()


async def owner_of(store):
    def read(conn):
        return conn.exec_driver_sql("SELECT max(owner) FROM trust_session").scalar_one()

    return await store.read(read)


async def works_alone(ask, store):
    async with asyncio.timeout(60):
        number = 0
        while not await owner_of(store):
            number += 1
            assert await ask(f"read page {number}") == "done"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
async def test_killed_while_it_owns_the_session(url, gateways):
    theirs = gateways()
    with process(url) as (running, ask):
        await works_alone(ask, theirs.store)
        for number in range(20):
            assert await ask(f"read pay person{number}@evil.example") == "done"
        running.kill()
        running.wait()
    for number in range(20):
        assert await found(theirs.sessions, f"person{number}@evil.example") == "untrusted"
    # And nobody is kept from going on with it.
    await reads(theirs.sessions, f"pay {EVIL}")
    assert await found(gateways().sessions, EVIL) == "untrusted"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
async def test_stopped_while_it_owns_the_session(url, gateways):
    """It goes on where it was, and does not know how long it slept."""
    theirs = gateways()
    with process(url) as (running, ask):
        await works_alone(ask, theirs.store)
        running.send_signal(signal.SIGSTOP)
        await reads(theirs.sessions, f"pay {EVIL}")
        asking = asyncio.create_task(ask(f"found {EVIL}"))
        await asyncio.sleep(0)
        running.send_signal(signal.SIGCONT)
        assert await asking == "untrusted"
        assert await ask("read pay eve@evil.example") == "done"
    assert await found(theirs.sessions, "eve@evil.example") == "untrusted"
    assert await found(theirs.sessions, EVIL) == "untrusted"


@rows("kind", ["sqlite", "postgresql"])
async def test_no_sequence_of_deaths_and_calls_lets_an_address_pass(kind, tmp_path):
    chance = random.Random(21)
    with ready(kind, tmp_path) as url:
        lanes = [Gateway(url) for _ in range(3)]
        for turn in range(6):
            name = SessionName(f"{turn:032x}", "127.0.0.1 host", idles=False)
            told = []
            for _ in range(14):
                at = chance.randrange(3)
                what = chance.choice(["read", "read", "alone", "call", "call", "die"])
                if what == "die":
                    lanes[at].vanish()
                    lanes[at] = Gateway(url)
                elif what == "alone":
                    for number in range(ALONE + 2):
                        await reads(lanes[at].sessions, f"page {number}", name)
                elif what == "read":
                    told.append(f"person{len(told)}@evil{turn}.example")
                    await reads(lanes[at].sessions, f"pay {told[-1]}", name)
                for value in told:
                    assert await found(lanes[at].sessions, value, name) == "untrusted"
        for lane in lanes:
            lane.store.close_sync()
