"""The order of the checks, and that nothing undecided passes."""

import asyncio

import pytest

from callgate import errors
from callgate.errors import Reason, Refused, SentBefore, Spent, StoreUnavailable
from callgate.gate import Ask, Call, Context, Decision, Gate, Pass, Refuse, Use
from support.table import rows


def a_call() -> Call:
    return Call("c1", 0, "transfer", {"to": "x"}, b'{"to":"x"}', b"{}", {}, Context("bank", "http"))


class Book:
    """Records what the gate hands to the log, in the order of everything else that happens."""

    def __init__(self, events: list[str], error: BaseException | None = None) -> None:
        self.decisions: list[Decision] = []
        self._events = events
        self._error = error

    async def __call__(self, call: Call, decision: Decision) -> None:
        self._events.append("record")
        if self._error is not None:
            raise self._error
        self.decisions.append(decision)


def says(events: list[str], name: str, verdict: object):
    async def check(_call: Call, *_asks: object):
        events.append(name)
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict

    return check


def a_gate(
    events: list[str], *, closed: Refused | None = None, book: Book | None = None, limit: float = 5.0, **verdicts
):
    checks = {name: says(events, name, verdict) for name, verdict in verdicts.items()}
    return Gate(kill_switch=lambda: closed, record=book or Book(events), limit=limit, **checks)


async def test_the_order_is_agents_pinning_trust_approval_record():
    events: list[str] = []
    gate = a_gate(events, trust=Pass(), pinning=Pass(), approval=Pass(), agents=Pass())
    assert (await gate.decide(a_call())).allowed
    assert events == ["agents", "pinning", "trust", "approval", "record"]


@rows("refusing", ["agents", "pinning", "trust", "approval"])
async def test_the_first_refusal_ends_it_and_is_recorded(refusing):
    events: list[str] = []
    order = ["agents", "pinning", "trust", "approval"]
    verdicts = {name: Refuse(Reason.BLOCKED_BY_POLICY, "no") if name == refusing else Pass() for name in order}
    decision = await a_gate(events, **verdicts).decide(a_call())
    assert decision.refused is not None
    assert (decision.refused.reason, decision.refused.message) == (Reason.BLOCKED_BY_POLICY, "no")
    assert events == [*order[: order.index(refusing) + 1], "record"]
    assert decision.answers[-1].check == refusing


async def test_the_kill_switch_comes_before_everything_and_is_recorded():
    events: list[str] = []
    book = Book(events)
    gate = a_gate(events, closed=Refused(Reason.BLOCKED_BY_POLICY), book=book, agents=Pass())
    decision = await gate.decide(a_call())
    assert decision.refused is not None
    assert decision.refused.reason is Reason.BLOCKED_BY_POLICY
    assert events == ["record"]
    assert book.decisions[0].answers[0].check == "kill_switch"


async def test_an_ask_goes_to_approval_after_the_other_checks():
    events: list[str] = []
    seen: list[tuple[Ask, ...]] = []

    async def approval(_call, asks):
        events.append("approval")
        seen.append(asks)
        return Pass({"approval": "a1"})

    ask = Ask("moves money")
    gate = Gate(
        kill_switch=lambda: None,
        record=Book(events),
        agents=says(events, "agents", ask),
        trust=says(events, "trust", Pass()),
        approval=approval,
    )
    decision = await gate.decide(a_call())
    assert decision.allowed
    assert events == ["agents", "trust", "approval", "record"]
    assert seen == [(ask,)]


async def test_an_ask_that_nobody_can_answer_is_refused():
    decision = await a_gate([], trust=Ask("moves money")).decide(a_call())
    assert decision.refused is not None
    assert decision.refused.reason is Reason.APPROVAL_UNAVAILABLE


@rows("where", ["agents", "pinning", "trust", "approval"])
@rows(
    ("verdict", "reason"),
    [
        (RuntimeError("boom"), Reason.CHECK_FAILED),
        (KeyError("secret-value"), Reason.CHECK_FAILED),
        (StoreUnavailable("locked"), Reason.STORE_UNAVAILABLE),
        (TimeoutError(), Reason.CHECK_TIMEOUT),
        (None, Reason.CHECK_FAILED),
        (True, Reason.CHECK_FAILED),
        ("allow", Reason.CHECK_FAILED),
    ],
    ids=["raises", "key-error", "store", "timeout", "none", "true", "text"],
)
async def test_a_check_that_cannot_decide_refuses(where, verdict, reason):
    events: list[str] = []
    decision = await a_gate(events, **{where: verdict}).decide(a_call())
    assert decision.refused is not None
    assert decision.refused.reason is reason
    assert "secret-value" not in str(decision.refused)
    assert events[-1] == "record"


@rows("where", ["agents", "approval"])
async def test_a_check_that_hangs_refuses(where):
    async def hang(*_args):
        await asyncio.sleep(3600)

    gate = Gate(kill_switch=lambda: None, record=Book([]), limit=0.05, **{where: hang})
    decision = await gate.decide(a_call())
    assert decision.refused is not None
    assert decision.refused.reason is Reason.CHECK_TIMEOUT
    assert where in str(decision.refused)


@rows("error", [StoreUnavailable("full"), Refused(Reason.AUDIT_UNAVAILABLE), OSError("disk"), ZeroDivisionError()])
async def test_what_cannot_be_recorded_does_not_pass(error):
    events: list[str] = []
    decision = await a_gate(events, book=Book(events, error)).decide(a_call())
    assert decision.refused is not None
    assert decision.refused.reason is Reason.AUDIT_UNAVAILABLE


async def test_a_refusal_stays_that_refusal_when_it_cannot_be_recorded():
    events: list[str] = []
    gate = a_gate(events, book=Book(events, OSError("disk")), agents=Refuse(Reason.BLOCKED_BY_POLICY))
    decision = await gate.decide(a_call())
    assert decision.refused is not None
    assert decision.refused.reason is Reason.BLOCKED_BY_POLICY


async def test_a_client_that_leaves_while_a_check_runs_leaves_no_decision():
    events: list[str] = []

    async def slow(*_args):
        await asyncio.sleep(3600)

    gate = Gate(kill_switch=lambda: None, record=Book(events), agents=slow)
    task = asyncio.create_task(gate.decide(a_call()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == []


def test_every_reason_has_status_code_meaning_and_advice():
    for reason in Reason:
        assert reason.status == 200 or 400 <= reason.status < 600
        assert reason.code < 0
        assert reason.meaning.endswith(".")
        assert reason.advice.endswith(".")
    # reasons.toml speaks of no other.
    assert set(errors._table()) == set(Reason)


@rows("comes", [True, False])
async def test_a_reading_of_the_switch_that_is_overdue_is_waited_for_once(comes):
    events: list[str] = []
    switch = [Refused(Reason.STORE_UNAVAILABLE)]

    async def catch_up():
        events.append("waited")
        if comes:
            switch.clear()

    gate = Gate(
        kill_switch=lambda: next(iter(switch), None),
        record=Book(events),
        agents=says(events, "agents", Pass()),
        catch_up=catch_up,
    )
    decision = await gate.decide(a_call())
    assert decision.allowed is comes
    assert events == ["waited", *(["agents"] if comes else []), "record"]


async def test_a_switch_that_is_on_is_not_waited_for():
    async def catch_up():
        raise AssertionError("nothing is overdue")

    gate = Gate(kill_switch=lambda: Refused(Reason.BLOCKED_BY_POLICY), record=Book([]), catch_up=catch_up)
    assert not (await gate.decide(a_call())).allowed


# ---- what a caller uses up ----

NONCE = Use(lambda _driver, uses: uses, "a nonce", bool, lambda _: SentBefore(Reason.NONCE_REPLAY))


class AtOnce:
    """A check that has its answer at once."""

    def __init__(self, events: list[str], name: str, verdict: object) -> None:
        self._events, self._name, self._verdict = events, name, verdict

    def at_once(self, _call: Call) -> object:
        self._events.append(self._name)
        return self._verdict

    async def __call__(self, _call: Call) -> object:
        raise AssertionError("it was not waited for")


def a_counted_gate(events: list[str], *, book: Book | None = None, gone: Exception | None = None, **checks):
    async def use_up(uses: tuple[Use, ...]):
        events.append("use up")
        assert uses == (NONCE,)
        if gone is not None:
            raise gone
        return ((b"left", b"2"),)

    return Gate(kill_switch=lambda: None, record=book or Book(events), use_up=use_up, **checks)


def a_counted_call() -> Call:
    return Call("c1", 0, "transfer", {}, b"{}", b"{}", {}, Context("bank", "http", uses=(NONCE,)))


@rows("verdict", [Pass(), Refuse(Reason.RULE_BLOCKED)])
async def test_what_a_caller_uses_up_goes_with_the_decision_allowed_or_refused(verdict):
    events: list[str] = []
    book = Book(events)
    gate = a_counted_gate(events, book=book, pinning=AtOnce(events, "pinning", verdict))
    await gate.decide(a_counted_call())
    assert events == ["pinning", "record"]
    assert book.decisions[0].consumes == (NONCE,)


async def test_it_is_used_up_before_anything_is_waited_for():
    events: list[str] = []
    book = Book(events)
    checks = {"agents": AtOnce(events, "agents", Pass()), "pinning": says(events, "pinning", Pass())}
    decision = await a_counted_gate(events, book=book, **checks).decide(a_counted_call())
    assert events == ["agents", "use up", "pinning", "record"]
    assert (book.decisions[0].consumes, decision.headers) == ((), ((b"left", b"2"),))


async def test_it_is_used_up_before_a_person_is_asked():
    events: list[str] = []
    checks = {"trust": AtOnce(events, "trust", Ask("moves money")), "approval": says(events, "approval", Pass())}
    await a_counted_gate(events, **checks).decide(a_counted_call())
    assert events == ["trust", "use up", "approval", "record"]


async def test_a_request_that_was_sent_before_goes_no_further_and_is_on_no_record_of_its_own():
    events: list[str] = []
    gate = a_counted_gate(events, gone=SentBefore(Reason.NONCE_REPLAY), pinning=says(events, "pinning", Pass()))
    decision = await gate.decide(a_counted_call())
    assert isinstance(decision.refused, SentBefore)
    assert events == ["use up"]


async def test_a_call_that_is_one_too_many_is_on_record_as_the_callers():
    class OneTooMany(Spent):
        check = "agents"
        headers = ((b"retry-after", b"1"),)

    events: list[str] = []
    gate = a_counted_gate(events, gone=OneTooMany(Reason.RATE_LIMITED), pinning=says(events, "pinning", Pass()))
    decision = await gate.decide(a_counted_call())
    assert decision.refused is not None
    assert (decision.refused.reason, decision.headers) == (Reason.RATE_LIMITED, ((b"retry-after", b"1"),))
    assert [answer.check for answer in decision.answers] == ["agents"]
    assert events == ["use up", "record"]


async def test_a_store_that_cannot_use_it_up_refuses():
    events: list[str] = []
    gate = a_counted_gate(events, gone=StoreUnavailable("gone"), pinning=says(events, "pinning", Pass()))
    decision = await gate.decide(a_counted_call())
    assert decision.refused is not None
    assert decision.refused.reason is Reason.STORE_UNAVAILABLE
    assert "pinning" not in events
    bare = Gate(kill_switch=lambda: None, record=Book(events), pinning=says(events, "pinning", Pass()))
    assert not (await bare.decide(a_counted_call())).allowed
