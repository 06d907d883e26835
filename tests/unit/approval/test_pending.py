"""The wait for a person: what ends it, who is told what meanwhile, and what it costs the store."""

import asyncio
import contextlib
import json

import pytest
from msgspec.structs import replace

from callgate.approval import ApprovalPolicy, Request, pending
from callgate.approval.pending import KeepAlive, PendingApprovals, RequestDecisions, WaitEnd, wait
from callgate.errors import Reason, Refused, StoreUnavailable
from support.table import rows

NOW = 1_000_000
REQUEST = Request(
    "r1", "ann", "vault", "wipe", "caller", {}, b"{}", b"h" * 32, "text", ApprovalPolicy(), "", None, NOW, NOW + 60_000
)


class Shelf:
    """One request, and how often it was asked for."""

    def __init__(self):
        self.request_now = REQUEST
        self.asked = 0
        self.broken = False

    async def request(self, _request_id):
        self.asked += 1
        if self.broken:
            raise StoreUnavailable("gone")
        return self.request_now


class Line:
    can_say = True
    stopping = False
    waited = 0.0

    def __init__(self):
        self.said = []
        self.breaths = 0
        self.left = asyncio.Event()
        self.stood_aside = False

    async def say(self, message):
        self.said.append(json.loads(message))

    async def breathe(self):
        self.breaths += 1

    async def gone(self):
        await self.left.wait()

    @contextlib.contextmanager
    def aside(self):
        self.stood_aside = True
        yield


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def decisions(shelf):
    return RequestDecisions(shelf, lambda: NOW)


@pytest.fixture
def line():
    return Line()


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(pending, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(pending, "_TICK_SECONDS", 0.02)


async def asked(shelf, times):
    """Until the store was asked so many times more."""
    wanted = shelf.asked + times
    while shelf.asked < wanted:
        await asyncio.sleep(0.001)


def waiting_for(decisions, line, place, *, token=None, closed=lambda: None):
    beat = KeepAlive(line, token, "come and look")
    return asyncio.create_task(wait(decisions.of(REQUEST), line, place, beat, closed))


async def test_a_decision_ends_it(shelf, decisions, line):
    with PendingApprovals().enter("vault", "caller", 1, 60) as place:
        task = waiting_for(decisions, line, place)
        await asked(shelf, 3)
        assert not task.done()
        shelf.request_now = replace(REQUEST, state="approved")
        assert (await asyncio.wait_for(task, 60)).state == "approved"
    assert line.stood_aside
    assert line.waited > 0


@rows(
    ("change", "end"),
    [
        (lambda line, _lobby, place: line.left.set(), WaitEnd.LEFT),
        (lambda _line, lobby, _place: lobby.take_back("vault", "caller", 1), WaitEnd.TAKEN_BACK),
        (lambda _line, _lobby, place: place.answer("decline"), WaitEnd.ANSWERED),
        (lambda _line, _lobby, place: place.answer("error"), WaitEnd.ANSWERED),
    ],
)
async def test_other_ends(shelf, change, end):
    decisions, line, lobby = RequestDecisions(shelf, lambda: NOW), Line(), PendingApprovals()
    with lobby.enter("vault", "caller", 1, 60) as place:
        task = waiting_for(decisions, line, place)
        await asked(shelf, 2)
        place.answer("accept") if end is not WaitEnd.ANSWERED else None
        await asked(shelf, 2)
        assert not task.done()
        change(line, lobby, place)
        assert await asyncio.wait_for(task, 60) is end


async def test_time_ends_it(decisions, line):
    with PendingApprovals().enter("vault", "caller", 1, 0.05) as place:
        assert await asyncio.wait_for(waiting_for(decisions, line, place), 60) is WaitEnd.TIME


async def test_a_closed_gate_and_a_stopping_gateway_end_it(shelf, decisions, line):
    closed = []
    with PendingApprovals().enter("vault", "caller", 1, 60) as place:
        task = waiting_for(decisions, line, place, closed=lambda: closed[0] if closed else None)
        await asked(shelf, 2)
        closed.append(Refused(Reason.BLOCKED_BY_POLICY))
        with pytest.raises(Refused) as caught:
            await asyncio.wait_for(task, 60)
        assert caught.value.reason is Reason.BLOCKED_BY_POLICY
        line.stopping = True
        with pytest.raises(Refused) as caught:
            await asyncio.wait_for(waiting_for(decisions, line, place), 60)
        assert caught.value.reason is Reason.SHUTTING_DOWN


async def test_a_closed_gate_counts_before_a_decision(shelf, decisions, line):
    """What is approved at the same moment stays unused."""
    shelf.request_now = replace(REQUEST, state="approved")
    with PendingApprovals().enter("vault", "caller", 1, 60) as place:
        task = waiting_for(decisions, line, place, closed=lambda: Refused(Reason.BLOCKED_BY_POLICY))
        with pytest.raises(Refused):
            await asyncio.wait_for(task, 60)


async def test_all_who_wait_for_one_request_ask_the_store_together(shelf, decisions):
    tasks = [asyncio.create_task(decisions.of(REQUEST)) for _ in range(50)]
    await asked(shelf, 2)
    assert shelf.asked < 10
    tasks[0].cancel()
    shelf.request_now = replace(REQUEST, state="refused")
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert {one.state for one in done[1:]} == {"refused"}
    assert decisions._polls == {}
    # Nobody asks any more: no task is left that could.
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_store_that_fails_for_a_moment_ends_nothing(shelf, decisions):
    shelf.broken = True
    task = asyncio.create_task(decisions.of(REQUEST))
    await asked(shelf, 3)
    shelf.broken = False
    shelf.request_now = replace(REQUEST, state="approved")
    assert (await asyncio.wait_for(task, 60)).state == "approved"


async def test_news_of_the_store_is_followed_while_somebody_waits(shelf, monkeypatch):
    monkeypatch.setattr(pending, "_POLL_SECONDS", 60)
    told, ended = [], []

    def watch(changed):
        told.append(changed)
        return lambda: ended.append(changed)

    decisions = RequestDecisions(shelf, lambda: NOW, watch)
    task = asyncio.create_task(decisions.of(REQUEST))
    await asked(shelf, 1)
    shelf.request_now = replace(REQUEST, state="approved")
    await asyncio.to_thread(told[0])
    assert (await asyncio.wait_for(task, 60)).state == "approved"
    assert ended == told


async def test_a_request_whose_time_is_over_is_not_waited_for(shelf):
    decisions = RequestDecisions(shelf, lambda: REQUEST.expires_at)
    assert (await asyncio.wait_for(decisions.of(REQUEST), 60)).state == "waiting"
    shelf.request_now = None
    assert await asyncio.wait_for(decisions.of(REQUEST), 60) is None


async def test_progress_grows_and_stays_next_to_nothing(line, monkeypatch):
    monkeypatch.setattr(pending, "_PROGRESS_SECONDS", 0)
    beat = KeepAlive(line, "token", "come and look")
    for _ in range(5):
        await beat()
    values = [message["params"]["progress"] for message in line.said]
    assert values == sorted(set(values))
    assert 0 < values[-1] < 0.001
    assert {message["params"]["progressToken"] for message in line.said} == {"token"}
    assert line.breaths == 0


@rows("token", [None, True, 1.5, [], {}])
async def test_without_a_token_there_are_only_signs_of_life(token):
    line = Line()
    beat = KeepAlive(line, token, "come and look")
    await beat()
    await beat()
    assert (line.said, line.breaths) == ([], 1)


async def test_a_cancellation_that_comes_first_counts():
    lobby = PendingApprovals()
    assert not lobby.take_back("vault", "caller", 1)
    for other in ([1], True, 1.0, "1", None):
        assert not lobby.take_back("vault", "caller", other)
    with lobby.enter("vault", "another", 1, 60) as place:
        assert not place.taken_back
    with lobby.enter("vault", "caller", 1, 60) as place:
        assert place.taken_back
    with lobby.enter("vault", "caller", 1, 60) as place:
        assert not place.taken_back


async def test_a_lobby_has_so_many_places():
    lobby = PendingApprovals()
    with contextlib.ExitStack() as stack:
        for number in range(1000):
            caller = f"caller {number // 20}"
            assert lobby.has_room(caller)
            # One id for all of them: each call takes a place nevertheless.
            stack.enter_context(lobby.enter("vault", caller, 1, 60))
            assert lobby.has_room(caller) is (number % 20 != 19)
        assert not lobby.has_room("somebody else")
    assert lobby.has_room("caller 0")
    assert lobby.has_room("somebody else")
    assert not lobby._taken
