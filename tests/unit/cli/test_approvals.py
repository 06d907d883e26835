import json
import secrets
import shlex
import socket
import time

import pytest

from callgate.canonical import canonical
from callgate.cli import run
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
    assert lines[0].split() == ["id", "state", "user", "asked", "by", "server", "tool", "arguments", "asked", "ends"]
    assert lines[1].startswith(asked.id.lstrip("-")[:10])
    assert "waiting  alice  [red]agent\ufffd[31m 1.0  notes   delete_note" in lines[1]
    assert '{"count":2,"name":"shopping\\u202elist"}' in lines[1]
    row = people.json("approvals", "list")[0]
    assert (row["id"], row["state"], row["expires_at"]) == (asked.id, "waiting", asked.expires_at)
    assert people.json("approvals", "list", "--user", "bob") == []


def test_why_is_printed_line_by_line_and_no_line_passes_for_another(people):
    people.enrolled()
    why = "A stranger decides. (rule: stranger-decides)\nto = x\u202ey\x1b[2J: a stranger's\r\n\ncall        forged"
    given = {"name": "x"}
    asked = people.asks(
        lambda approvals: approvals.ask(GATED, given, canonical(given), "alice", caller="s", agent={}, why=why)
    )
    lines = people("approvals", "show", asked.id).out.splitlines()
    at = lines.index("because     A stranger decides. (rule: stranger-decides)")
    assert lines[at + 1] == "            to = x\\u202ey\\u001b[2J: a stranger's\\r"
    assert lines[at + 2] == "            call        forged"
    assert people.json("approvals", "show", asked.id)["why"] == why


def test_long_arguments_are_cut_in_the_list(people):
    people.enrolled()
    people.asks(lambda approvals: ask(approvals, text="ü\n" * 50_000))
    line = people("approvals", "list").out.splitlines()[1]
    assert '{"text":"ü\\nü\\n' in line
    assert "…" in line
    assert len(line) < 240
    assert len(people.json("approvals", "list")[0]["arguments"]) < 500


def test_an_id_with_a_dash_can_be_given_whole(people):
    people.enrolled()
    # Random bytes whose base64url begins with dashes.
    asked = people.asks(ask, random=lambda size: b"\xfb\xef\xbe" + secrets.token_bytes(size - 3))
    assert asked.id.startswith("-")
    assert asked.id in people("approvals", "show", asked.id).out
    people("approvals", "refuse", asked.id, "--note", "-c is not an option here")
    found = people.asks(lambda approvals: approvals.request(asked.id))
    assert (found.state, found.note) == ("refused", "-c is not an option here")


def test_the_page_of_the_process_that_asks(people):
    people.enrolled()
    given = {"name": "x"}
    with socket.create_server(("127.0.0.1", 0)) as serving:
        page = f"http://localhost:{serving.getsockname()[1]}"
        asked = people.asks(
            lambda approvals: approvals.ask(
                GATED, given, canonical(given), "alice", caller="s", agent={}, why="", page=page
            )
        )
        said = people("approvals", "show", asked.id)
        assert f"  {page}/approve/{asked.id}\n" in said.out
        assert said.err == ""
        assert people.json("approvals", "show", asked.id)["link"] == f"{page}/approve/{asked.id}"
    assert f"Nothing answers at {page} any more" in people("approvals", "show", asked.id).err


def test_show_says_that_refusing_needs_no_passkey_and_the_command_works(people, asked):
    said = people("approvals", "show", asked.id).out
    line = next(line for line in said.splitlines() if "without a passkey" in line)
    _, *words = shlex.split(line.partition(": ")[2])
    assert words[-2:] in (["URL", asked.id], [people.url, asked.id])
    assert run([*words[:-2], people.url, asked.id]) == 0
    assert people.asks(lambda approvals: approvals.request(asked.id)).state == "refused"


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
