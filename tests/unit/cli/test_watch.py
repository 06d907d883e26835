"""`callgate watch`, without its processes: what is read from the store, and how it is written."""

import asyncio
import contextlib
import json
import os
import subprocess
import time

import msgspec
import pytest

from callgate.audit.records import Arguments, DecisionRecord, OutcomeRecord, encode, row
from callgate.canonical import canonical
from callgate.cli import run
from callgate.cli.common import configuration
from callgate.cli.watch.follow import (
    ApprovalSeen,
    CallSeen,
    Printer,
    StoreFollower,
    SwitchSeen,
    VersionSeen,
    WatchStarted,
    _line,
)
from callgate.store import Block, Store, set_block
from support.enrolling import GATED
from support.fork_server import CALLGATE
from support.table import rows
from support.tools_cli import LIST, NOTES, sqlite

# What both databases do in the same words.
on_sqlite = pytest.mark.parametrize("people", ["sqlite"], indirect=True)


class Watched:
    """A store with people in it, and what somebody who watches it has seen."""

    def __init__(self, people, **options):
        people.enrolled()
        self.people = people
        self.store = Store.open(people.url, busy_seconds=60)
        self.runner = asyncio.Runner()
        self.following = StoreFollower(configuration(None, people.url), self.store, self.runner, **options)
        self.begun = self.following.begin()

    def look(self):
        return list(self.following.look())

    def ask(self, caller="session", **arguments):
        return self.people.asks(
            lambda approvals: approvals.ask(
                GATED,
                arguments,
                canonical(arguments),
                "alice",
                caller=caller,
                agent={"client": "Helper"},
                page="http://p",
            )
        )

    def refuse(self, request):
        return self.people.asks(lambda approvals: approvals.refuse(request.id, by="alice"))

    def record(self, *records):
        with self.store.writing() as conn:
            for record in records:
                self.store.insert(conn, row(record, encode(record), b"seal"))

    def close(self):
        self.runner.close()
        self.store.close_sync()


@pytest.fixture
def watched(people):
    made = Watched(people)
    yield made
    made.close()


def decision(call, verdict="allow", at=None, **fields):
    given = {"gateway": "g", "server": "bank", "transport": "http", "tool": "pay", "arguments": Arguments("hashed")}
    reason = None if verdict == "allow" else "rule_blocked"
    at = _now() if at is None else at
    return DecisionRecord(call=call, at=at, verdict=verdict, reason=reason, **(given | fields))


def outcome(call, kind="result"):
    return OutcomeRecord(call=call, at=_now(), outcome=kind, ms=12.4)


def _now():
    return int(time.time() * 1000)


def test_a_call_that_waits_is_seen_once_and_so_is_what_became_of_it(watched):
    assert isinstance(watched.begun[0], WatchStarted)
    assert watched.look() == []
    asked = watched.ask(name="x")
    (seen,) = watched.look()
    assert (seen.state, seen.new, seen.id, seen.user, seen.agent) == ("waiting", True, asked.id, "alice", "Helper")
    assert seen.page == f"http://p/approve/{asked.id}"
    assert watched.look() == []
    watched.refuse(asked)
    (seen,) = watched.look()
    assert (seen.state, seen.new, seen.by) == ("refused", False, "alice")
    assert watched.look() == []


@on_sqlite
def test_what_waits_already_is_told_at_the_start_and_is_not_new(people, watched):
    asked = watched.ask(name="x")
    again = Watched(people)
    try:
        begun, standing = again.begun
        assert (begun.waiting, standing.id, standing.new) == (1, asked.id, False)
        assert again.look() == []
    finally:
        again.close()


def test_a_call_is_seen_when_it_is_refused_or_has_ended(watched):
    watched.record(decision("one"), decision("two", "refuse"))
    (seen,) = watched.look()
    assert (seen.call, seen.state, seen.verdict, seen.reason) == ("two", "refused", "refuse", "rule_blocked")
    watched.record(outcome("one"))
    (seen,) = watched.look()
    assert (seen.call, seen.state, seen.outcome, seen.ms) == ("one", "done", "result", 12.4)


@on_sqlite
def test_a_call_that_takes_long_is_seen_before_it_ends_too(watched):
    watched.record(decision("slow", at=_now() - 10_000))
    (seen,) = watched.look()
    assert (seen.call, seen.state) == ("slow", "running")
    assert watched.look() == []
    watched.record(outcome("slow"))
    assert [one.state for one in watched.look()] == ["done"]


@on_sqlite
def test_a_call_that_began_before_is_seen_at_its_end(people, watched):
    watched.record(decision("early"))
    later = Watched(people)
    try:
        watched.record(outcome("early"))
        assert [(one.call, one.tool, one.state) for one in later.look()] == [("early", "pay", "done")]
    finally:
        later.close()


def test_a_record_that_commits_late_with_a_smaller_number_is_seen(watched):
    """PostgreSQL hands out ids before they commit; SQLite never does, so the hole is made by hand."""
    watched.record(decision("a", "refuse"), decision("late", "refuse"), decision("c", "refuse"))
    calls = watched.following._calls
    with watched.store.audit_reading() as tables:
        rows = list(tables.rows(calls._floor))
    hidden = rows[1]

    class Without:
        def __init__(self, tables):
            self.rows = lambda after: (one for one in rows if one[0] != hidden[0] and one[0] > after)
            self.of_call = tables.of_call

    real = watched.store.audit_reading
    calls._store = _Reading(real, Without)
    assert [one.call for one in watched.look()] == ["a", "c"]
    calls._store = watched.store
    assert [one.call for one in watched.look()] == ["late"]
    assert watched.look() == []


class _Reading:
    def __init__(self, real, made):
        self._real = real
        self._made = made

    def audit_reading(self):
        @contextlib.contextmanager
        def reading():
            with self._real() as tables:
                yield self._made(tables)

        return reading()


@on_sqlite
def test_a_hole_that_stays_is_none(watched):
    calls = watched.following._calls
    floor = calls._floor
    calls._advance([floor + 2, floor + 3], 1_000)
    assert calls._floor == floor
    calls._advance([], 12_000)
    assert (calls._floor, calls._read) == (floor + 3, set())


@on_sqlite
def test_more_records_than_are_read_at_once_all_come(watched, monkeypatch):
    monkeypatch.setattr("callgate.cli.watch.follow._ROWS", 3)
    watched.record(*(decision(f"call{number}", "refuse") for number in range(10)))
    assert [one.call for one in watched.look()] == [f"call{number}" for number in range(10)]


@on_sqlite
def test_a_record_that_cannot_be_read_is_passed_over(watched):
    broken = row(decision("broken"), b"{", b"seal")
    with watched.store.writing() as conn:
        watched.store.insert(conn, broken)
    watched.record(decision("good", "refuse"))
    assert [one.call for one in watched.look()] == ["good"]


@on_sqlite
def test_the_kill_switch_is_seen(watched):
    set_block(watched.store, Block(on=True, at=5, by="ann", note="lunch"), None)
    (seen,) = watched.look()
    assert (seen.on, seen.by, seen.note) == (True, "ann", "lunch")
    quiet = StoreFollower(configuration(None, watched.people.url), watched.store, watched.runner, others=False)
    quiet.begin()
    set_block(watched.store, Block(on=False, at=6, by="ann"), None)
    assert list(quiet.look()) == []


# -- how it is written -----------------------------------------------------------------------------------------

HOSTILE = "x\x1b[2J\x07\r\n\u202ey\u009b31m"


def call(**fields):
    given = {"at": 0, "state": "done", "call": "c", "agent": "", "server": "bank", "tool": "pay", "verdict": "allow"}
    return CallSeen(**(given | fields))


def approval(**fields):
    given = {"at": 0, "state": "waiting", "new": True, "id": "i", "user": "ann", "agent": "Helper", "server": "bank"}
    return ApprovalSeen(**(given | {"tool": "pay", "page": "http://p/approve/i"} | fields))


@rows(
    "seen",
    [
        call(agent=HOSTILE, server=HOSTILE, tool=HOSTILE, outcome=HOSTILE),
        call(agent=HOSTILE, state="refused", reason=HOSTILE),
        approval(agent=HOSTILE, server=HOSTILE, tool=HOSTILE, user=HOSTILE, page=HOSTILE),
        approval(state="refused", by=HOSTILE),
        SwitchSeen(at=0, on=True, by=HOSTILE, note=HOSTILE),
    ],
)
def test_no_text_steers_the_terminal_or_makes_a_line_of_its_own(seen):
    text = _line(seen).plain
    assert text.isprintable()
    assert "\ufffd" in text


def test_markup_in_a_name_is_only_text(capsys):
    Printer(as_json=False, bell=True).show(call(tool="[red]pay[/red]", ms=3.2))
    assert "bank/[red]pay[/red]" in capsys.readouterr().out


@rows(
    ("seen", "words"),
    [
        (call(ms=12.4, outcome="result", agent="Helper"), "allow bank/pay 12 ms Helper"),
        (call(ms=12.4, outcome="error"), "allow bank/pay error 12 ms"),
        (call(state="running"), "running bank/pay"),
        (call(state="refused", reason="rule_blocked"), "refuse bank/pay rule_blocked"),
        (call(state="refused", reason="unknown_keyid", calls=1200), "refuse bank/pay unknown_keyid 1,200 calls"),
        (approval(), "WAITS bank/pay for Helper: ann approves at http://p/approve/i"),
        (approval(page=None), "WAITS bank/pay for Helper: ann approves; `callgate approvals list` shows it"),
        (approval(state="used", by="ann"), "approved bank/pay by ann"),
        (approval(state="expired"), "expired bank/pay"),
        (SwitchSeen(at=0, on=False, by="ann", note=""), "OPEN the kill switch is off (ann)"),
    ],
)
def test_a_line_says_what_happened(seen, words):
    assert _line(seen).plain.split()[1:] == words.split()


def test_a_pipe_gets_no_bell(capsys):
    Printer(as_json=False, bell=True).show(approval())
    Printer(as_json=True, bell=True).show(approval())
    said = capsys.readouterr()
    assert "\a" not in said.out + said.err


def test_json_is_one_object_a_line(capsysbinary):
    printer = Printer(as_json=True, bell=False)
    printer.begin([WatchStarted(at=1, waiting=0, calls=True, blocked=False)])
    printer.show(approval(tool=HOSTILE))
    lines = capsysbinary.readouterr().out.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["watching", "approval"]
    assert json.loads(lines[1])["tool"] == HOSTILE
    assert msgspec.json.decode(lines[1], type=ApprovalSeen) == approval(tool=HOSTILE)


def test_a_store_that_is_not_there_is_told_with_what_to_do(here, capsys):
    assert run(["watch", "--store", f"sqlite:///{here}/none.db"]) == 1
    assert "none.db" in capsys.readouterr().err


def test_a_reader_that_leaves_ends_it_quietly(people):
    """`callgate watch --json | head -1`."""
    people.enrolled()
    ours, theirs = os.pipe()
    argv = [CALLGATE, "watch", "--json", "--store", people.url]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        assert b'"watching"' in os.read(ours, 4096)
        os.close(ours)
        people.asks(_ask)
        _, said = process.communicate(timeout=20)
        assert (process.returncode, said) == (0, b"")


async def _ask(approvals):
    return await approvals.ask(GATED, {}, canonical({}), "alice", caller="s", agent={})


@rows("approved", [True, False])
def test_another_version_of_a_reviewed_server_is_told_once(here, capsys, approved):
    room = sqlite(here, capsys)
    hashes = room.met("notes", LIST)
    if approved:
        room("tools", "approve", "--server", NOTES, "--tool", "list_notes", "--hash", hashes["list_notes"])
    store = Store.open(room.url, busy_seconds=60)
    with asyncio.Runner() as runner:
        following = StoreFollower(configuration(None, room.url), store, runner)
        following.begin()
        newer = NOTES.replace("1.2.3", "1.2.4")
        room.met("notes", LIST, server_id=newer)
        # Of a server that nobody has reviewed, another version is nothing new.
        told = [(one.server, one.server_id, one.tools) for one in following.look() if isinstance(one, VersionSeen)]
        assert told == ([("notes", newer, 1)] if approved else [])
        assert [one for one in following.look() if isinstance(one, VersionSeen)] == []
    store.close_sync()


def test_the_line_of_another_version_says_what_to_type():
    seen = VersionSeen(at=0, server="no\x1btes", server_id="npm:notes@1.2.4", tools=2)
    line = _line(seen).plain
    assert "WAITS" in line
    assert "another version, npm:notes@1.2.4: `callgate review` asks about its 2 tools" in line
    assert "\x1b" not in line
