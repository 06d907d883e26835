"""`callgate session` and `callgate quarantine` on both databases."""

import asyncio
import io
import json
import re
import sys
from pathlib import Path

import pytest

from callgate.audit import reading
from callgate.cli import run
from callgate.cli.common import configuration, keys_of, open_log, operator
from callgate.cli.services import TRUST_KEY as SEALING
from callgate.store import SqlTrust, Store
from callgate.trust.model import SessionLabel
from callgate.trust.quarantine import Seals
from support.agent_sessions import HANDLE, KEY, OTHER, POISON, WARNING, furnish, hold, walk
from support.registry import requirement
from support.stores import ready
from support.table import rows
from support.terminal import Terminal


class Room:
    """A store in which agents have been at work, and verbs with what they print."""

    def __init__(self, url, capsys):
        self.url = url
        self._capsys = capsys
        with open_log(None, url, create=True):
            pass
        keyring = keys_of(configuration(None, url))
        keyring.make(SEALING)
        self.seals = Seals([key.secret for key in keyring.versions(SEALING)])
        self.shelf(furnish)

    def shelf(self, work):
        store = Store.open(self.url, busy_seconds=60)
        try:
            return asyncio.run(work(SqlTrust(store)))
        finally:
            store.close_sync()

    def __call__(self, *words, code=0):
        self._capsys.readouterr()
        found = run([*words, "--store", self.url])
        said = self._capsys.readouterr()
        assert found == code, said.out + said.err
        return said

    def json(self, *words):
        return json.loads(self(*words, "--json").out)

    def records(self):
        store = Store.open(self.url, busy_seconds=60)
        try:
            with store.audit_reading() as tables:
                found = [json.loads(body) for _, body in tables.bodies(reading.Filter())]
        finally:
            store.close_sync()
        return [(one["action"], one["by"], one.get("detail")) for one in found if one["kind"] == "admin"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.verify)])
def room(request, here, capsys):
    with ready(request.param, here) as url:
        yield Room(url, capsys)


@pytest.fixture
def plain(here, capsys):
    return Room(f"sqlite:///{here / 'store.db'}", capsys)


def test_sessions_are_listed_with_their_labels(room):
    lines = room("session", "list").out.splitlines()
    assert lines[0].split() == ["session", "agent", "seen", "steps", "labels"]
    (row,) = [line for line in lines if "Fieldwork" in line]
    assert row.startswith(KEY[:10])
    assert "malicious, open world, financial +2" in row
    found = room.json("session", "list")
    assert {one["key"] for one in found} == {KEY, "0" * 32}
    assert next(one for one in found if one["key"] == KEY)["label"]["sensitivity"] == ["financial", "pii", "user"]
    assert len(room.json("session", "list", "--limit", "1")) == 1


def test_one_session_is_drawn_as_text(room):
    said = room("session", "show", KEY[:6])
    for line in (
        "  4 ◆  send_money on bank  approved by a person  stranger-decides",
        "   │    does   internal, irreversible",
        "   │    takes  amount = 240.00  only in text that a stranger may have written  ← 3",
        "   │    takes  recipient = DE89 3704 0044 0532 0130 00  in a trusted result  ← 2",
        "  6 ✖  send_mail on mail  refused  secrets-leave",
        "   │    why    Financial data goes to an address that only a stranger named.  rule_blocked",
        "   │    gave   nothing: the call was not made",
        f"   │           WARNING {WARNING}",
    ):
        assert line in said.out.splitlines()
    assert f"session declassify {KEY} --note WHY" in said.err
    assert "ONLY IN TEXT" not in said.out
    assert said.out.count("xy@evil.example") == 1


def test_what_the_documentation_shows_is_what_is_printed(plain):
    guide = (Path(__file__).parents[3] / "docs/how-to/follow-a-session.md").read_text(encoding="utf-8")
    shown = guide.split("```text\n", 1)[1].split("```", 1)[0]
    times = re.compile(r"^opened .*\n", re.MULTILINE)
    assert times.sub("", plain("session", "show", KEY).out).strip() == times.sub("", shown).strip()


def test_one_session_for_machines(plain):
    found = plain.json("session", "show", KEY)
    (paid,) = [one for one in found["steps"] if one["tool"] == "send_money"]
    assert (paid["verdict"], paid["rule"], paid["server"]) == ("approved by a person", "stranger-decides", "bank")
    assert [(one["path"], one["found"], one["steps"]) for one in paid["values"]] == [
        ("recipient", "trusted", [2]),
        ("amount", "untrusted", [3]),
        ("subject", "prompt", []),
    ]
    assert found["steps"][5]["result"] is None
    assert found["steps"][5]["reason"] == "rule_blocked"
    assert found["steps"][5]["why"] == "Financial data goes to an address that only a stranger named."
    assert found["steps"][4]["result"]["warnings"] == [WARNING]
    short = plain.json("session", "show", KEY, "--steps", "2")
    assert ([one["seq"] for one in short["steps"]], short["folded"]) == ([6, 7], 5)


@requirement("TA-075")
def test_declassifying_clears_the_hint_and_leaves_a_record(room):
    said = room("session", "declassify", KEY[:8], "--note", "It was a drill", "--yes")
    assert KEY in said.out
    session = room.shelf(lambda shelf: shelf.session(KEY))
    assert session.label == SessionLabel()
    (record,) = [one for one in room.records() if one[0] == "trust.declassify"]
    assert record[1] == operator()
    assert (record[2]["session"], record[2]["note"]) == (KEY, "It was a drill")
    assert record[2]["was"]["open_world"] is True
    assert f"Declassified by {operator()}" in room("session", "show", KEY).out


@requirement("TA-075")
@rows("words", [(), ("--note", " "), ("--note", "why")], ids=["no note", "blank", "nobody asked"])
def test_nothing_is_declassified_by_the_way(plain, words, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    found = run(["session", "declassify", KEY, *words, "--store", plain.url])
    assert found != 0
    assert plain.shelf(lambda shelf: shelf.session(KEY)).label.open_world
    assert [one for one in plain.records() if one[0].startswith("trust.")] == []


def test_without_the_keys_of_the_log_nothing_is_changed(plain, here):
    for file in here.rglob("checkpoint.*"):
        file.unlink()
    plain("session", "declassify", KEY, "--note", "x", "--yes", code=1)
    plain("quarantine", "release", HANDLE, "--yes", code=1)
    assert plain.shelf(lambda shelf: shelf.session(KEY)).label.open_world
    assert plain.shelf(lambda shelf: shelf.held(HANDLE)).state == "held"


def test_a_session_that_is_not_there_is_said_before_keys_that_are_not(here, capsys):
    url = f"sqlite:///{here / 'new.db'}"
    Store.open(url, create=True).close_sync()
    assert run(["session", "declassify", "ffffffff", "--note", "x", "--yes", "--store", url]) == 1
    said = capsys.readouterr().err
    assert "There is no agent session of that name." in said
    assert "key" not in said


def test_what_is_not_there_is_said_with_what_to_type(plain):
    said = plain("session", "show", "ffffffff", code=1)
    assert "`callgate session list` shows" in said.err
    said = plain("quarantine", "show", "nope", code=1)
    assert "`callgate quarantine list` shows" in said.err
    plain.shelf(lambda shelf: walk(shelf, KEY[:8] + "0" * 24))
    assert "several keys" in plain("session", "show", KEY[:8], code=1).err


def test_nothing_yet(here, capsys):
    url = f"sqlite:///{here / 'empty.db'}"
    with open_log(None, url, create=True):
        pass
    assert run(["session", "list", "--store", url]) == 0
    assert "No agent has called a tool" in capsys.readouterr().err
    assert run(["quarantine", "list", "--store", url]) == 0
    assert "Nothing is held back." in capsys.readouterr().err


def test_a_held_result_is_read_and_released(room):
    assert WARNING in room("quarantine", "list").out
    assert [one["handle"] for one in room.json("quarantine", "list")] == [HANDLE]
    # What another key has sealed stays closed; it can be decided on all the same.
    assert "cannot be opened" in room("quarantine", "show", HANDLE).out
    said = room("quarantine", "release", HANDLE[:12], "--note", "seen", "--yes")
    assert said.out.startswith("Released: what read_mail on mail returned")
    (record,) = [one for one in room.records() if one[0] == "trust.release"]
    assert (record[1], record[2]["handle"], record[2]["note"]) == (operator(), HANDLE, "seen")
    room("quarantine", "drop", HANDLE, "--yes", code=1)
    assert room.json("quarantine", "show", HANDLE)["state"] == "released"
    assert room.json("quarantine", "list") == []


def test_a_held_result_is_shown_with_what_is_invisible_spelt_out(plain, monkeypatch):
    monkeypatch.setattr("support.agent_sessions.SEALS", plain.seals)
    plain.shelf(lambda shelf: hold(shelf, OTHER))
    out = plain("quarantine", "show", OTHER).out
    assert f"  │ {POISON.replace(chr(0x200B), chr(92) + 'u200b')}" in out
    found = plain.json("quarantine", "show", OTHER)
    assert json.loads(found["reply"])["result"]["content"][0]["text"] == POISON
    plain("quarantine", "drop", OTHER, "--yes")
    assert "nothing of it is kept" in plain("quarantine", "show", OTHER).out
    assert [one[0] for one in plain.records() if one[0].startswith("trust.")] == ["trust.drop"]


def test_a_person_is_asked_before_a_result_goes(plain):
    argv = [sys.executable, "-m", "callgate", "quarantine", "release", HANDLE, "--store", plain.url]
    with Terminal(argv) as terminal:
        terminal.expect("Let the agent have what read_mail on mail returned?")
        terminal.press("n\n")
        assert terminal.end() == 1
    assert plain.shelf(lambda shelf: shelf.held(HANDLE)).state == "held"
    with Terminal(argv) as terminal:
        terminal.expect("Let the agent have")
        terminal.press("y\n")
        assert terminal.end() == 0
    assert plain.shelf(lambda shelf: shelf.held(HANDLE)).state == "released"


def test_on_a_terminal_labels_have_colours_and_lines_fit(plain):
    argv = [sys.executable, "-m", "callgate", "session", "show", KEY, "--store", plain.url]
    with Terminal(argv, columns=60, env={"COLUMNS": "60"}) as terminal:
        assert terminal.end() == 0
    assert "\x1b[1;31m" in terminal.raw
    shown = terminal.text.split("If all that")[0].splitlines()
    assert [line for line in shown if len(line) > 60] == []
