"""`callgate demo` is what a newcomer sees first: everything that it prints has to work as printed."""

import json
import shlex
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from support.demo import CALLGATE, Demo, running_demo
from support.terminal import Terminal

pytestmark = pytest.mark.xdist_group("demo")

CALL = "call a tool through the gate"
ENROL = "a passkey for you, so that calls can wait for you: open the link in a browser here"
STRANGER = "an agent reads a note that a stranger sent"
OBEY = "it does as the note says: the call waits until you decide"
REVIEW = "delete_note, which nobody reviewed yet: read it, then approve or block it"
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


def review(demo, key):
    """Read the tool that waits, and decide."""
    with Terminal(shlex.split(demo.steps[REVIEW]), rows=60) as seen:
        seen.expect("[q] quit")
        seen.press(" ")
        seen.expect("1 of 1")
        assert "Delete one note for good." in seen.expect("[q] finish")
        seen.press(key)
        seen.expect("[y] store this decision")
        seen.press("y")
        seen.expect("Stored: 1 decision.")
        assert seen.end() == 0


def call_until(demo, wanted, command=None):
    """A decision is followed within a second: ask until it is."""
    for _ in range(100):
        answer = json.loads(bash(command or demo.steps[CALL]))
        if wanted in answer:
            break
        time.sleep(0.05)
    return answer[wanted]


def test_each_printed_command_works_as_printed():
    with running_demo() as demo:
        assert [about.partition(", at http")[0] for about in demo.steps] == [
            *(CALL, ENROL, STRANGER, OBEY, REVIEW, LIST, BLOCK, UNBLOCK, VERIFY)
        ]
        text = json.loads(bash(demo.steps[CALL]))["result"]["content"][0]["text"]
        assert "passes the gate first" in text

        deleting = demo.steps[CALL].replace("read_note", "delete_note").replace("welcome", "todo")
        assert json.loads(bash(deleting))["error"]["data"]["reason"] == "tool_not_approved"
        review(demo, "a")
        assert call_until(demo, "result", deleting)["content"][0]["text"] == "Deleted todo."

        rows = [line for line in bash(demo.steps[LIST]).splitlines() if "_note" in line]
        assert [row for row in rows if "read_note" in row and " allow " in row]
        assert [row for row in rows if "delete_note" in row and " tool_not_approved " in row]

        bash(demo.steps[BLOCK])
        assert call_until(demo, "error")["data"]["reason"] == "blocked_by_policy"
        assert "blocked_by_policy" in bash(demo.steps[LIST])

        bash(demo.steps[UNBLOCK])
        assert call_until(demo, "result")["isError"] is False

        assert bash(demo.steps[VERIFY]).startswith("The log holds: ")
        assert demo.end(signal.SIGINT) == 0


def test_what_a_stranger_wants_waits_for_the_person():
    with running_demo() as demo:
        (obey,) = [command for about, command in demo.steps.items() if about.startswith(OBEY)]
        (where,) = [about.partition(", at ")[2] for about in demo.steps if about.startswith(OBEY)]
        assert where == demo.fact["console"]

        # Before anybody can decide, nothing that the stranger wants is done; what is one's own passes.
        assert "northwind-billing" in json.loads(bash(demo.steps[STRANGER]))["result"]["content"][0]["text"]
        assert json.loads(bash(obey))["error"]["data"]["reason"] == "approval_unavailable"
        own = obey.replace("accounts@northwind-billing.example", "anna@example.org").replace('"todo"', '"welcome"')
        assert json.loads(bash(own))["result"]["content"][0]["text"] == "Sent welcome to anna@example.org."

        # The link leads to this gateway, whatever port it has.
        assert f"  {demo.fact['console']}enrol#" in bash(demo.steps[ENROL])
        assert urllib.request.urlopen(demo.fact["console"] + "enrol", timeout=30).status == 200
        outbox = demo.config.parent / "notes" / "outbox.log"
        assert outbox.read_text().splitlines() == ["to anna@example.org: welcome, 89 characters"]
        shown = bash(shlex.join([CALLGATE, "labels", "show", "notes", "send_note", "--json", "-c", str(demo.config)]))
        assert json.loads(shown)["who"]["destination"] == "server"
        assert demo.end(signal.SIGINT) == 0


def test_the_printed_client_command_serves_the_same_notes():
    with running_demo() as demo:
        (command,) = [line for line in demo.printed.splitlines() if " wrap notes " in line]
        request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "list_notes", "arguments": {}}}
        answer = json.loads(bash(f"echo {shlex.quote(json.dumps(request))} | {command}"))
        assert answer["result"]["content"][0]["text"] == "invoice\ntodo\nwelcome"
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
        assert [line for line in demo.complained.splitlines() if "tools wait for review" not in line] == []


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


def states(config):
    listed = subprocess.run(
        [CALLGATE, "tools", "list", "--json", "-c", config], capture_output=True, check=True, timeout=60
    )
    return {row["tool"]: row["state"] for row in json.loads(listed.stdout)}


def test_the_demo_reviews_its_own_tools_once_and_what_a_person_decides_stays(tmp_path):
    with running_demo("--dir", str(tmp_path)) as demo:
        approved = dict.fromkeys(["list_notes", "read_note", "write_note", "send_note"], "approved")
        assert states(demo.config) == approved | {"delete_note": "new"}
        words = ["--server", "notes", "--tool", "read_note"]
        shown = bash(shlex.join([CALLGATE, "tools", "show", *words, "-c", str(demo.config)]))
        assert "callgate demo" in shown
        bash(shlex.join([CALLGATE, "tools", "block", *words, "--note", "no", "-c", str(demo.config)]))
        assert call_until(demo, "error")["data"]["reason"] == "tool_blocked"
        assert demo.end(signal.SIGINT) == 0
    with running_demo("--dir", str(tmp_path)) as demo:
        assert states(demo.config)["read_note"] == "blocked"
        assert json.loads(bash(demo.steps[CALL]))["error"]["data"]["reason"] == "tool_blocked"
        assert demo.end(signal.SIGINT) == 0


def test_another_server_of_that_name_is_not_approved(tmp_path):
    """A folder of one's own may hold a configuration of one's own."""
    with running_demo("--dir", str(tmp_path / "theirs")) as demo:
        config = demo.config.read_text()
        assert demo.end(signal.SIGINT) == 0
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "callgate.toml").write_text(config)
    with running_demo("--dir", str(tmp_path / "own")) as demo:
        assert json.loads(bash(demo.steps[CALL]))["error"]["data"]["reason"] == "tool_not_approved"
        assert demo.end(signal.SIGINT) == 0


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
        assert all("-c /" in command for command in demo.steps.values() if not command.startswith("curl "))
