"""The attacker finds a call that makes a check raise, hang or answer nonsense: none of it may let the call through."""

import asyncio
import json

import pytest

from callgate.errors import Reason, StoreUnavailable
from callgate.gate import Ask, Context, Gate, Pass, Refuse
from callgate.jsonrpc import Limits
from callgate.pipeline.dispatcher import Dispatcher, Rejected
from support.hostile import call_message
from support.table import rows

HERE = Context("one", "http")


async def raises(_call):
    raise RuntimeError("secret detail of the check")


async def hangs(_call):
    await asyncio.Event().wait()


async def no_answer(_call):
    return None


async def true(_call):
    return True


async def store_down(_call):
    raise StoreUnavailable("no store")


async def ends_the_process(_call):
    raise SystemExit(0)


async def asks(_call):
    return Ask("a person has to look")


async def refuses(_call):
    return Refuse(Reason.BLOCKED_BY_POLICY, "no")


async def passes(_call):
    return Pass({"seen": True})


BROKEN = {
    "raises": (raises, "check_failed"),
    "hangs": (hangs, "check_timeout"),
    "no_answer": (no_answer, "check_failed"),
    "true": (true, "check_failed"),
    "store_down": (store_down, "store_unavailable"),
    "asks_and_nobody_is_there": (asks, "approval_unavailable"),
    "refuses": (refuses, "blocked_by_policy"),
}


def door(books, **checks):
    # Only a check that never ends runs into the limit.
    limit = checks.pop("limit", 60)
    gate = Gate(kill_switch=lambda: None, record=checks.pop("record", books.record), limit=limit, **checks)
    return Dispatcher(gate, books, Limits())


def limit_of(check):
    return 0.01 if check is hangs else 60


async def turned(one):
    with pytest.raises(Rejected) as away:
        await one.admit(one.read(call_message("rm")), HERE)
    return json.loads(away.value.reply)["error"]


@rows("room", ["agents", "pinning", "trust"])
@rows("which", BROKEN)
async def test_a_broken_check_refuses_and_is_on_record(books, room, which):
    check, reason = BROKEN[which]
    books.decisions.clear()
    error = await turned(door(books, limit=limit_of(check), **{room: check}))
    assert error["data"]["reason"] == reason
    assert "secret detail" not in json.dumps(error)
    assert [decision.refused.reason.value for _, decision in books.decisions] == [reason]


@rows("which", ["raises", "hangs", "no_answer", "true", "store_down"])
async def test_a_broken_approval_refuses(books, which):
    check, reason = BROKEN[which]

    async def approval(call, _asks):
        return await check(call)

    one = door(books, limit=limit_of(check), trust=asks, approval=approval)
    assert (await turned(one))["data"]["reason"] == reason


async def test_a_check_behind_a_broken_one_cannot_save_the_call(books):
    assert (await turned(door(books, agents=raises, pinning=passes, trust=passes)))["data"]["reason"] == "check_failed"


@rows("failure", [RuntimeError("x"), StoreUnavailable("x"), OSError("disk"), RecursionError()])
async def test_what_cannot_be_recorded_does_not_leave(books, failure):
    async def record(_call, _decision):
        raise failure

    assert (await turned(door(books, record=record)))["data"]["reason"] == "audit_unavailable"


async def test_a_check_that_ends_the_process_lets_nothing_through(books):
    one = door(books, agents=ends_the_process)
    with pytest.raises(SystemExit):
        await one.admit(one.read(call_message("rm")), HERE)
    assert books.decisions == []


async def test_with_good_checks_the_call_passes(books):
    entry = await (one := door(books, agents=passes, pinning=passes, trust=passes)).admit(
        one.read(call_message("ls")), HERE
    )
    assert [flight.call.tool for flight in entry.calls] == ["ls"]
    assert books.decisions[0][1].allowed
