"""`callgate wrap NAME -- CMD` behaves as CMD would without it: exit status, signals, stderr, the ends of the pipes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from support.fork_server import CALLGATE, Forked
from support.gateway import approve_listed, sharing, wrap_argv
from support.raw import SECONDS, Received, json_answer, piped, raw_server
from support.sessions import call, gone, message, teller_argv, until
from support.table import rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands here are those of a POSIX shell")


@pytest.fixture(scope="module", params=["shared", "alone"])
def place(tmp_path_factory, request):
    """A configuration and a store for all: making a new store takes longer than most of these tests."""
    with sharing(shared=request.param == "shared"):
        yield tmp_path_factory.mktemp("wrap")


def script(source: str) -> list[str]:
    """A Python program that starts at once."""
    return [sys.executable, "-I", "-S", "-c", source]


def request(number: int, text: str = "") -> bytes:
    """No call: most commands here have no list of tools to review."""
    params = {"name": "t", "arguments": {"text": text}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "dev.example/do", "params": params}).encode() + b"\n"


def run(argv: list[str], sent: bytes = b"", env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    pipe = subprocess.PIPE
    with Forked(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env) as process:
        out, err = process.communicate(sent, timeout=SECONDS)
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


# ---- how it ends ----


@rows("status", [0, 3])
def test_the_exit_status_is_the_commands(place, status):
    """With the script itself, as a client starts it."""
    argv = wrap_argv(place, "s", ["sh", "-c", f"exit {status}"])
    done = subprocess.run(argv, input=b"", capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == status


@rows("name", ["TERM", "KILL", "INT"])
def test_a_command_killed_by_a_signal_ends_wrap_by_the_same_signal(place, name):
    done = run(wrap_argv(place, "s", ["sh", "-c", f"kill -{name} $$"]))
    assert done.returncode == -getattr(signal, f"SIG{name}")


def test_a_command_that_does_not_exist_is_said_so_with_advice(place, tmp_path):
    done = run(wrap_argv(place, "s", [str(tmp_path / "nonesuch")]), request(1))
    assert done.returncode in (1, 127)
    assert done.stdout == b""
    assert b"nonesuch" in done.stderr
    assert b"Run the command by hand" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_command_that_ends_at_once_is_no_trouble(place):
    done = run(wrap_argv(place, "s", ["true"]), b"".join(request(number) for number in range(100)))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_the_command_left_running_does_not_hold_wrap_up(place):
    with piped(wrap_argv(place, "s", ["sh", "-c", "sleep 60 & echo $!; exit 4"])) as wrap:
        child = int(wrap.stdout.readline())
        try:
            assert wrap.wait(SECONDS) == 4
            assert not gone(child)
        finally:
            os.kill(child, signal.SIGKILL)


# ---- stderr, and the ends of the pipes ----


def test_stderr_passes_unchanged(place):
    said = b"one\r\n\xff\x00 two \x1b[31m\n" * 500 + b"no line end"
    command = script(f"import sys; sys.stderr.buffer.write({said!r})")
    assert run(wrap_argv(place, "s", command)).stderr == said


def test_the_command_sees_the_end_of_the_input_and_its_last_words_arrive(place):
    command = script("import sys; n = len(sys.stdin.buffer.read()); print(n); sys.stdout.write('last words')")
    done = run(wrap_argv(place, "s", command), request(1) + request(2))
    assert done.stdout == b"%d\nlast words\n" % len(request(1) + request(2))


def test_a_last_line_without_a_line_end_is_a_message_too(place):
    done = run(wrap_argv(place, "s", ["cat"]), request(1) + request(2).rstrip())
    assert done.stdout == request(1) + request(2)


def test_garbage_on_stdout_passes_and_does_no_harm(place):
    command = ["sh", "-c", "echo starting up...; echo '{\"half\": '; echo; cat"]
    done = run(wrap_argv(place, "s", command), request(1))
    assert done.stdout == b'starting up...\n{"half": \n\n' + request(1)


def test_garbage_on_stdin_is_answered_and_does_not_reach_the_command(place):
    done = run(wrap_argv(place, "s", ["cat"]), b'no JSON\n\n{"half": \n' + request(1))
    *refusals, last = done.stdout.splitlines(keepends=True)
    assert last == request(1)
    assert [json.loads(line)["error"]["code"] for line in refusals] == [-32700, -32700]


@rows("kind", ["file", "nothing"])
def test_stdin_and_stdout_may_be_files(place, tmp_path, kind):
    sent = b"".join(request(number, "x" * 1000) for number in range(1000)) if kind == "file" else b""
    (tmp_path / "in").write_bytes(sent)
    source = tmp_path / "in" if kind == "file" else Path(os.devnull)
    with (
        source.open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        Forked(wrap_argv(place, "s", ["cat"]), stdin=stdin, stdout=stdout) as wrap,
    ):
        assert wrap.wait(SECONDS) == 0
    assert (tmp_path / "out").read_bytes() == sent


def test_stdout_may_be_nowhere(place):
    argv = wrap_argv(place, "s", ["sh", "-c", "cat; exit 5"])
    with Forked(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as wrap:
        wrap.communicate(request(1), timeout=SECONDS)
    assert wrap.returncode == 5


@rows("command", [["cat"], ["/nonesuch"]], ids=["ends", "never starts"])
def test_the_pipes_are_given_back_as_they_were(place, command):
    read, write = os.pipe()
    answers, out = os.pipe()
    try:
        with Forked(wrap_argv(place, "s", command), stdin=read, stdout=out, stderr=subprocess.DEVNULL) as wrap:
            os.close(write)
            wrap.wait(SECONDS)
        assert os.get_blocking(read)
        assert os.get_blocking(out)
    finally:
        for descriptor in (read, answers, out):
            os.close(descriptor)


# ---- signals ----


@rows("name", ["TERM", "INT", "HUP"])
def test_a_signal_to_wrap_reaches_the_command(place, name):
    source = f"trap 'echo caught {name}; exit 7' {name}; echo ready; while :; do sleep 0.02; done"
    with piped(wrap_argv(place, "s", ["sh", "-c", source])) as wrap:
        assert wrap.stdout.readline() == b"ready\n"
        wrap.send_signal(getattr(signal, f"SIG{name}"))
        assert wrap.stdout.read() == f"caught {name}\n".encode()
        assert wrap.wait(SECONDS) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_wrap_killed_without_warning_leaves_no_server_behind(place):
    source = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with piped(wrap_argv(place, "s", script(source))) as wrap:
        server = int(wrap.stdout.readline())
        assert not gone(server)
        wrap.kill()
        until(lambda: gone(server))


# ---- size and number ----


def test_messages_of_ten_megabytes_pass_both_ways(place):
    big = request(1, "ü" * 5_000_000)
    assert len(big) > 10_000_000
    done = run(wrap_argv(place, "s", ["cat"]), big + request(2))
    assert done.stdout == big + request(2)


def test_a_message_over_the_limit_is_refused_and_the_next_one_passes(place):
    argv = wrap_argv(place, "s", ["cat"], limits={"message_bytes": 2048})
    done = run(argv, request(1, "x" * 5000) + request(2))
    refusal, passed = done.stdout.splitlines(keepends=True)
    assert json.loads(refusal)["error"]["data"]["reason"] == "message_too_large"
    assert passed == request(2)


def test_a_thousand_requests_written_before_any_reply_is_read_are_all_answered(place):
    sent = [request(number, "x" * 5000) for number in range(1000)]
    with piped(wrap_argv(place, "s", ["cat"])) as wrap:
        wrap.stdin.write(b"".join(sent))
        wrap.stdin.flush()
        assert [wrap.stdout.readline() for _ in sent] == sent


@pytest.mark.verify
def test_a_thousand_requests_at_once_to_a_url_are_all_answered(place):
    def answer(received: Received, connection) -> None:
        number = json.loads(received.body)["id"]
        json_answer(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number)(received, connection)

    with raw_server() as server:
        server.script = answer
        with piped(wrap_argv(place, "s", url=server.url)) as wrap:
            wrap.stdin.write(b"".join(request(number) for number in range(1000)))
            wrap.stdin.close()
            replies = [json.loads(line) for line in wrap.stdout]
    assert sorted(reply["id"] for reply in replies) == list(range(1000))
    assert not [reply for reply in replies if "error" in reply]


def test_a_client_that_reads_late_loses_nothing(place):
    """The command ends while most of what it said is still unread."""
    sent = [request(number, "x" * 5000) for number in range(500)]
    with piped(wrap_argv(place, "s", ["cat"])) as wrap:
        writer = threading.Thread(target=lambda: (wrap.stdin.write(b"".join(sent)), wrap.stdin.close()))
        writer.start()
        writer.join(SECONDS)
        children = psutil.Process(wrap.pid).children()
        until(lambda: all(gone(child.pid) for child in children))
        assert wrap.stdout.read() == b"".join(sent)
        assert wrap.wait(SECONDS) == 0


# ---- by the configuration ----


def test_a_configured_server_gets_its_own_environment_and_directory(place, tmp_path):
    source = "import os; print(os.environ.get('GIVEN'), os.environ.get('SECRET_OF_THE_CLIENT'), os.getcwd())"
    server = {"command": script(source), "env": {"GIVEN": "yes"}, "cwd": str(tmp_path)}
    argv = wrap_argv(place, "s", servers={"s": server})
    done = run(argv[: argv.index("--")], env=os.environ | {"SECRET_OF_THE_CLIENT": "x"})
    assert done.stdout.decode().split() == ["yes", "None", str(tmp_path)]


@contextlib.contextmanager
def reviewed(place):
    """A client whose server was reviewed before, between two clients."""
    argv = wrap_argv(place, "files", teller_argv(place))
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw"}}
    begin = message("initialize", hello, "a") + b"\n" + message("tools/list", {}, "b") + b"\n"
    assert len(run(argv, begin).stdout.splitlines()) == 2
    approve_listed(place / "callgate.toml")
    with piped(argv) as wrap:
        for line in begin.splitlines(keepends=True):
            wrap.stdin.write(line)
            wrap.stdin.flush()
            wrap.stdout.readline()
        yield wrap


def test_what_a_server_says_at_once_arrives_in_its_order(place):
    """Replies to several calls, with words that are new, and notifications between them."""
    notes = [json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": n}}) for n in "abcd"]
    replies = [
        json.dumps({"jsonrpc": "2.0", "id": n, "result": {"content": [{"type": "text", "text": f"new words {n}"}]}})
        for n in range(1, 5)
    ]
    said = [notes[0], replies[1], replies[0], notes[1], notes[2], replies[2], replies[3], notes[3]]
    with reviewed(place) as wrap:
        for line in (*(call("hang", number) for number in (1, 2, 3)), call("raw", 4, lines=said)):
            wrap.stdin.write(line + b"\n")
        wrap.stdin.flush()
        assert [wrap.stdout.readline().decode().rstrip() for _ in said] == said


def test_calls_through_wrap_are_on_record(place):
    config = str(place / "callgate.toml")
    with reviewed(place) as wrap:
        for number in (1, 2):
            wrap.stdin.write(call("pid", number) + b"\n")
            wrap.stdin.flush()
            assert "result" in json.loads(wrap.stdout.readline())
    listed = run([CALLGATE, "audit", "list", "--server", "files", "--json", "-c", config])
    records = [json.loads(line) for line in listed.stdout.splitlines()]
    records = [record for record in records if record["decision"]["tool"] == "pid"]
    assert [record["decision"]["transport"] for record in records] == ["stdio"] * 2
    assert [record["outcome"]["outcome"] for record in records] == ["result", "result"]
