import asyncio
import json

import pytest

from callgate.audit import Repeated
from callgate.cli import run
from callgate.cli.printing import show_when
from callgate.store import SqlApprovals, Store
from support.auditing import START, decision, fill, open_log
from support.enrolling import approve, enrol, service
from support.table import rows


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("CALLGATE_CONFIG", "CALLGATE_STORE_URL", "CALLGATE_BLOCK_ALL"):
        monkeypatch.delenv(name, raising=False)
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def log(place, tmp_path):
    opened = open_log(place, tmp_path / "keys")
    fill(opened, 3)
    with opened.store.writing() as conn:
        evil = decision(4, verdict="refuse", reason="blocked_by_policy", tool="[red]x\x1b[31m\n")
        opened.store.insert(conn, opened.row(evil))
    yield opened
    opened.store.close_sync()


@pytest.fixture
def callgate(log, place, capsys):
    def call(*words, code=0, store=True):
        found = run(["audit", *words, *(("--store", place) if store else ())])
        out, err = capsys.readouterr()
        assert found == code, err
        return out, err

    return call


def test_list_is_a_table_of_calls_with_their_outcome(callgate):
    lines = callgate("list")[0].splitlines()
    assert lines[0].split() == ["time", "call", "server", "tool", "verdict", "reason", "outcome"]
    assert len(lines) == 5
    assert decision(1).call in lines[1]
    assert "result 5 ms" in lines[1]
    assert "blocked_by_policy" in lines[4]


REFUSED = {"verdict": "refuse", "reason": "unknown_keyid", "caller": {"peer": "192.0.2.1", "proof": "signature"}}


SPAN = f"between {show_when(START)} and {show_when(START + 60_000)}"
TOGETHER = "counted together. Who called was not verified."


@rows(
    ("more", "listed", "sentence"),
    [
        ({}, "refuse", "Who called was not verified."),
        (
            {"repeated": Repeated(1200, START, START + 60_000, ("read", "[b]x\x1b"))},
            "refuse (1,200 calls)",
            f"1,200 more calls of read, [b]x\ufffd by the same caller, refused {SPAN}, {TOGETHER}",
        ),
        (
            {"repeated": Repeated(1, START, START + 60_000), "caller": {"peer": "several", "proof": "several"}},
            "refuse (1 call)",
            f"1 more call by several callers, refused {SPAN}, {TOGETHER}",
        ),
    ],
)
def test_calls_of_callers_whom_nobody_knows_are_counted_in_words(callgate, log, more, listed, sentence):
    record = decision(9, **REFUSED | {"call": f"0{len(listed):031d}"} | more)
    with log.store.writing() as conn:
        log.store.insert(conn, log.row(record))
    assert f" {listed} " in callgate("list")[0]
    assert sentence in callgate("show", record.call)[0].splitlines()


@pytest.fixture
def approved(callgate, log, place):
    """A call that alice approved with her passkey, on record."""
    return record_approved(log, place)


def record_approved(log, place, **more):
    async def approve_one():
        store = Store.open(place, busy_seconds=60)
        try:
            approvals = service(SqlApprovals(store))
            made, key = await enrol(approvals, await approvals.ticket("alice", by="operator"), name="blue [b]key\u202e")
            verified = await approve(approvals, key, {"name": "x"})
            return made.credential, verified.facts
        finally:
            await store.close()

    held, facts = asyncio.run(approve_one())
    record = decision(9, extra={"approval": facts | more})
    with log.store.writing() as conn:
        log.store.insert(conn, log.row(record))
    return record, held


def test_who_approved_a_call_is_said_in_words(callgate, approved):
    record, _ = approved
    lines = callgate("show", record.call)[0].splitlines()
    at = show_when(record.at)
    assert lines[1] == "allow files / read"
    assert lines[2] == f"approved by alice with passkey blue [b]key at {at} on http://localhost:8420"
    assert "approved by" not in callgate("show", decision(1).call)[0]


def test_a_passkey_that_the_store_does_not_know_is_told_by_its_id(callgate, log, place):
    record, _ = record_approved(log, place, credential="elsewhere\x1b[31m", origin="http://x\x1b[2J")
    line = callgate("show", record.call)[0].splitlines()[2]
    assert line.startswith("approved by alice with passkey elsewhere\ufffd[31m at ")
    assert line.endswith(" on http://x\ufffd[2J")


def test_approved_calls_are_marked_in_the_list(callgate, approved):
    lines = callgate("list")[0].splitlines()
    assert [("allow (approved)" in line) for line in lines] == [approved[0].call in line for line in lines]


def test_a_refused_call_with_a_signature_is_not_called_approved(callgate, log):
    claimed = {"method": "webauthn", "assertion": {}, "user": "alice"}
    record = decision(8, verdict="refuse", reason="challenge_consumed", extra={"approval": claimed})
    with log.store.writing() as conn:
        log.store.insert(conn, log.row(record))
    assert "approved" not in callgate("list")[0]
    assert "approved by" not in callgate("show", record.call)[0]


def test_names_chosen_by_callers_cannot_write_to_the_terminal(callgate):
    for words in (("list",), ("show", decision(4).call)):
        out = callgate(*words)[0]
        assert "\x1b[31m" not in out
        assert "[red]x" in out


def test_list_filters_and_prints_json_lines(callgate):
    lines = callgate("list", "--verdict", "refuse", "--json")[0].splitlines()
    assert [json.loads(line)["decision"]["call"] for line in lines] == [decision(4).call]
    assert callgate("list", "--server", "none")[1] == "No calls on record match this.\n"
    assert len(callgate("list", "--limit", "2", "--json")[0].splitlines()) == 2
    assert len(callgate("list", "--until", "2027-01-01", "--json")[0].splitlines()) == 0


def test_a_time_that_is_none_is_a_usage_error(callgate):
    assert "is not a time" in callgate("list", "--since", "yesterdayish", code=2)[1]


def test_show_takes_the_beginning_of_an_id(callgate):
    said = json.loads(callgate("show", decision(2).call[:-1] + "2", "--json")[0])
    assert said["decision"]["arguments"]["value"] == {"path": "/tmp/2"}
    assert said["outcome"]["outcome"] == "result"
    assert "no call nothing" in callgate("show", "nothing", code=1)[1]


def test_verify_integrates_what_waits_and_says_what_it_saw(callgate):
    assert callgate("verify")[0].startswith("The log holds: 7 records verified, 0 removed")
    report = json.loads(callgate("verify", "--json")[0])
    assert (report["ok"], report["records"], report["pending"]) == (True, 7, 0)


def test_verify_names_the_first_bad_record(callgate, log):
    callgate("verify")
    with log.store.writing() as conn:
        conn.exec_driver_sql("UPDATE audit_record SET verdict = 'refuse' WHERE id = 3")
    out, err = callgate("verify", code=1)
    assert out == ""
    assert f"callgate: record 3 (call {decision(2).call}): the stored verdict is not what the record says" in err


def test_verify_uses_an_earlier_checkpoint(callgate, tmp_path, log):
    (tmp_path / "kept").write_text(callgate("checkpoint")[0])
    fill(log, 2, first=50)
    callgate("verify", "--checkpoint", str(tmp_path / "kept"))
    out, err = callgate("checkpoint", "--since", str(tmp_path / "kept"))
    assert out.splitlines()[1] == "11"
    assert "contains the 7 records" in err
    said = json.loads(callgate("checkpoint", "--since", str(tmp_path / "kept"), "--json")[0])
    assert said["since"] == 7
    assert said["consistency"]
    (tmp_path / "kept").write_text("nonsense")
    assert "checkpoint" in callgate("verify", "--checkpoint", str(tmp_path / "kept"), code=1)[1]


def test_a_receipt_verifies_where_there_is_nothing_else(callgate, tmp_path, place, capsys):
    callgate("receipt", decision(2).call, "-o", "r.json")
    run(["keys", "export", "--store", place])
    key = capsys.readouterr().out.strip()
    (tmp_path / "store.db").unlink()
    out, err = callgate("verify", "--receipt", "r.json", store=False)
    assert f"The receipt holds: call {decision(2).call} of files / read" in out
    assert "the key in the receipt itself" in err
    out, err = callgate("verify", "--receipt", "r.json", "--key", key, store=False)
    assert err == ""
    (tmp_path / "key").write_text(key + "\n")
    said = json.loads(callgate("verify", "--receipt", "r.json", "--key", "key", "--json", store=False)[0])
    assert (said["ok"], said["key_given"], said["decision"]["tool"]) == (True, True, "read")


def test_a_forged_receipt_exits_with_one(callgate, tmp_path):
    text = callgate("receipt", decision(2).call)[0]
    (tmp_path / "r.json").write_text(text.replace('"allow"', '"refuse"'))
    assert "two stories" in callgate("verify", "--receipt", "r.json", code=1, store=False)[1]
    assert "cannot be read" in callgate("verify", "--receipt", "none.json", code=1, store=False)[1]


def test_export_streams_every_record(callgate, tmp_path):
    lines = callgate("export")[0].splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(1, 8))
    out, err = callgate("export", "-o", "all.jsonl")
    assert out == ""
    assert "7 records written" in err
    assert (tmp_path / "all.jsonl").read_text().splitlines() == lines


def test_old_records_are_pruned_and_the_log_still_verifies(callgate, tmp_path, place):
    old = open_log(f"sqlite:///{tmp_path / 'old' / 'store.db'}", tmp_path / "old" / "keys")
    with old.store.writing() as conn:
        old.store.insert(conn, old.row(decision(90, at=1_000)))
        old.store.insert(conn, old.row(decision(91, at=9_000_000_000_000)))
    old.store.close_sync()
    there = ("--store", f"sqlite:///{tmp_path / 'old' / 'store.db'}")
    assert callgate("prune", *there, store=False)[0] == "1 records removed.\n"
    assert callgate("prune", "--days", "0", *there, store=False)[0] == "0 records removed.\n"
    assert "2 records verified, 1 removed by retention" in callgate("verify", *there, store=False)[0]


def test_nothing_is_pruned_where_everything_is_kept(callgate, tmp_path):
    (tmp_path / "callgate.toml").write_text("[audit]\nretention_days = 0\n")
    assert "everything is kept" in callgate("prune")[1]


def test_without_a_store_the_advice_says_how_to_get_one(place, capsys):
    assert run(["audit", "list", "--store", "sqlite:///none/store.db"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("callgate: there is no store at none/store.db\n")
    assert "`callgate store upgrade`" in err
    assert "Traceback" not in err


def test_without_its_keys_a_log_is_not_said_to_verify(callgate, tmp_path):
    (tmp_path / "keys").rename(tmp_path / "gone")
    assert "there is no seal key" in callgate("verify", code=1)[1]
