"""`callgate call`, run as people run it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from callgate import cli
from callgate.approval.names import CHALLENGE_CREATE
from callgate.cli.call import harmless, read_arguments
from support.ceremony import read_records
from support.sep_server import stdio_argv


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
    monkeypatch.delenv("CALLGATE_CONFIG", raising=False)

    def run(*words):
        code = cli.run(["call", *words])
        said = capfd.readouterr()
        return Done(code, said.out, said.err)

    return run


def calls(path):
    return [record["params"] for record in read_records(path) if record["method"] == "tools/call"]


def test_a_tool_is_called_and_its_result_printed(run, records):
    done = run("read_resource", "resourceId=abc123", "--", *stdio_argv(records))
    assert (done.code, done.out) == (0, "read_resource done\n")
    (sent,) = calls(records)
    assert sent["arguments"] == {"resourceId": "abc123"}


def test_the_whole_result_as_json(run, records):
    done = run("--raw", "read_resource", "resourceId=abc123", "--", *stdio_argv(records))
    assert json.loads(done.out)["content"] == [{"type": "text", "text": "read_resource done"}]


def test_a_configured_server_is_called_by_its_name(run, records, tmp_path):
    argv = json.dumps(stdio_argv(records))
    (tmp_path / "callgate.toml").write_text(f"[servers.files]\ncommand = {argv}\n")
    done = run("files", "read_resource", "resourceId=x")
    assert (done.code, done.out) == (0, "read_resource done\n")


def test_a_server_nobody_configured(run, tmp_path):
    (tmp_path / "callgate.toml").write_text('[servers.files]\nurl = "http://127.0.0.1:9/mcp"\n')
    done = run("file", "read_resource")
    assert done.code == 2
    assert "'files'" in done.err


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
        (["tool", "--authenticator", "software", "--", "x"], "software"),
    ],
)
def test_a_mistake_on_the_command_line(run, words, text):
    done = run(*words)
    assert done.code == 2
    assert text in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("typed", ["n", "", "maybe", "yesterday"])
def test_the_terminal_is_asked_before_a_security_key_and_only_a_yes_goes_on(enrolled, records, tmp_path, typed):
    ours, theirs = pty.openpty()
    argv = ["call", "delete_resource", "resourceId=x", "--authenticator", "usb", "--", *enrolled]
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "callgate", *argv],
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
