"""Rate limits: per agent and per tool, sustained and at once, and what an answer says of them."""

import http_sf
import pytest

from callgate.agents.limits import Allowance, Limit, MemoryLimiter, StoreLimiter, limit_of
from callgate.agents.model import ToolPolicy
from callgate.errors import ConfigError, Reason, StoreUnavailable
from callgate.store.memory import MemoryAgents
from support.registry import requirement
from support.table import rows

START = 1_800_000_000.0


class Clock:
    now = START

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "shelf"])
def limiter(request, clock):
    return MemoryLimiter(clock=clock) if request.param == "memory" else StoreLimiter(MemoryAgents(), clock=clock)


async def passed(limiter, agent, limits, times):
    return sum([(await limiter.take(agent, limits)).ok for _ in range(times)])


@requirement("WB-080")
async def test_a_burst_over_the_limit_is_refused_until_it_may_be_tried_again(limiter, clock):
    limits = [Limit("agent", per_minute=60, burst=5)]
    assert await passed(limiter, "a", limits, 5) == 5
    over = await limiter.take("a", limits)
    assert not over.ok
    refusal = over.refusal()
    assert refusal.reason is Reason.RATE_LIMITED
    assert refusal.status == 429
    assert refusal.data == {"retryAfter": 1, "limits": ["agent"]}
    assert refusal.advice == "Try again in 1 s."
    clock.now += over.retry_after
    assert await passed(limiter, "a", limits, 3) == 1


@requirement("WB-023")
async def test_each_agent_has_a_budget_of_its_own(limiter):
    limits = [Limit("agent", 60, 3)]
    assert await passed(limiter, "a", limits, 10) == 3
    assert await passed(limiter, "b", limits, 10) == 3


@requirement("WB-044")
async def test_without_a_limit_nothing_is_counted(limiter):
    for _ in range(1000):
        assert await limiter.take("a", []) == Allowance()
    assert limit_of(ToolPolicy(), "agent") is None
    assert limit_of(ToolPolicy(per_minute=6, burst=2), "tool", "s/t") == Limit("tool", 6, 2, "s/t")


async def test_each_tool_has_a_budget_and_the_agent_one_for_all(limiter):
    agent = Limit("agent", 60, 4)
    read, write = Limit("tool", 60, 3, "files/read"), Limit("tool", 60, 3, "files/write")
    assert await passed(limiter, "a", [agent, read], 10) == 3
    # What the tool's limit refused has cost the agent nothing.
    assert await passed(limiter, "a", [agent, write], 10) == 1
    assert await passed(limiter, "b", [agent, write], 10) == 3


async def test_names_that_run_into_each_other_are_told_apart(limiter):
    assert await passed(limiter, "a", [Limit("tool", 60, 1, "bc")], 2) == 1
    assert await passed(limiter, "ab", [Limit("tool", 60, 1, "c")], 2) == 1
    assert await passed(limiter, "a1:", [Limit("tool", 60, 1, "")], 2) == 1
    assert await passed(limiter, "a", [Limit("tool", 60, 1, "1:")], 2) == 1


async def test_a_limit_without_a_burst_gives_a_minutes_worth(limiter, clock):
    assert await passed(limiter, "a", [Limit("agent", 30)], 100) == 30
    clock.now += 2
    assert await passed(limiter, "a", [Limit("agent", 30)], 100) == 1
    assert await passed(limiter, "b", [Limit("agent", 0.5)], 100) == 1


async def test_over_an_hour_it_is_the_sustained_rate(limiter, clock):
    count = 0
    for _ in range(3600 * 2):
        clock.now += 0.5
        count += (await limiter.take("a", [Limit("agent", 20, 5)])).ok
    assert 1200 <= count <= 1205


async def test_the_fastest_limit_still_counts_every_call(limiter):
    limits = [Limit("agent", 6_000_000, 100_000)]
    assert await passed(limiter, "a", limits, 1000) == 1000
    (_, left) = (await limiter.take("a", limits)).headers
    assert read([left], "RateLimit")["agent"]["r"] == pytest.approx(98_999, abs=30)


async def test_a_changed_limit_starts_anew(limiter):
    assert await passed(limiter, "a", [Limit("agent", 1 / 60, 1)], 5) == 1
    assert await passed(limiter, "a", [Limit("agent", 60, 2)], 5) == 2


# -- what an answer says ---------------------------------------------------------------------------------------


def read(headers, name):
    (value,) = [value for found, value in headers if found == name]
    return {str(item): params for item, params in http_sf.parse(value.encode(), tltype="list")}


async def test_answers_say_what_is_left(limiter, clock):
    limits = [Limit("agent", 60, 10), Limit("tool", 6, 2, "s/t")]
    first = await limiter.take("a", limits)
    assert first.headers == (
        ("RateLimit-Policy", '"agent";q=10;w=10, "tool";q=2;w=20'),
        ("RateLimit", '"agent";r=9;t=1, "tool";r=1;t=10'),
    )
    second = await limiter.take("a", limits)
    assert dict(second.headers)["RateLimit"] == '"agent";r=8;t=1, "tool";r=0;t=10'
    clock.now += 4
    third = await limiter.take("a", limits)
    assert third.headers == (
        ("Retry-After", "6"),
        ("RateLimit-Policy", '"agent";q=10;w=10, "tool";q=2;w=20'),
        ("RateLimit", '"agent";r=10;t=1, "tool";r=0;t=6'),
    )
    assert (third.retry_after, third.over) == (6, ("tool",))


async def test_they_are_structured_fields(limiter):
    given = await limiter.take("a", [Limit("agent", 0.001, 1), Limit("tool-2.x", 6_000_000, 1_000_000_000)])
    assert read(given.headers, "RateLimit-Policy")["agent"] == {"q": 1, "w": 60_000}
    assert read(given.headers, "RateLimit")["tool-2.x"]["r"] == 999_999_999


async def test_who_waits_as_long_as_told_passes(limiter, clock):
    for per_minute in (0.7, 7, 59, 61, 1000):
        limits = [Limit("agent", per_minute, 3)]
        await passed(limiter, "a", limits, 3)
        for _ in range(20):
            told = await limiter.take("a", limits)
            while told.ok:
                told = await limiter.take("a", limits)
            clock.now += told.retry_after
            assert (await limiter.take("a", limits)).ok


@rows(
    "wrong",
    [
        {"per_minute": 0},
        {"per_minute": -1},
        {"per_minute": float("nan")},
        {"per_minute": float("inf")},
        {"per_minute": 6_000_001},
        {"burst": 0},
        {"burst": 10**10},
        {"name": ""},
        {"name": 'a"; r=1'},
        {"name": "a\r\nx"},
        {"name": "x" * 65},
    ],
)
def test_a_limit_that_limits_nothing_or_everything_is_a_configuration_error(wrong):
    with pytest.raises(ConfigError) as error:
        Limit(**{"name": "agent", "per_minute": 60, "burst": 5} | wrong)
    assert error.value.advice


async def test_memory_is_bounded_whoever_makes_up_names(clock):
    limiter = MemoryLimiter(clock=clock, most=100)
    limits = [Limit("agent", 60, 5)]
    await passed(limiter, "spender", limits, 5)
    for number in range(5000):
        await limiter.take(f"made up {number}", limits)
        assert len(limiter._buckets) <= 100
    assert await passed(limiter, "spender", limits, 5) == 0


async def test_without_its_store_nobody_is_let_through():
    class Gone(MemoryAgents):
        async def spend_all(self, takes, now):
            raise StoreUnavailable("gone", advice="Run `callgate store check`.")

    with pytest.raises(StoreUnavailable):
        await StoreLimiter(Gone()).take("a", [Limit("agent", 60)])
