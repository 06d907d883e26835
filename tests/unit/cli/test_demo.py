"""`callgate demo` is what a newcomer sees first: everything that it prints has to work as printed."""

import json
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from support.demo import CALLGATE, Demo, running_demo
from support.terminal import Terminal

pytestmark = pytest.mark.xdist_group("demo")

CALL = "call a tool through the gate: nobody has reviewed the tools yet, so it is refused"
REVIEW = "review the tools, approve them key by key, and make the same call again"
LIST = "what was decided, and how it ended"
BLOCK = "the kill switch: turn it on, then make the same call again"
UNBLOCK = "let calls through again"
VERIFY = "proof that nobody changed the record"


def bash(command: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], capture_output=True, check=False, text=True, timeout=60, cwd="/"
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def reviewed(demo):
    """What a newcomer does first: a call, the review that it asks for, and every tool approved, key by key."""
    assert json.loads(bash(demo.steps[CALL]))["error"]["data"]["reason"] == "tool_not_approved"
    with Terminal(shlex.split(demo.steps[REVIEW]), rows=60) as seen:
        seen.expect("[q] quit")
        seen.press(" ")
        for number in range(1, 5):
            seen.expect(f"{number} of 4")
            seen.expect("[q] quit")
            seen.press("a")
        seen.expect("[y] store these 4 decisions")
        seen.press("y")
        seen.expect("Stored: 4 decisions.")
        assert seen.end() == 0
    return call_until(demo, "result")


def call_until(demo, wanted):
    """The switch is followed within a second: ask until it is."""
    for _ in range(100):
        answer = json.loads(bash(demo.steps[CALL]))
        if wanted in answer:
            break
        time.sleep(0.05)
    return answer[wanted]


def test_each_printed_command_works_as_printed():
    with running_demo() as demo:
        assert list(demo.steps) == [CALL, REVIEW, LIST, BLOCK, UNBLOCK, VERIFY]
        text = reviewed(demo)["content"][0]["text"]
        assert "passes the gate first" in text

        refused, *_, allowed = [line for line in bash(demo.steps[LIST]).splitlines() if "read_note" in line][::-1]
        assert " tool_not_approved " in refused
        assert " allow " in allowed

        bash(demo.steps[BLOCK])
        assert call_until(demo, "error")["data"]["reason"] == "blocked_by_policy"
        assert "blocked_by_policy" in bash(demo.steps[LIST])

        bash(demo.steps[UNBLOCK])
        assert call_until(demo, "result")["isError"] is False

        assert bash(demo.steps[VERIFY]).startswith("The log holds: ")
        assert demo.end(signal.SIGINT) == 0


def test_the_printed_client_command_serves_the_same_notes():
    with running_demo() as demo:
        reviewed(demo)
        (command,) = [line for line in demo.printed.splitlines() if " wrap notes " in line]
        request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "list_notes", "arguments": {}}}
        answer = json.loads(bash(f"echo {shlex.quote(json.dumps(request))} | {command}"))
        assert answer["result"]["content"][0]["text"] == "todo\nwelcome"
        assert "list_notes" in bash(demo.steps[LIST])
        assert demo.end(signal.SIGINT) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_and_leaves_nothing_behind(number):
    with running_demo() as demo:
        bash(demo.steps[CALL])
        children = psutil.Process(demo.process.pid).children(recursive=True)
        assert any("callgate.demo" in child.cmdline() for child in children)
        assert demo.end(number) == 0
        assert psutil.wait_procs(children, timeout=10)[1] == []
        assert not demo.config.parent.exists()
        assert demo.printed.endswith("Stopped.\n")
        assert demo.complained == ""


@pytest.mark.parametrize("pause", [0, 0.1, 0.2, 0.4, 0.8])
def test_asked_to_stop_while_it_starts_it_leaves_no_folder(tmp_path, pause):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    demo = Demo(tmp_path / "out", tmp_path / "err", env={"TMPDIR": str(scratch)})
    while demo.process.poll() is None and not any(scratch.iterdir()):
        time.sleep(0.005)
    time.sleep(pause)
    assert demo.end(signal.SIGTERM) == 0, demo.complained
    assert demo.complained == ""
    assert list(scratch.iterdir()) == []


def test_a_folder_of_ones_own_is_kept_and_used_again(tmp_path):
    state = tmp_path / "it's ${HOME} here"
    with running_demo("--dir", str(state)) as demo:
        assert demo.printed.count(str(state)) >= 1
        bash(demo.steps[CALL])
        assert demo.end(signal.SIGINT) == 0
    assert (state / "callgate.db").is_file()
    config = state / "callgate.toml"
    config.write_text(config.read_text() + "\n# mine\n")
    with running_demo("--dir", str(state)) as demo:
        assert bash(demo.steps[LIST]).count("read_note") == 1
        assert demo.end(signal.SIGINT) == 0
    assert config.read_text().endswith("# mine\n")


def test_a_port_in_use_is_no_obstacle():
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", 8420))
            other.listen()
        except OSError:
            pass  # something else has it already
        with running_demo() as demo:
            assert ":8420/" not in demo.url
            assert "result" in json.loads(bash(demo.steps[CALL]))
            assert demo.end(signal.SIGINT) == 0


def test_settings_of_the_users_own_gateway_are_left_alone(tmp_path):
    own = tmp_path / "own.db"
    env = {"CALLGATE_STORE_URL": f"sqlite:///{own}", "CALLGATE_BLOCK_ALL": "1"}
    with running_demo(env=env) as demo:
        assert "unset CALLGATE_BLOCK_ALL CALLGATE_STORE_URL" in demo.printed
        assert "result" in json.loads(bash(demo.steps[CALL]))
        assert demo.end(signal.SIGINT) == 0
    assert not own.exists()


def test_a_folder_that_cannot_be_made_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [CALLGATE, "demo", "--dir", str(tmp_path / "file" / "below")],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "--dir" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_of_it_needs_the_working_directory():
    with running_demo() as demo:
        assert Path(demo.fact["state"]).is_absolute()
        assert all("-c /" in command for about, command in demo.steps.items() if about != CALL)
