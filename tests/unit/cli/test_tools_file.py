"""A file of reviewed tools: all of it is approved, or nothing."""

import json
import shlex

import pytest

from callgate.cli import run
from support.table import rows
from support.tools_cli import DELETE, LIST, MAIL, NOTES, entry, sqlite


@pytest.fixture
def small(here, capsys):
    return sqlite(here, capsys)


def typed(room, command):
    """A suggested command, typed as it stands; the address of a PostgreSQL store is not repeated in it."""
    _, *words = shlex.split(command)
    found = run([room.url if word == "URL" else word for word in words])
    room.quiet()
    return found


TO = {"type": "object", "properties": {"to": {"type": "string", "maxLength": 100}}, "additionalProperties": False}


@pytest.fixture
def lock(small, here):
    small.met("notes", DELETE, LIST)
    small.met("mail", entry("send", "Send a mail.", TO))
    path = here / "tools.json"
    path.write_text(small("tools", "list", "--json").out)
    return path


def test_a_reviewed_list_is_approved_whole(small, lock):
    said = small("tools", "approve", "--from", str(lock)).out
    assert said.count("Approved: ") == 3
    assert set(small.states().values()) == {"approved"}
    assert set(small.json("tools", "history")[0]["together"]) == {NOTES, MAIL}
    assert small("tools", "approve", "--from", str(lock)).out == "Approved before: 3.\n"
    assert len(small.json("tools", "history")) == 3


def test_a_reviewed_list_is_approved_not_at_all_if_one_tool_changed(small, lock):
    small.met("mail", entry("send", "Send a mail, and a copy to us."))
    said = small("tools", "approve", "--from", str(lock), code=1).err
    assert "(tool_changed)" in said
    assert typed(small, said.partition("send on mail: ")[2].strip()) == 0
    assert set(small.states().values()) == {"new"}


def test_a_reviewed_list_does_not_lift_a_block(small, lock):
    small("tools", "block", "--server", "mail", "--tool", "send", "--note", "no")
    said = small("tools", "approve", "--from", str(lock), code=1).err
    assert "(tool_blocked)" in said
    assert small.states() == {"delete_note": "new", "list_notes": "new", "send": "blocked"}
    assert typed(small, said.splitlines()[-1].strip()) == 0


@rows(
    "text",
    [
        "",
        "{}",
        "[]",
        '[{"tool": "x"}]',
        "[1]",
        '["x"]',
        "[" * 100_000,
        '[{"server_id": "a", "tool": "b", "approval_hash": 1}]',
    ],
)
def test_a_file_that_is_no_list_of_tools(small, here, text):
    (here / "bad.json").write_text(text)
    assert "is not a list of tools" in small("tools", "approve", "--from", "bad.json", code=1).err


def test_a_file_that_names_a_tool_twice_or_one_that_was_never_met(small, lock, here):
    rows = json.loads(lock.read_text())
    lock.write_text(json.dumps([*rows, rows[0]]))
    assert "twice" in small("tools", "approve", "--from", str(lock), code=1).err
    lock.write_text(json.dumps([*rows, {**rows[0], "tool": "never"}]))
    assert "(tool_unknown)" in small("tools", "approve", "--from", str(lock), code=1).err
    assert "cannot be read" in small("tools", "approve", "--from", "nowhere.json", code=1).err
    assert set(small.states().values()) == {"new"}


def test_tools_with_findings_are_approved_by_who_says_so(small, here):
    small.met("notes", LIST, entry("fetch", "Fetch a page. See https://docs.example/fetch for more."))
    listed = json.loads(small("review", "--json", code=1).out)
    (found,) = [tool for tool in listed["servers"][0]["tools"] if tool["tool"] == "fetch"]
    assert {one["tier"] for one in found["findings"]} == {"soft"}
    path = here / "tools.json"
    path.write_text(small("tools", "list", "--json").out)
    said = small("tools", "approve", "--from", str(path), "--override", "--note", "read it all", code=1).err
    assert "(findings_not_overridden)" in said
    assert "--override --note 'read it all'" in said
    assert f"  fetch on notes: {found['findings'][0]['rule']}: " in said
    assert set(small.states().values()) == {"new"}
    one = ("--server", "notes", "--tool", "fetch", "--hash", found["approval_hash"])
    assert "--with-findings is for --from" in small("tools", "approve", *one, "--with-findings", code=2).err
    assert typed(small, said.partition("Once you have read them: ")[2].strip()) == 0
    assert set(small.states().values()) == {"approved"}
