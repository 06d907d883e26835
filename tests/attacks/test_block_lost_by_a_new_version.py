"""A blocked tool comes back as another version of its server, and hopes that a file or a quick command lets it in."""

import shlex

import pytest

from callgate.cli import run
from callgate.cli.common import operator
from support.fork_server import CALLGATE
from support.registry import requirement
from support.terminal import Terminal
from support.tools_cli import entry, sqlite

OLD, NEW = "npm:@org/notes@1.2.3", "npm:@org/notes@1.2.4"
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
WIPE = entry("wipe", "Wipe all notes.", CLOSED)
READ = entry("read", "Read a note.", CLOSED)
NAMED = ("--server", NEW, "--tool", "wipe")


@pytest.fixture
def room(tmp_path, monkeypatch, capsys):
    """The tool is blocked, and its server has another version now."""
    monkeypatch.chdir(tmp_path)
    room = sqlite(tmp_path, capsys)
    room.met("notes", WIPE, READ, connected=False)
    room("tools", "block", "--server", OLD, "--tool", "wipe", "--note", "nobody needs it")
    room.met("notes", WIPE, READ, server_id=NEW)
    return room


def typed(room, command):
    found = run(shlex.split(command)[1:])
    room.quiet()
    return found


def decisions(room):
    return [(one["action"], one["server_id"], one["tool_name"]) for one in room.json("tools", "history")]


@requirement("TP-051")
@pytest.mark.parametrize("more", [(), ("--override",)])
def test_a_file_does_not_let_it_in(room, tmp_path, more):
    path = tmp_path / "tools.json"
    path.write_text(room("tools", "list", "--json").out)
    refused = room("tools", "approve", "--from", str(path), *more, code=1).err
    assert "(tool_blocked)" in refused
    assert f"{operator()} blocked it" in refused
    assert "nobody needs it" in refused
    assert room.states() == {"wipe": "new", "read": "new"}
    assert decisions(room) == [("block", OLD, "wipe")]
    # Whoever lifts the block by name may use the file.
    assert typed(room, refused.splitlines()[-1].strip()) == 0
    room("tools", "approve", "--from", str(path))
    assert set(room.states().values()) == {"approved"}


def test_a_block_whose_server_was_forgotten_still_stands_and_can_be_lifted(room, tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(room("tools", "list", "--json").out)
    room("tools", "forget", "--server", OLD, "--yes")
    refused = room("tools", "approve", "--from", str(path), code=1).err
    assert "(tool_blocked)" in refused
    assert typed(room, refused.splitlines()[-1].strip()) == 0
    room("tools", "approve", "--from", str(path))


def test_a_command_lets_it_in_only_in_so_many_words(room):
    words = ("tools", "approve", *NAMED, "--hash", room.json("tools", "show", *NAMED)["approval_hash"])
    refused = room(*words, code=1).err
    assert "(tool_blocked)" in refused
    assert f"{operator()} blocked it" in refused
    assert OLD in refused
    assert "nobody needs it" in refused
    assert "--override" in refused
    assert room.states()["wipe"] == "new"
    room(*words, "--override")
    assert room.states()["wipe"] == "approved"


def test_wherever_it_is_offered_the_block_is_told(room):
    listed = room("tools", "list")
    assert f"wipe on notes: {operator()} blocked it" in listed.out
    rows = {row["tool"]: row for row in room.json("tools", "list")}
    (block,) = rows["wipe"]["blocked_as"]
    assert (block["server_id"], block["note"], block["approved_by"]) == (OLD, "nobody needs it", operator())
    assert rows["read"]["blocked_as"] == []
    checked = room("review", "--check", code=1).out
    assert f"{operator()} blocked it" in checked
    shown = room("tools", "show", *NAMED)
    assert shown.out.count("blocked it under another identity") == 1
    assert "blocked it" not in shown.err
    command = next(line for line in shown.err.splitlines() if "approve exactly" in line).partition(": ")[2]
    assert "--override" in command
    assert typed(room, command.strip()) == 0
    assert room.states()["wipe"] == "approved"


def test_on_the_review_one_key_does_not_let_it_in(room):
    with Terminal([CALLGATE, "review", "--store", room.url], rows=60) as seen:
        seen.expect("[q] quit")
        seen.press(" ")
        # What has a finding comes first.
        seen.expect("wipe on notes")
        shown = seen.expect("[o] override")
        assert "nobody needs it" in " ".join(shown.split())
        seen.press("a")
        seen.expect("blocked it under another identity")
        seen.expect("[q] finish")
        seen.press("o")
        seen.expect("Type `override`:")
        seen.press("override\r")
        seen.expect("read on notes")
        seen.expect("[a] approve")
        seen.press("s")
        seen.expect("approve in spite of a block")
        seen.expect("[y] store this decision")
        seen.press("y")
        assert seen.end() == 0
    assert room.states() == {"wipe": "approved", "read": "new"}


def test_a_block_made_while_the_review_is_open_is_not_passed_over(room):
    with Terminal([CALLGATE, "review", "--store", room.url], rows=60) as seen:
        seen.expect("[q] quit")
        seen.press(" ")
        seen.expect("wipe on notes")
        seen.expect("[q] finish")
        seen.press("s")
        seen.expect("read on notes")
        seen.expect("[a] approve")
        seen.press("a")
        seen.expect("[y] store this decision")
        room("tools", "block", "--server", OLD, "--tool", "read", "--note", "leaks")
        seen.press("y")
        seen.expect("Nothing was stored")
        seen.expect("leaks")
        seen.expect("[n] leave")
        seen.press("n")
        assert seen.end() == 0
    assert room.states() == {"wipe": "new", "read": "new"}


def test_an_approval_that_a_block_has_ended_is_not_told_as_one(room):
    room.met("notes", WIPE, server_id="npm:@org/notes@1.2.2", connected=False)
    named = ("--server", "npm:@org/notes@1.2.2", "--tool", "wipe")
    room("tools", "withdraw", "--server", OLD, "--tool", "wipe")
    room("tools", "approve", *named, "--hash", room.json("tools", "show", *named)["approval_hash"])
    assert "It was approved for npm:@org/notes@1.2.2" in " ".join(room("tools", "show", *NAMED).out.split())
    room("tools", "block", *named, "--note", "nobody needs it")
    shown = room("tools", "show", *NAMED).out
    assert "It was approved for" not in shown
    assert "blocked it under another identity" in shown
