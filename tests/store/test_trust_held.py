"""Results kept back: one person decides, once."""

import asyncio

import pytest

from callgate.errors import Reason, Refused, Spent
from callgate.trust import keeping
from support.table import rows
from support.trust_store import LATER, NOW, result


async def test_a_result_is_held_until_somebody_decides(trust):
    await trust.hold(result(), LATER)
    assert await trust.held("cgq_one") == result()
    assert await trust.holding() == [result()]
    released = await trust.settle("cgq_one", "released", "ada", NOW + 5)
    assert (released.state, released.decided_by, released.decided_at) == ("released", "ada", NOW + 5)
    assert released.sealed == result().sealed
    assert await trust.held("cgq_one") == released
    assert await trust.holding() == []


async def test_of_a_dropped_result_nothing_is_left_to_read(trust):
    await trust.hold(result(), LATER)
    dropped = await trust.settle("cgq_one", "dropped", "ada", NOW)
    assert (dropped.state, dropped.sealed) == ("dropped", b"")
    assert await trust.held("cgq_one") == dropped


@rows("first", ["released", "dropped"])
@rows("second", ["released", "dropped"])
async def test_the_first_decision_stands(trust, first, second):
    handle = f"cgq_{first}_{second}"
    await trust.hold(result(handle), LATER)
    before = await trust.settle(handle, first, "ada", NOW)
    with pytest.raises(Spent) as spent:
        await trust.settle(handle, second, "eve", NOW + 1)
    assert spent.value.reason is Reason.APPROVAL_DECIDED
    assert await trust.held(handle) == before


async def test_of_many_who_decide_at_once_one_does(trust):
    await trust.hold(result(), LATER)
    states = ["released", "dropped"] * 10
    acts = [trust.settle("cgq_one", state, f"person {number}", NOW) for number, state in enumerate(states)]
    ends = await asyncio.gather(*acts, return_exceptions=True)
    done = [end for end in ends if not isinstance(end, Spent)]
    assert len(done) == 1
    assert await trust.held("cgq_one") == done[0]


async def test_a_result_whose_time_is_over_is_not_released(trust):
    await trust.hold(result(), NOW + 10)
    with pytest.raises(Spent) as spent:
        await trust.settle("cgq_one", "released", "ada", NOW + 10)
    assert spent.value.reason is Reason.APPROVAL_EXPIRED
    assert (await trust.held("cgq_one")).state == "held"
    assert await trust.prune(NOW + 10, sessions=10) == 1
    assert await trust.held("cgq_one") is None


async def test_a_handle_that_nobody_has_is_nothing(trust):
    await trust.hold(result(), LATER)
    for handle in ("cgq_other", "", "nul \x00", "half \ud800", "x" * 5000):
        assert await trust.held(handle) is None, handle
        with pytest.raises(Spent):
            await trust.settle(handle, "released", "ada", NOW)


async def test_a_state_that_is_none_is_refused(trust):
    await trust.hold(result(), LATER)
    with pytest.raises(ValueError, match="released or dropped"):
        await trust.settle("cgq_one", "held", "ada", NOW)
    assert (await trust.held("cgq_one")).state == "held"


async def test_a_handle_is_used_once(trust):
    await trust.hold(result(), LATER)
    with pytest.raises(Refused):
        await trust.hold(result(sealed=b"another"), LATER)
    assert (await trust.held("cgq_one")).sealed == result().sealed


async def test_nobody_holds_what_is_decided_already(trust):
    await trust.hold(result(state="released", decided_by="eve", decided_at=1), LATER)
    assert await trust.held("cgq_one") == result()


async def test_texts_may_be_anything_and_are_cut(trust):
    long = "half \ud800 nul \x00" * 1000
    await trust.hold(result(tool=long, warnings=(long,) * 99), LATER)
    held = await trust.held("cgq_one")
    assert held.tool == long[: keeping.NAME_CHARS]
    assert held.warnings == (long[: keeping.TEXT_CHARS],) * 16


async def test_the_newest_come_first(trust):
    for number in range(4):
        await trust.hold(result(f"cgq_{number}", at=NOW + number), LATER)
    await trust.settle("cgq_3", "dropped", "ada", NOW)
    assert [held.handle for held in await trust.holding(limit=2)] == ["cgq_2", "cgq_1"]


async def test_of_too_many_those_of_the_same_session_go_first(trust, monkeypatch):
    """A server that floods one session pushes out its own results, not those of others; decided ones before all."""
    monkeypatch.setattr(keeping, "HELD", 4)
    await trust.hold(result("cgq_quiet", session="quiet", at=NOW - 9), LATER)
    await trust.hold(result("cgq_decided", session="quiet", at=NOW + 9), LATER)
    await trust.settle("cgq_decided", "released", "ada", NOW)
    for number in range(6):
        await trust.hold(result(f"cgq_{number}", at=NOW + number), LATER)
    assert [held.handle for held in await trust.holding()] == ["cgq_5", "cgq_4", "cgq_3", "cgq_quiet"]
    assert await trust.held("cgq_decided") is None
