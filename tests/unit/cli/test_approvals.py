import json
import time

import pytest

from callgate.canonical import canonical
from callgate.cli.common import operator
from support.enrolling import GATED

ARGUMENTS = {"name": "shopping\u202elist", "count": 2}


@pytest.fixture
def asked(people):
    """A call of an agent waits for alice."""
    people.enrolled()
    return people.asks(ask)


async def ask(approvals, caller="session-1", **arguments):
    given = arguments or ARGUMENTS
    agent = {"client": "[red]agent\x1b[31m 1.0", "transport": "http"}
    return await approvals.ask(GATED, given, canonical(given), "alice", caller=caller, agent=agent, why="it is marked")


def test_what_waits(people, asked):
    lines = people("approvals", "list").out.splitlines()
    assert lines[0].split() == ["id", "state", "user", "asked", "by", "server", "tool", "asked", "ends"]
    assert lines[1].startswith(asked.id.lstrip("-")[:10])
    assert "waiting  alice  [red]agent\ufffd[31m 1.0  notes   delete_note" in lines[1]
    row = people.json("approvals", "list")[0]
    assert (row["id"], row["state"], row["expires_at"]) == (asked.id, "waiting", asked.expires_at)
    assert people.json("approvals", "list", "--user", "bob") == []


def test_show_says_what_will_be_done_and_where_it_is_approved(people, asked):
    said = people("approvals", "show", asked.id.lstrip("-")[:6]).out
    assert f"http://localhost:8420/approve/{asked.id}" in said
    assert r'name: "shopping\u202elist"' in said
    assert "it is marked" in said
    assert "\x1b[31m" not in said
    assert "\u202e" not in said
    shown = json.loads(people("approvals", "show", asked.id.lstrip("-"), "--json").out)
    assert shown["arguments"] == ARGUMENTS
    assert shown["link"] == f"http://localhost:8420/approve/{asked.id}"
    assert shown["text"] == asked.display_text


def test_refusing_ends_it_and_is_on_record(people, asked):
    assert people("approvals", "refuse", asked.id.lstrip("-")[:8], "--note", "not\x07 today").out == (
        "Refused: delete_note on notes.\n"
    )
    found = people.asks(lambda approvals: approvals.request(asked.id))
    assert (found.state, found.decided_by, found.note) == ("refused", operator(), "not  today")
    assert people.records()[-1] == ("approval.refuse", operator(), {"request": asked.id, "note": "not  today"})
    assert "approved or refused before" in people("approvals", "refuse", asked.id.lstrip("-"), code=1).err
    said = people("approvals", "show", asked.id.lstrip("-")).out
    assert "refused" in said.splitlines()[0]
    assert "not  today" in said
    assert "/approve/" not in said


def test_what_is_over_is_shown_only_if_asked_for(people, asked):
    people("approvals", "refuse", asked.id.lstrip("-"))
    assert people("approvals", "list").err == "Nothing waits for approval.\n"
    assert [row["state"] for row in people.json("approvals", "list", "--all")] == ["refused"]


def test_a_call_whose_time_is_over_does_not_wait(people):
    people.enrolled()
    people.asks(ask, clock=lambda: time.time() - 3600)
    assert people.json("approvals", "list") == []
    assert [row["state"] for row in people.json("approvals", "list", "--all")] == ["expired"]


def test_there_is_no_verb_that_approves(people, asked):
    assert "No such command 'approve'" in people("approvals", "approve", asked.id.lstrip("-"), code=2).err
    assert people.asks(lambda approvals: approvals.request(asked.id)).state == "waiting"


def test_no_such_call(people, asked):
    assert "`callgate approvals list --all`" in people("approvals", "show", "none", code=1).err
    assert "there is no call" in people("approvals", "refuse", "none", code=1).err
