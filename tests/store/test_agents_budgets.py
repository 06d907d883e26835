"""Token buckets: no more than the limit passes, however many processes count at once."""

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from callgate.agents import storage
from callgate.agents.limits import FAR_MS, Buckets, asked
from callgate.agents.storage import Take
from callgate.errors import ConfigError
from callgate.store.memory import MemoryAgents
from callgate.store.schema import agent_budget
from support.agents_race import NOW, rush
from support.registry import requirement
from support.table import rows

SECOND = 1 / 1000


def counted(shelf):
    with shelf._store.reading() as conn:
        return conn.execute(select(func.count()).select_from(agent_budget)).scalar_one()


async def test_a_burst_passes_and_then_the_sustained_rate(agents):
    told = [await agents.spend("b", 1, SECOND, 3, NOW) for _ in range(4)]
    assert [ok for ok, _ in told] == [True, True, True, False]
    assert told[3][1] == pytest.approx(1000)
    assert (await agents.spend("b", 1, SECOND, 3, NOW + 999))[1] == pytest.approx(1)
    assert await agents.spend("b", 1, SECOND, 3, NOW + 1000) == (True, 0)
    assert (await agents.spend("b", 1, SECOND, 3, NOW + 1001))[0] is False
    # Rest fills it again, to the burst and no further.
    told = [(await agents.spend("b", 1, SECOND, 3, NOW + 10**6))[0] for _ in range(5)]
    assert told == [True, True, True, False, False]


async def test_what_costs_more_takes_more_and_what_never_fits_never_passes(agents):
    assert await agents.spend("b", 2.5, SECOND, 3, NOW) == (True, 0)
    ok, wait = await agents.spend("b", 2, SECOND, 3, NOW)
    assert not ok
    assert wait == pytest.approx(1500)
    assert await agents.spend("new", 4, SECOND, 3, NOW) == (False, math.inf)


async def test_of_several_buckets_all_are_taken_from_or_none(agents):
    wide, narrow = Take("agent", SECOND, 10), Take("tool", SECOND, 1)
    first = await agents.spend_all([wide, narrow], NOW)
    assert [(one.ok, one.left) for one in first] == [(True, pytest.approx(9)), (True, pytest.approx(0))]
    for _ in range(20):
        told = await agents.spend_all([wide, narrow], NOW)
        assert [(one.ok, one.left) for one in told] == [(True, pytest.approx(9)), (False, pytest.approx(0))]
        assert told[1].wait_ms == pytest.approx(1000)
    assert (await agents.spend_all([wide], NOW))[0].left == pytest.approx(8)


async def test_the_same_bucket_twice_counts_twice(agents):
    one = Take("b", SECOND, 3)
    assert [budget.ok for budget in await agents.spend_all([one, one], NOW)] == [True, True]
    assert [budget.ok for budget in await agents.spend_all([one, one], NOW)] == [True, False]
    assert (await agents.spend_all([one], NOW))[0].ok


@rows(
    "wrong",
    [
        (1, 0, 1),
        (1, -1, 1),
        (1, 1, 0),
        (-1, 1, 1),
        (math.nan, 1, 1),
        (1, math.inf, 1),
        (1, 1, math.nan),
        (1, 101, 1),
        (0.01, 1, 1),
    ],
)
async def test_a_bucket_that_is_none_is_refused(agents, wrong):
    cost, per_ms, burst = wrong
    with pytest.raises(ConfigError):
        await agents.spend("b", cost, per_ms, burst, NOW)


@rows("odd", ["", "\x00", "half \ud800", "x" * 100_000])
async def test_anything_can_name_one(agents, odd):
    assert (await agents.spend(odd, 1, SECOND, 1, NOW))[0]
    assert not (await agents.spend(odd, 1, SECOND, 1, NOW))[0]


async def test_a_clock_that_was_years_ahead_locks_nobody_out_for_years(agents):
    ahead = NOW + 10 * 365 * 86_400_000
    for _ in range(3):
        await agents.spend("b", 1, SECOND, 3, ahead)
    assert not (await agents.spend("b", 1, SECOND, 3, NOW))[0]
    assert (await agents.spend("b", 1, SECOND, 3, NOW + 1000))[0]


async def test_clocks_that_differ_a_little_give_nobody_more(agents):
    """Two gateways, one a second behind: together they let no more through than the one ahead would alone."""
    passed = 0
    for tick in range(0, 20_000, 100):
        for now in (NOW + tick, NOW + tick - 1000):
            passed += (await agents.spend("b", 1, SECOND, 5, now))[0]
    assert passed <= 5 + 20
    assert FAR_MS > 480_000


async def test_full_buckets_leave_the_table(shared_agents):
    shelf, _ = shared_agents
    for number in range(30):
        await shelf.spend(f"b{number}", 1, SECOND, 3, NOW + number * 1000)
    assert counted(shelf) == 30
    assert await shelf.prune(NOW + 10_000) == 10
    assert counted(shelf) == 20
    # One that has something to remember stays as it is.
    assert (await shelf.spend("b29", 3, SECOND, 3, NOW + 29_000))[0] is False


async def test_too_many_buckets_push_out_those_with_least_to_remember(agents, monkeypatch):
    monkeypatch.setattr(storage, "BUDGETS", 10)
    if isinstance(agents, MemoryAgents):
        agents = MemoryAgents(budgets=10)
    for _ in range(50):
        await agents.spend("spender", 1, SECOND, 50, NOW)
    await asyncio.gather(*(agents.spend(f"made up {number}", 1, SECOND, 50, NOW) for number in range(600)))
    await agents.prune(NOW)
    assert not (await agents.spend("spender", 1, SECOND, 50, NOW))[0]
    if not isinstance(agents, MemoryAgents):
        assert counted(agents) == 10


async def test_refusals_write_nothing(shared_agents):
    shelf, _ = shared_agents
    await shelf.spend("b", 1, SECOND, 1, NOW)
    with shelf._store.reading() as conn:
        before = conn.execute(text("SELECT full_at FROM agent_budget")).scalar_one()
    for now in range(NOW, NOW + 900, 100):
        assert not (await shelf.spend("b", 1, SECOND, 1, now))[0]
    with shelf._store.reading() as conn:
        assert conn.execute(text("SELECT full_at FROM agent_budget")).scalar_one() == before


@requirement("WB-023", "WB-080")
async def test_over_4_processes_an_agent_has_one_budget_and_each_its_own(shared_agents):
    _, url = shared_agents
    agents = [f"agent {number}" for number in range(3)]

    def jobs(share):
        order = agents if share % 2 else agents[::-1]
        tools = [["", "one"], ["", "two"]][:: 1 if share % 2 else -1]
        made = []
        for number in range(15):
            made += [{"do": "take", "agent": agent, "of": tools[number % 2], "burst": 20} for agent in order]
            if number % 5 == 0:
                made.append({"do": "prune", "now": NOW})
        return made

    everything = [jobs(share) for share in range(4)]
    ends = await asyncio.to_thread(rush, url, everything)
    passed = dict.fromkeys(agents, 0)
    for share, told in zip(everything, ends, strict=True):
        for job, end in zip(share, told, strict=True):
            if job["do"] == "take":
                passed[job["agent"]] += end
    assert passed == dict.fromkeys(agents, 20)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.sampled_from([0.5, 1.0, 2.0])), min_size=1, max_size=40),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([1 / 1000, 7 / 60_000, 1 / 3]),
)
def test_it_is_a_token_bucket(steps, burst, per_ms):
    """Against the plain way to count one: tokens and the time they were counted at."""
    buckets, tokens, now = Buckets(10), float(burst), NOW
    for passes, cost in steps:
        now += passes
        tokens = min(float(burst), tokens + passes * per_ms)
        (budget,) = buckets.spend(asked([Take("b", per_ms, burst, cost)]), now)
        if abs(tokens - cost) < 0.002 or abs(tokens - cost) < per_ms:
            # Rounding decides.
            tokens = tokens - cost if budget.ok else tokens
            continue
        assert budget.ok == (tokens > cost)
        tokens -= cost * budget.ok
        assert budget.left == pytest.approx(tokens, abs=0.01 + per_ms)


async def test_in_memory_nonces_and_buckets_are_both_swept_where_each_call_uses_both():
    shelf = MemoryAgents(budgets=100)
    for number in range(2000):
        now = NOW + number * 1000
        await shelf.spend(f"bucket {number}", 1, 1e-9, 1, now)
        assert await shelf.take_nonce("scope", f"{number}", now + 1000, now)
    assert len(shelf._nonces) <= 1000
    with shelf._store.reading() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM agent_budget").scalar_one() <= 100 + 500
