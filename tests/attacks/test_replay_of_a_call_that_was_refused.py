"""Send a captured call again, whatever became of it the first time: a nonce goes with the decision, and a decision that
refuses uses it up as well. A replay counts against nobody and does not fill the log."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from support.agents_gate import call, known, reason, signer, site
from support.records import calls_of
from support.registry import requirement

REPLAYED = (401, "nonce_replay")
BUDGET = 3


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    agents = {name: signer() for name in ("any", "counted")}
    section = {
        "mode": "required",
        "known": {
            "any": known(agents["any"]),
            "counted": known(agents["counted"], per_minute=0.001, burst=BUDGET),
        },
    }
    with site(tmp_path_factory.mktemp("replayed"), agents=section) as made:
        made.agents = agents
        yield made


def rows(running, table):
    with closing(sqlite3.connect(running.gateway.store)) as store:
        return store.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def sent_twice(running, by, body):
    """What both copies of one signed request are answered."""
    headers = running.signed(running.agents[by], body)
    return [reason(running.send(None, body, headers=headers)) for _ in range(2)]


@requirement("WB-017", "WB-090")
def test_a_call_that_the_gate_refused_is_not_decided_again(running):
    # Nobody has reviewed such a tool.
    first, second = sent_twice(running, "any", call("hidden"))
    assert first[1] not in ("", "nonce_replay")
    assert second == REPLAYED
    # One that passed, and one whose arguments nobody can read.
    assert sent_twice(running, "any", call("search")) == [(200, ""), REPLAYED]
    wrong = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":[]}}'
    before = rows(running, "agent_nonce")
    assert sent_twice(running, "any", wrong)[0][0] == 400
    assert rows(running, "agent_nonce") == before + 1


@requirement("WB-017", "WB-023")
def test_what_is_no_call_is_good_once_too(running):
    for body in (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', call("search", "read"), call("callgate_pending")):
        assert sent_twice(running, "any", body) == [(200, ""), REPLAYED]


@requirement("WB-023")
def test_replays_use_up_nobodys_budget(running):
    body = call("search")
    by = running.agents["counted"]
    headers = running.signed(by, body)
    told = [reason(running.send(None, body, headers=headers)) for _ in range(10)]
    assert told == [(200, "")] + [REPLAYED] * 9
    left = [running.send(by, body) for _ in range(BUDGET)]
    assert [reason(one)[1] for one in left] == [""] * (BUDGET - 1) + ["rate_limited"]
    assert [one.header("RateLimit").partition(";t=")[0] for one in left] == [
        '"agent";r=1',
        '"agent";r=0',
        '"agent";r=0',
    ]
    assert int(left[-1].header("Retry-After")) > 0
    # A call that is one too many has its nonce used up as well, or it would pass once there is room again.
    assert sent_twice(running, "counted", body) == [(429, "rate_limited"), REPLAYED]


@requirement("WB-017", "WB-090")
def test_of_many_copies_at_once_one_is_let_through(running):
    body = call("search", at="once")
    headers = running.signed(running.agents["any"], body)
    told = []

    async def race():
        loop = asyncio.get_running_loop()
        sent = [loop.run_in_executor(None, lambda: running.send(None, body, headers=headers)) for _ in range(40)]
        told.extend([reason(one) for one in await asyncio.gather(*sent)])

    asyncio.run(race())
    assert sorted(told) == [(200, "")] + [REPLAYED] * 39
    assert len([one for one in running.got() if b'"once"' in one.body]) == 1


@requirement("WB-017")
def test_replays_are_counted_together(running):
    body = call("read", of="the log")
    headers = running.signed(running.agents["any"], body)
    before = len(calls_of(running.gateway))
    for _ in range(30):
        running.send(None, body, headers=headers)
    # The one that passed, and at most one window of the others that began here.
    found = calls_of(running.gateway)
    assert len(found) - before <= 2, found
