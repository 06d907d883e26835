"""`callgate review` without a terminal, and as a gate for builds."""

import json
import re
import shlex

import pytest

from callgate.cli import run
from support.registry import requirement
from support.toolroom import MAIL, NOTES, entry, sqlite

CLOSED = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}, "additionalProperties": False}
LIST = entry("list_notes", "List the notes.", CLOSED)
SEND = entry("send", "Send a mail.", CLOSED)


@pytest.fixture
def room(here, capsys):
    return sqlite(here, capsys)


def test_without_a_terminal_it_prints_everything_and_fails_while_something_waits(room):
    room.met("notes", LIST)
    room.met("mail", SEND)
    said = room("review", code=1)
    for part in ("You approve for", "List the notes.", "Send a mail.", NOTES, MAIL):
        assert part in said.out
    commands = re.findall(r"To approve exactly this:  (.*)", said.out)
    assert len(commands) == 2
    for command in commands:
        assert run(shlex.split(command)[1:]) == 0
    said = room("review", code=1).out
    assert "mail and notes were never on one review" in said
    assert run(shlex.split(said.partition("were reviewed together: ")[2].splitlines()[0])[1:]) == 0
    assert "Nothing waits for review." in room("review").err


def test_a_gate_for_builds(room, capsys):
    room.met("notes", LIST)
    said = room("review", "--check", code=1).out
    assert "list_notes on notes" in said
    assert "List the notes." not in said
    assert "list_notes on notes, new" in said
    command = said.partition("To read it whole: ")[2].splitlines()[0].strip()
    assert run(shlex.split(command)[1:]) == 0
    assert "To see what changed" not in said
    room.quiet()
    room.approve("notes", "list_notes")
    room("review", "--check")
    room.met("notes", {**LIST, "description": "Other."})
    said = room("review", "--check", code=1).out
    assert "list_notes on notes, changed" in said
    command = said.partition("To see what changed: ")[2].splitlines()[0].strip()
    assert run(shlex.split(command)[1:]) == 0
    assert "{+Other+}" in capsys.readouterr().out


@requirement("TP-036")
def test_the_review_as_json_has_the_tools_of_both_servers(room):
    room.met("notes", LIST)
    room.met("mail", SEND)
    found = room.json("review", code=1)
    assert {(one["seen"]["name"], tool["tool"]) for one in found["servers"] for tool in one["tools"]} == {
        ("notes", "list_notes"),
        ("mail", "send"),
    }
    assert found["pending"] == 2
    assert json.dumps(found)
