"""One approval for all rounds of a call: each round once, in its own time, by its own caller."""

import json

import pytest

from callgate.approval.request_state import MultiRoundState
from callgate.errors import Reason, Refused
from support.table import rows

ACTION, CALLER = b"a" * 32, "caller"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def rounds(clock):
    return MultiRoundState(60, clock)


def question(**more):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", **more}}).encode()


def state_in(reply):
    return json.loads(reply)["result"]["requestState"]


def invalid(rounds, state, action=ACTION, caller=CALLER):
    with pytest.raises(Refused) as caught:
        rounds.go_on(state, action, caller)
    assert caught.value.reason is Reason.REQUEST_STATE_INVALID


def wrapped(rounds, **more):
    return state_in(rounds.wrap(question(**more), "call", ACTION, CALLER))


@rows("inner", ["theirs", 'ü "\\ \u2028', None])
def test_a_question_of_the_server_is_wrapped_and_its_state_kept(rounds, inner):
    more = {} if inner is None else {"requestState": inner}
    state = wrapped(rounds, inputRequests={"q": {}}, **more)
    assert rounds.inner(state) == inner
    assert rounds.go_on(state, ACTION, CALLER).request == "call"
    invalid(rounds, state)


@rows(
    "reply",
    [
        b'{"id":1,"result":{"content":[{"text":"input_required"}]}}',
        b'{"id":1,"result":{"resultType":"complete","x":"input_required"}}',
        b'{"id":1,"error":{"message":"input_required"}}',
        b'{"id":1,"result":"input_required"}',
        b'input_required {"',
        b'{"id":1,"result":{}}',
    ],
)
def test_any_other_reply_stays_as_it_is(rounds, reply):
    assert rounds.wrap(reply, "call", ACTION, CALLER) is reply


def test_a_round_is_for_its_call_and_its_caller(rounds):
    state = wrapped(rounds)
    invalid(rounds, state, action=b"b" * 32)
    invalid(rounds, state, caller="another")
    assert rounds.go_on(state, ACTION, CALLER)


def test_a_round_ends_with_its_time_and_with_the_process(rounds, clock):
    state = wrapped(rounds)
    assert not MultiRoundState(60, clock).seals.is_ours(state)
    clock.now += 61
    invalid(rounds, state)


def test_the_oldest_rounds_make_room(rounds):
    first = wrapped(rounds)
    for _ in range(10_000):
        wrapped(rounds)
    invalid(rounds, first)
