import shlex
import time

import pytest
from sqlalchemy import text

from callgate.cli import run
from callgate.store import Store
from support.registry import requirement
from support.tools_cli import NOTES, entry, sqlite

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
LIST = entry("list_notes", "List the notes.", CLOSED)
DAY = 86_400_000


@pytest.fixture
def room(here, capsys):
    return sqlite(here, capsys)


def now():
    return int(time.time() * 1000)


@requirement("TP-059")
def test_how_often_and_when_last_each_server_is_checked(room, here):
    at = now() - 5_000
    room.met("notes", LIST, at=at)
    row = room.json("tools", "servers")["servers"][0]
    assert (row["name"], row["recheck_seconds"], row["last_check"], row["connected"]) == ("notes", 15.0, at, True)
    (here / "callgate.toml").write_text("[pinning]\nrecheck_seconds = 2.5\n")
    assert room.json("tools", "servers")["servers"][0]["recheck_seconds"] == 2.5
    head, line = room("tools", "servers").out.splitlines()[:2]
    assert head.split()[-3:] == ["last", "check", "every"]
    assert line.endswith("2.5 s")
    assert time.strftime("%Y-%m-%d %H:%M", time.localtime(at / 1000)) in line


@requirement("TP-075")
def test_how_many_servers_are_connected_and_may_be(room, here):
    (here / "callgate.toml").write_text(
        "[pinning]\nservers = 3\n[servers.odd]\ncommand = ['x']\n[servers.odd.pinning]\ngroup = 'apart'\n"
    )
    room.met("notes", LIST)
    room.met("mail", LIST)
    room.met("odd", LIST, group="apart")
    assert room.json("tools", "servers")["groups"] == [
        {"group": "", "connected": 2, "most": 3},
        {"group": "apart", "connected": 1, "most": 3},
    ]
    said = room("tools", "servers").out
    assert "2 of at most 3 servers connected.\n1 of at most 3 servers in group apart.\n" in said


@requirement("TP-052")
def test_orphans_and_duplicates_are_listed(room):
    room.met("notes", LIST)
    room.met("old", LIST, at=now() - 90 * DAY, connected=False)
    room.met("twice", LIST, server_id="npm:twice@1.0.0", at=now() - DAY, connected=False)
    room.met("twice", LIST, server_id="npm:twice@2.0.0")
    found = room.json("tools", "servers", "--odd")["servers"]
    odd = {one["server_id"]: " ".join(one["oddities"]) for one in found}
    assert set(odd) == {"npm:old@1.0.0", "npm:twice@1.0.0", "npm:twice@2.0.0"}
    assert "orphan: it was not met for 90 days" in odd["npm:old@1.0.0"]
    assert "duplicate: the same server is on record as npm:twice@2.0.0" in odd["npm:twice@1.0.0"]
    said = room("tools", "servers", "--odd").out
    assert NOTES not in said
    command = next(line for line in said.splitlines() if "to drop it" in line and "old" in line).partition(": ")[2]
    assert run([*shlex.split(command)[1:], "--yes"]) == 0
    room.quiet()
    assert "npm:old@1.0.0" not in {one["server_id"] for one in room.json("tools", "servers")["servers"]}
    assert [action for action, _, _ in room.records()] == ["pinning.forget"]


@pytest.mark.parametrize("connected", [True, False])
def test_after_an_update_only_the_former_identity_is_to_be_dropped(room, connected):
    room.met("notes", LIST, server_id="npm:notes@1.0.0", at=now() - DAY, connected=False)
    room.met("notes", LIST, server_id="npm:notes@2.0.0", connected=connected)
    found = {one["server_id"]: one["current"] for one in room.json("tools", "servers", "--odd")["servers"]}
    assert found == {"npm:notes@1.0.0": False, "npm:notes@2.0.0": True}
    said = room("tools", "servers").out
    former, current = (said.partition(f"notes: npm:notes@{number}.0.0\n")[2] for number in (1, 2))
    assert current.startswith("  current: ")
    assert former.startswith("  former: ")
    (command,) = [line.partition(": ")[2] for line in said.splitlines() if "to drop it" in line]
    assert "npm:notes@1.0.0" in command
    assert run([*shlex.split(command)[1:], "--yes"]) == 0
    room.quiet()
    assert "No server is orphaned or there twice." in room("tools", "servers", "--odd").err


def test_a_version_that_is_not_pinned_is_warned_about(room):
    room.met("notes", LIST, warnings=("npx takes whatever\x1b[31m is newest; write @1.2.3.",))
    said = room("tools", "servers", "--odd").out
    assert r"warning: npx takes whatever\u001b[31m is newest" in said
    assert "\x1b" not in said


def test_nothing_is_forgotten_unasked(room):
    room.met("notes", LIST)
    assert "Add --yes" in room("tools", "forget", "--server", "notes", code=1).err
    assert room.states() == {"list_notes": "new"}


def test_decisions_outlive_what_is_forgotten(room):
    room.met("notes", LIST)
    room.approve("notes", "list_notes")
    room("tools", "forget", "--server", NOTES, "--yes")
    assert [one["tool_name"] for one in room.json("tools", "history")] == ["list_notes"]
    room.met("notes", LIST)
    assert room.states() == {"list_notes": "approved"}


def test_the_chain_of_decisions_is_verified(room):
    assert room("tools", "verify").out == "No decision was made yet.\n"
    room.met("notes", LIST)
    room.approve("notes", "list_notes")
    room("tools", "block", "--server", "notes", "--tool", "list_notes", "--note", "no")
    assert room("tools", "verify").out == "All 2 decisions on tools are as they were written.\n"
    assert room.json("tools", "verify") == {"ok": True, "decisions": 2, "problem": "", "decision": None}


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ("UPDATE pin SET body = (SELECT body FROM pin WHERE seq = 1) WHERE seq = 2", 2),
        ("DELETE FROM pin WHERE seq = 2", None),
        ("DELETE FROM pin_head", None),
    ],
)
def test_a_changed_decision_is_found_and_nothing_is_approved(room, change, at, capsys):
    room.met("notes", LIST)
    digest = room.approve("notes", "list_notes")
    room("tools", "block", "--server", "notes", "--tool", "list_notes", "--note", "no")
    store = Store.open(room.url, busy_seconds=60)
    try:
        with store.backend.engine.begin() as conn:
            conn.execute(text(change))
    finally:
        store.close_sync()
    said = room("tools", "verify", code=1).err
    assert "(pin_tampered)" in said
    # What it says to type tells who decided what.
    command = next(one for one in said.split("`") if one.startswith("callgate "))
    assert run(shlex.split(command)[1:]) == 0
    assert '"pinning.approved"' in capsys.readouterr().out
    found = room.json("tools", "verify", code=1)
    assert (found["ok"], found["decision"]) == (False, at)
    words = ("tools", "approve", "--server", "notes", "--tool", "list_notes", "--hash", digest)
    room(*words, code=1)
    assert "(pin_tampered)" in room("tools", "history", code=1).err
    assert "approved" not in room.states().values()


def test_decisions_without_their_key_are_told_apart_from_tampering(room, here):
    room.met("notes", LIST)
    room.approve("notes", "list_notes")
    (here / "keys" / "pinning.1.key").unlink()
    assert "there is no pinning key" in room("tools", "list", code=1).err
    assert not (here / "keys" / "pinning.1.key").exists()


def test_a_set_is_reviewed_as_it_is_or_not_at_all(room):
    room.met("notes", LIST)
    room.met("mail", entry("send", "Send a mail.", CLOSED))
    version = room.json("review", code=1)["sets"][0]["version"]
    room.met("third", LIST)
    assert "came, went or changed" in room("tools", "together", "--version", version, code=1).err
    version = room.json("review", code=1)["sets"][0]["version"]
    room("tools", "together", "--version", version)
    assert room.json("review", code=1)["sets"][0]["reviewed"]
    assert "set reviewed" in room("tools", "history").out
