"""A nonce is used once: for as long as its signature could be accepted, whatever was sent as one."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select

from callgate.agents import storage
from callgate.errors import Reason, Refused, StoreUnavailable
from callgate.store import SqlAgents, SqlTrust, Store
from callgate.store.memory import MemoryAgents
from callgate.store.schema import agent_nonce
from support.agents_race import NOW, SCOPE
from support.pin_store import witness
from support.registry import requirement
from support.table import rows
from support.trust_store import add


def counted(shelf):
    with shelf._store.reading() as conn:
        return conn.execute(select(func.count()).select_from(agent_nonce)).scalar_one()


@requirement("WB-066", "WB-087")
@rows("lifetime", [1, 60_000, 480_000, 86_400_000])
async def test_it_is_known_for_as_long_as_the_caller_says(agents, lifetime):
    ends, SCOPE = NOW + lifetime, f"{lifetime}"
    assert await agents.take_nonce(SCOPE, "n", ends, NOW)
    for now in (NOW, NOW + lifetime // 2, ends):
        assert not await agents.take_nonce(SCOPE, "n", now + lifetime, now)
        await agents.prune(now)
    assert not await agents.take_nonce(SCOPE, "n", ends + lifetime, ends)
    assert await agents.take_nonce(SCOPE, "n", ends + 1 + lifetime, ends + 1)
    assert not await agents.take_nonce(SCOPE, "n", ends + 1 + lifetime, ends + 2)


@requirement("WB-087")
async def test_a_clock_that_is_ahead_sweeps_nothing_others_still_need(agents):
    await agents.take_nonce(SCOPE, "n", NOW + 1000, NOW)
    await agents.prune(NOW + 1000 + storage.GRACE_MS)
    assert not await agents.take_nonce(SCOPE, "n", NOW + 1000, NOW + 1000)
    assert await agents.prune(NOW + 1001 + storage.GRACE_MS) == 1


async def test_one_whose_time_is_over_is_not_new(agents):
    assert not await agents.take_nonce(SCOPE, "n", NOW - 1, NOW)
    assert await agents.take_nonce(SCOPE, "n", NOW, NOW)


async def test_everybody_has_nonces_of_their_own(agents):
    assert await agents.take_nonce("https://a.example|k", "n", NOW, NOW)
    assert await agents.take_nonce("https://b.example|k", "n", NOW, NOW)
    assert await agents.take_nonce("https://a.example|", "kn", NOW, NOW)
    assert not await agents.take_nonce("https://a.example|k", "n", NOW, NOW)


@rows("odd", ["", "\x00", "half \ud800", "x" * 1_000_000, "'; DROP TABLE agent_nonce; --"])
async def test_anything_can_be_one(agents, odd):
    assert await agents.take_nonce(odd, odd, NOW, NOW)
    assert not await agents.take_nonce(odd, odd, NOW, NOW)


async def test_a_time_beyond_all_numbers_lasts(agents):
    assert await agents.take_nonce(SCOPE, "n", 2**80, NOW)
    assert not await agents.take_nonce(SCOPE, "n", 2**80, NOW + 10**9)


async def test_rows_are_small_whatever_was_sent(shared_agents):
    shelf, _ = shared_agents
    await shelf.take_nonce("s" * 100_000, "n" * 100_000, NOW, NOW)
    with shelf._store.reading() as conn:
        assert len(conn.execute(select(agent_nonce.c.digest)).scalar_one()) == 32


async def test_equal_ones_in_one_batch_are_one(agents):
    told = await asyncio.gather(*(agents.take_nonce(SCOPE, f"{number % 10}", NOW, NOW) for number in range(100)))
    assert told == [True] * 10 + [False] * 90


async def test_what_ran_out_leaves_the_table_while_others_are_taken(shared_agents):
    shelf, _ = shared_agents
    later = NOW + storage.GRACE_MS + 2
    await asyncio.gather(*(shelf.take_nonce(SCOPE, f"old {number}", NOW, NOW) for number in range(1700)))
    assert counted(shelf) == 1700
    *told, gone = await asyncio.gather(
        *(shelf.take_nonce(SCOPE, f"new {number}", later, later) for number in range(300)), shelf.prune(later)
    )
    assert all(told)
    assert gone == 1700
    assert counted(shelf) == 300


@requirement("WB-017")
async def test_another_gateway_and_the_next_one_know_it(shared_agents):
    shelf, url = shared_agents
    assert await shelf.take_nonce(SCOPE, "n", NOW, NOW)
    other = Store.open(url)
    assert not await SqlAgents(other).take_nonce(SCOPE, "n", NOW, NOW)
    await other.close()


async def test_without_its_store_nobody_is_told_that_it_is_new(tmp_path):
    place = tmp_path / "store.db"
    store = Store.open(f"sqlite:///{place}", busy_seconds=1)
    shelf = SqlAgents(store)
    assert await shelf.take_nonce(SCOPE, "before", NOW, NOW)
    place.rename(tmp_path / "elsewhere.db")
    with pytest.raises(StoreUnavailable):
        await shelf.take_nonce(SCOPE, "after", NOW, NOW)
    await store.close()


async def test_batches_that_do_several_things_never_wait_in_a_circle(url):
    """One gateway writes a session first and then a nonce, the other the other way round."""
    stores = [Store.open(url, busy_seconds=10) for _ in range(2)]
    works = [(SqlAgents(store), SqlTrust(store), store) for store in stores]

    async def one(number, order):
        shelf, trust, store = works[order]
        jobs = [shelf.take_nonce(SCOPE, f"n{number}", NOW, NOW), add(trust)]
        jobs.append(shelf.spend("bucket", 1, 1, 1000, NOW))
        ends = await asyncio.gather(*(jobs if order else jobs[::-1]), store.append(witness(f"{number} {order}")))
        return ends[0 if order else 2]

    told = [await asyncio.gather(one(number, 0), one(number, 1)) for number in range(60)]
    assert all(sorted(pair) == [False, True] for pair in told)
    for store in stores:
        await store.close()


async def test_memory_is_swept_as_it_is_used():
    shelf = MemoryAgents()
    for number in range(5000):
        now = NOW + number * 1000
        assert await shelf.take_nonce(SCOPE, f"{number}", now + 1000, now)
    assert len(shelf._nonces) < 1000
    assert len(shelf._nonces._ends) < 1000


async def test_memory_knows_one_that_was_taken_again_after_its_time_until_its_new_end():
    shelf = MemoryAgents()
    assert await shelf.take_nonce(SCOPE, "n", NOW, NOW)
    assert await shelf.take_nonce(SCOPE, "n", NOW + storage.GRACE_MS + 10, NOW + 1)
    # The end of the first time is swept here, and the second holds.
    assert not await shelf.take_nonce(SCOPE, "n", NOW + 10**7, NOW + storage.GRACE_MS + 5)
    assert len(shelf._nonces) == 1
    assert await shelf.prune(NOW + 10**7) == 1


def test_memory_gives_a_nonce_to_one_of_many_threads():
    shelf, start = MemoryAgents(), threading.Barrier(8)

    def take(_):
        start.wait()
        return [asyncio.run(shelf.take_nonce(SCOPE, f"{number}", NOW + 1000, NOW)) for number in range(50)]

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(take, range(8)))
    assert [sum(took) for took in zip(*told, strict=True)] == [1] * 50


async def test_memory_that_is_full_lets_nobody_in():
    shelf = MemoryAgents(nonces=3)
    for number in range(3):
        assert await shelf.take_nonce(SCOPE, f"{number}", NOW + 1000, NOW)
    with pytest.raises(Refused) as refused:
        await shelf.take_nonce(SCOPE, "one more", NOW + 1000, NOW)
    assert refused.value.reason is Reason.OVERLOADED
    assert not await shelf.take_nonce(SCOPE, "0", NOW + 1000, NOW)
    assert await shelf.take_nonce(SCOPE, "one more", NOW + 10**7, NOW + 1001 + storage.GRACE_MS)
