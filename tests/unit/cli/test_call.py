"""`callgate call`, run as people run it."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from callgate import cli
from callgate.cli import call
from callgate.cli.call import find_target, harmless, read_arguments
from callgate.protocol import CHALLENGE_CREATE
from callgate.sdk import Done as Called
from callgate.store import SqlApprovals, Store
from support.ceremony import Person, read_records
from support.enrolling import enrol, service
from support.fork_server import CALLGATE, Forked
from support.gateway import review_ahead
from support.sep_server import SepServer, serving, stdio_argv
from support.table import rows


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def records(tmp_path):
    return tmp_path / "records"


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("CALLGATE_CONFIG", "CALLGATE_STORE_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(*words, verb=("call",)):
        code = cli.run([*verb, *words])
        said = capfd.readouterr()
        return Done(code, said.out, said.err)

    return run


def calls(path):
    """What reached the server; it may have been ended before it wrote anything."""
    if not path.exists():
        return []
    return [record["params"] for record in read_records(path) if record["method"] == "tools/call"]


def test_a_tool_is_called_and_its_result_printed(run, records):
    done = run("read_resource", "resourceId=abc123", "--", *stdio_argv(records))
    assert (done.code, done.out) == (0, "read_resource done\n")
    (sent,) = calls(records)
    assert sent["arguments"] == {"resourceId": "abc123"}


def test_the_whole_result_as_json(run, records):
    done = run("--raw", "read_resource", "resourceId=abc123", "--", *stdio_argv(records))
    assert json.loads(done.out)["content"] == [{"type": "text", "text": "read_resource done"}]


@pytest.fixture
def configure(records, tmp_path):
    """A callgate.toml with the server `files`, whose tools are approved, and more."""

    def configure(more="", reviewed=True, reached=""):
        reached = reached or f"command = {json.dumps(stdio_argv(records))}"
        config = tmp_path / "callgate.toml"
        config.write_text(f'[store]\nurl = "sqlite:///gate.db"\n[servers.files]\n{reached}\n{more}')
        if reviewed:
            review_ahead(config, {"files": SepServer().tools}, reported="sep 1")

    return configure


def decisions(run):
    """What the audit log has of each call."""
    return [json.loads(line)["decision"] for line in run("list", "--json", verb=("audit",)).out.splitlines()]


def test_a_configured_server_is_called_by_its_name_through_the_gate(run, configure, tmp_path):
    configure()
    (tmp_path / "callgate").mkdir()
    (tmp_path / "callgate" / "__init__.py").write_text("raise SystemExit('the wrong callgate')")
    done = run("files", "read_resource", "resourceId=x")
    assert (done.code, done.out) == (0, "read_resource done\n")
    (decided,) = decisions(run)
    assert (decided["server"], decided["tool"], decided["verdict"]) == ("files", "read_resource", "allow")


async def test_a_configured_server_that_is_reached_over_http_is_called_through_the_gate_too(run, configure):
    server = SepServer()
    async with serving(server) as url:
        configure(reached=f"url = '{url}'\nheaders = {{ Authorization = 'Bearer hunter2' }}")
        done = await asyncio.to_thread(run, "files", "read_resource", "resourceId=x")
    assert (done.code, done.out) == (0, "read_resource done\n")
    assert [decided["verdict"] for decided in decisions(run)] == ["allow"]


def test_a_tool_that_nobody_reviewed_is_not_called_and_the_command_that_is_named_approves_it(run, configure, records):
    configure(reviewed=False)
    done = run("files", "read_resource", "resourceId=x", "-c", "callgate.toml")
    assert done.code == 1
    assert "read_resource was not called" in done.err
    assert "`callgate review -c callgate.toml`" in done.err
    assert calls(records) == []
    review = json.loads(run("-c", "callgate.toml", "--json", verb=("review",)).out)
    (hashed,) = [
        tool["approval_hash"]
        for server in review["servers"]
        for tool in server["tools"]
        if tool["tool"] == "read_resource"
    ]
    run("approve", "--server", "files", "--tool", "read_resource", "--hash", hashed, verb=("tools",))
    done = run("files", "read_resource", "resourceId=x")
    assert (done.code, done.out) == (0, "read_resource done\n")


def test_the_kill_switch_stops_a_call_of_a_configured_server(run, configure, records):
    configure("[policy]\nblock_all = true\n")
    done = run("files", "read_resource", "resourceId=x")
    assert done.code == 1
    assert "files refused: The kill switch is on" in done.err
    assert calls(records) == []


def test_a_tool_that_the_gate_has_gated_is_not_run_without_anybody_who_could_approve(run, configure, records):
    configure('[servers.files.approval]\ntools = ["read_*"]\n')
    done = run("files", "read_resource", "resourceId=x", "--no-open")
    assert done.code == 1
    assert "read_resource was not run" in done.err
    assert calls(records) == []


def test_a_tool_that_the_gate_has_gated_runs_after_the_ceremony_and_the_signature_is_on_record(
    run, configure, records, tmp_path
):
    configure('[approval]\nuser = "alice"\n[servers.files.approval]\ntools = ["read_*"]\n')
    ticket = json.loads(run("alice", "--json", verb=("enroll",)).out)["ticket"]
    person = Person()
    store = Store.open(f"sqlite:///{tmp_path / 'gate.db'}")
    try:
        asyncio.run(enrol(service(SqlApprovals(store)), ticket, person.software))
    finally:
        store.close_sync()
    target = find_target("files", [], None)
    outcome = asyncio.run(call._call(target, "read_resource", {"resourceId": "x"}, person, ask=False))
    assert isinstance(outcome, Called)
    assert len(person.signed) == 1
    assert len(calls(records)) == 1
    (decided,) = decisions(run)
    assert decided["verdict"] == "allow"
    assert decided["extra"]["approval"]["user"] == "alice"


def test_a_server_nobody_configured(run, tmp_path):
    (tmp_path / "callgate.toml").write_text('[servers.files]\nurl = "http://127.0.0.1:9/mcp"\n')
    done = run("file", "read_resource")
    assert done.code == 2
    assert "'files'" in done.err


@rows(
    ("pairs", "more", "expected"),
    [
        (["a=1", "b=-2.5", "c=1e3"], None, {"a": 1, "b": -2.5, "c": 1000.0}),
        (["a=true", "b=false", "c=null"], None, {"a": True, "b": False, "c": None}),
        (['a=[1,"x"]', 'b={"c":{}}'], None, {"a": [1, "x"], "b": {"c": {}}}),
        (["a=text", "b=True", "c=007", "d=1.2.3", "e="], None, {"a": "text", "b": "True", "c": "007", "d": "1.2.3", "e": ""}),
        (['a="quoted"', "b=NaN", "c=Infinity", "d={broken"], None,
         {"a": '"quoted"', "b": "NaN", "c": "Infinity", "d": "{broken"}),
        (["a=b=c", "url=http://x/?a=1"], None, {"a": "b=c", "url": "http://x/?a=1"}),
        (["a=1"], '{"b": "1", "c": {"d": [null]}}', {"a": 1, "b": "1", "c": {"d": [None]}}),
        ([], None, {}),
    ],
)  # fmt: skip
def test_values_are_json_where_they_are_and_text_elsewhere(pairs, more, expected):
    read = read_arguments(pairs, more)
    assert json.dumps(read) == json.dumps(expected)


@rows(
    ("words", "text"),
    [
        (["http://127.0.0.1:9/mcp"], "name the server and the tool"),
        (["http://127.0.0.1:9/mcp", "tool", "word"], "not KEY=VALUE"),
        (["http://127.0.0.1:9/mcp", "tool", "=x"], "not KEY=VALUE"),
        (["http://127.0.0.1:9/mcp", "tool", "a=1", "a=2"], "given twice"),
        (["http://127.0.0.1:9/mcp", "tool", "a=1", "--json", '{"a":2}'], "given twice"),
        (["http://127.0.0.1:9/mcp", "tool", "--json", '{"a":2,"a":3}'], "there twice"),
        (["http://127.0.0.1:9/mcp", "tool", 'a={"x":1,"x":2}'], "there twice"),
        (["http://127.0.0.1:9/mcp", "tool", "--json", '{"a":NaN}'], "not JSON"),
        (["http://127.0.0.1:9/mcp", "tool", "--json", "[1]"], "not a JSON object"),
        (["http://127.0.0.1:9/mcp", "tool", "--json", "{"], "not JSON"),
        (["http://127.0.0.1:9/mcp", "tool", "--json", "[" * 100_000], "not JSON"),
        (["http://127.0.0.1:9/mcp", "tool", "a=9007199254740993"], "as strings"),
        (["nobody", "tool"], "no server 'nobody' is configured"),
        (["tool", "--origin", "https://gate.example", "--", "x"], "sign with a USB key"),
        (["tool", "--origin", "http://localhost:80", "--", "x"], "sign with a USB key"),
        (["tool", "--origin", "http://localhost:5173", "--port", "5174", "--", "x"], "different ports"),
        (["tool", "--port", "5173", "--authenticator", "usb", "--", "x"], "has no page"),
        (["tool", "--authenticator", "software", "--", "x"], "software"),
    ],
)
def test_a_mistake_on_the_command_line(run, words, text):
    done = run(*words)
    assert done.code == 2
    assert text in " ".join(done.err.replace("│", " ").split())


@rows(
    ("words", "text"),
    [
        (["http://u:hunter2@127.0.0.1:9/mcp?key=hunter2", "tool"], "cannot be spoken to"),
        (["tool", "--", "/nowhere/at/all"], "No such file"),
        (["tool", "--", sys.executable, "-c", "pass"], "cannot be spoken to"),
    ],
)
def test_a_server_that_cannot_be_reached(run, words, text):
    done = run(*words)
    assert done.code == 1
    assert text in done.err
    assert "hunter2" not in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 2


def test_a_tool_that_is_not_there(run, records):
    done = run("read_resourse", "--", *stdio_argv(records))
    assert done.code == 1
    assert "Did you mean 'read_resource'?" in done.err


def test_a_refusal_says_what_to_do_next(run, records):
    done = run("delete_resource", "resourceId=x", "--", *stdio_argv(records))
    assert done.code == 1
    assert "delete_resource was not run" in done.err
    assert "callgate enroll" in done.err
    assert [record["method"] for record in read_records(records)][-1] == CHALLENGE_CREATE


def test_what_a_terminal_would_act_on_is_written_out():
    assert harmless("a\x1b[2Jb\nc\u202ed\r\x07") == "a\\x1b[2Jb\nc\\u202ed\\r\\x07"
    assert harmless('Delete "ä" – 5 €\n  now') == 'Delete "ä" – 5 €\n  now'


@pytest.fixture
def enrolled(records):
    """The command of a server on which somebody has a passkey."""
    return stdio_argv(records, enrolled=True)


def test_without_a_terminal_nobody_is_asked_on_it(run, enrolled, records, monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        done = run("delete_resource", "resourceId=x", "--authenticator", "usb", "--", *enrolled)
    assert done.code == 1
    assert "no terminal" in done.err
    assert 'delete_resource\n  resourceId: "x"' in done.err
    assert calls(records) == []


@rows("typed", ["", "yesterday"])
def test_the_terminal_is_asked_before_a_security_key_and_only_a_yes_goes_on(enrolled, records, tmp_path, typed):
    ours, theirs = pty.openpty()
    argv = ["call", "delete_resource", "resourceId=x", "--authenticator", "usb", "--", *enrolled]
    try:
        process = Forked(
            [CALLGATE, *argv],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        os.write(ours, f"{typed}\n".encode())
        out, err = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 130, err
    assert "Go on? [y/N]" in err
    assert "you said no" in err
    assert out == ""
    assert calls(records) == []
