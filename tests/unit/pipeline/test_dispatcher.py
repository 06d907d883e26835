"""The door: what it hands on, what it answers, and its last look before a message leaves."""

import json

import pytest

from callgate.errors import Reason, Refused
from callgate.gate import Context, Gate, Pass, Refuse
from callgate.jsonrpc import Limits
from callgate.pipeline.dispatcher import Dispatcher, Rejected, new_call_id, session_digest


class Kept:
    """The books, without a store."""

    def __init__(self):
        self.decisions = []
        self.outcomes = []

    async def record(self, call, decision):
        self.decisions.append((call.tool, decision.allowed))

    def decided(self, call, decision, seconds):
        pass

    def completed(self, call, outcome):
        self.outcomes.append((call.tool, outcome.outcome))


class Switch:
    on = False

    def __call__(self):
        return Refused(Reason.BLOCKED_BY_POLICY) if self.on else None


CONTEXT = Context("files", "http")


def call(rpc_id, tool):
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": {"name": tool}}


@pytest.fixture
def books():
    return Kept()


@pytest.fixture
def switch():
    return Switch()


@pytest.fixture
def door(books, switch):
    async def agents(asked):
        return Refuse(Reason.BLOCKED_BY_POLICY, "not this one") if asked.tool == "rm" else Pass()

    return Dispatcher(Gate(kill_switch=switch, record=books.record, agents=agents), books, Limits())


def enter(door, value):
    return door.admit(door.read(json.dumps(value).encode()), CONTEXT)


async def test_a_call_is_decided_and_its_reply_ends_it_once(door, books):
    entry = await enter(door, call(1, "ls"))
    (flight,) = entry.calls
    assert books.decisions == [("ls", True)]
    assert not flight.replied(b'{"jsonrpc":"2.0","id":"1","result":{}}')
    assert not flight.replied(b'{"jsonrpc":"2.0","id":true,"result":{}}')
    assert flight.replied(b'{"jsonrpc":"2.0","id":1,"result":{"isError":true}}')
    flight.finish("cancelled")
    assert books.outcomes == [("ls", "tool_error")]


async def test_a_refused_call_is_answered_with_its_reason(door, books):
    with pytest.raises(Rejected) as caught:
        await enter(door, call("a", "rm"))
    reply = json.loads(caught.value.reply)
    assert (reply["id"], reply["error"]["data"]["reason"]) == ("a", "blocked_by_policy")
    assert books.decisions == [("rm", False)]
    assert books.outcomes == []


async def test_one_refused_call_refuses_its_batch_and_nothing_of_it_leaves(door, books):
    ping = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    note = {"jsonrpc": "2.0", "method": "notifications/x"}
    with pytest.raises(Rejected) as caught:
        await enter(door, [call(1, "ls"), call(2, "rm"), ping, note])
    replies = {reply["id"]: reply["error"]["data"]["reason"] for reply in json.loads(caught.value.reply)}
    assert replies == {1: "batch_refused", 2: "blocked_by_policy", 3: "batch_refused"}
    assert books.decisions == [("ls", True), ("rm", False)]
    assert books.outcomes == [("ls", "batch_refused")]


def test_two_requests_of_a_batch_with_one_id_are_refused(door):
    with pytest.raises(Rejected) as caught:
        door.read(json.dumps([call(7, "rm"), call(7, "ls")]).encode())
    assert caught.value.refused.reason is Reason.INVALID_REQUEST


async def test_the_switch_turned_between_decision_and_leaving_still_stops_the_call(door, books, switch):
    entry = await enter(door, call(1, "ls"))
    await door.pre_dispatch_check(entry)
    switch.on = True
    with pytest.raises(Rejected) as caught:
        await door.pre_dispatch_check(entry)
    assert json.loads(caught.value.reply)["error"]["data"]["reason"] == "blocked_by_policy"
    assert books.outcomes == [("ls", "blocked")]


async def test_the_switch_turned_late_stops_a_whole_batch(door, books, switch):
    entry = await enter(door, [call(1, "ls"), {"jsonrpc": "2.0", "id": 2, "method": "ping"}])
    switch.on = True
    with pytest.raises(Rejected) as caught:
        await door.pre_dispatch_check(entry)
    assert [reply["id"] for reply in json.loads(caught.value.reply)] == [1, 2]
    assert books.outcomes == [("ls", "blocked")]


async def test_what_asks_for_nothing_may_leave_under_the_switch(door, switch):
    entry = await enter(door, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    switch.on = True
    await door.pre_dispatch_check(entry)


def test_call_ids_sort_by_age_and_do_not_repeat():
    ids = [new_call_id(at) for at in range(1_700_000_000_000, 1_700_000_002_000)]
    assert ids == sorted(ids)
    assert len({new_call_id(5) for _ in range(5000)}) == 5000
    assert all(len(one) == 32 for one in ids)


def test_a_session_is_kept_as_a_digest():
    assert session_digest("secret") == session_digest("secret")
    assert "secret" not in session_digest("secret")
    assert session_digest("secret") != session_digest("other")
