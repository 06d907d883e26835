"""`callgate demo` is what a newcomer sees first: what it tells has happened, and everything it prints works as printed."""

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import psutil
import pytest

from callgate_demo.bank import Bank
from callgate_demo.files import LANDLORD
from callgate_demo.mail import FRIEND, THIEF
from callgate_demo.play import configure
from support.demo import (
    LAST_LINE,
    SECONDS,
    STEPS,
    Newcomer,
    below,
    commands,
    config_in,
    demo_on_a_terminal,
    fact,
    running_demo,
    settings,
)
from support.fork_server import on_path
from support.table import rows

pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.timeout(900)]

RENT, TICKETS = ("850.00", LANDLORD.replace(" ", "")), ("42.00", FRIEND.replace(" ", ""))
THEFT = ("4900.00", THIEF.replace(" ", ""))


@cache
def shell():
    """What lets a shell find a `callgate` that starts at once."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    orders, passed = on_path(folder)
    return {**os.environ, **orders, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}, passed


def bash(command, cwd="/"):
    env, passed = shell()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        capture_output=True,
        check=False,
        text=True,
        timeout=SECONDS,
        cwd=cwd,
        env=env,
        pass_fds=passed,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def paid(state):
    return [(amount, iban) for amount, iban, _ in Bank(state / "bank").transfers()]


def auto(folder, *words, env=None):
    with running_demo(folder, "--auto", *words, env=env) as demo:
        return demo.wait(), demo.printed, demo.complained


# -- by itself -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One story that was told to its end, with its state kept."""
    folder = tmp_path_factory.mktemp("told")
    status, printed, complained = auto(folder, "--dir", str(folder / "state"))
    assert (status, complained) == (0, ""), printed
    return folder / "state", printed


def test_by_itself_it_tells_every_step_and_each_has_happened(told):
    state, printed = told
    at = [printed.index(f"\n{step}") for step in STEPS]
    assert at == sorted(at)
    assert printed.endswith("Every step happened.\n")
    assert paid(state) == [RENT, TICKETS]
    rows = json.loads(bash(f"callgate tools list --json -c '{state}/callgate.toml'"))
    assert {row["tool"]: row["state"] for row in rows if row["state"] != "approved"} == {"search_mail": "blocked"}
    asked = json.loads(bash(f"callgate approvals list --all --json -c '{state}/callgate.toml'"))
    assert [(row["tool"], row["state"]) for row in asked] == [("transfer", "used"), ("transfer", "refused")]


def test_its_receipt_verifies_where_there_is_nothing_else(told, tmp_path):
    shutil.copy(told[0] / "receipt.json", tmp_path)
    printed = bash("callgate audit verify --receipt receipt.json", cwd=tmp_path)
    assert "what was signed is this tool with these arguments on this server" in printed
    receipt = (tmp_path / "receipt.json").read_text()
    (tmp_path / "other.json").write_text(receipt.replace("42.00", "43.00"))
    with pytest.raises(AssertionError, match="receipt"):
        bash("callgate audit verify --receipt other.json", cwd=tmp_path)


def test_it_is_told_within_eighty_columns(told):
    long = [line for line in told[1].splitlines() if len(line) > 80]
    assert [line for line in long if not line.startswith("  state ")] == []


@pytest.mark.verify
@rows(
    ("change", "expected"),
    [
        ('[trust]\nmode = "off"\n', "waits for a person; instead: Transferred 4900.00 EUR"),
        ('[pinning]\nmode = "off"\n', "the agent sees no tool that nobody approved; instead: bank/show_account"),
    ],
)
def test_a_step_that_does_not_happen_is_told_and_counts(tmp_path, change, expected):
    """A gate that is switched off lets the story go wrong: then the demo has to say so."""
    state = tmp_path / "state"
    state.mkdir()
    configure(state / "callgate.toml", kept=True)
    with (state / "callgate.toml").open("a") as file:
        file.write(f"\n{change}")
    status, printed, _ = auto(tmp_path, "--dir", str(state))
    assert status == 1
    assert "This did not happen: " in printed
    assert expected in " ".join(printed.split())
    assert "Every step happened." not in printed
    assert TICKETS not in paid(state)


@pytest.mark.verify
def test_a_second_telling_in_the_same_folder_happens_again(told, tmp_path):
    state, _ = told
    status, printed, _ = auto(tmp_path, "--dir", str(state))
    assert status == 0, printed
    assert paid(state) == [RENT, TICKETS] * 2


# -- being stopped ---------------------------------------------------------------------------------------------


@pytest.fixture
def scratch(tmp_path):
    """Where temporary folders are made; nothing may be left in it, nor run from it."""
    place = tmp_path / "scratch"
    place.mkdir()
    yield place
    assert list(place.iterdir()) == []
    assert [
        one.pid for one in psutil.process_iter(["cmdline"]) if str(place) in " ".join(one.info["cmdline"] or ())
    ] == []


@pytest.mark.parametrize("when", ["at once", pytest.param("once it listens", marks=pytest.mark.verify)])
def test_asked_to_stop_while_it_starts_it_leaves_nothing(tmp_path, scratch, when):
    with running_demo(tmp_path, env={"TMPDIR": str(scratch)}) as demo:
        while demo.process.poll() is None and not any(scratch.iterdir()):
            time.sleep(0.005)
        if when == "once it listens":
            demo.wait_for("gateway")
        assert demo.end(signal.SIGTERM) == 0, demo.complained
        assert demo.complained == ""


@pytest.mark.verify
@pytest.mark.parametrize("step", [1, 4])
def test_stopped_in_the_middle_it_has_not_told_everything(tmp_path, scratch, step):
    with running_demo(tmp_path, "--auto", env={"TMPDIR": str(scratch)}) as demo:
        demo.wait_for(STEPS[step])
        assert demo.end(signal.SIGINT) == 1, demo.printed
        assert "Every step happened." not in demo.printed
        assert demo.complained == ""


def test_ctrl_c_while_a_person_is_waited_for_ends_it_calmly(scratch):
    with demo_on_a_terminal(env={"TMPDIR": str(scratch)}) as seen:
        seen.expect("or press r here")
        children = below(seen.process.pid)
        assert len([one for one in children if any("callgate_demo/" in word for word in one.cmdline())]) == 3
        seen.press("\x03")
        assert seen.end() == 0
        assert seen.restored
        assert seen.text.rstrip().endswith("Stopped.")
        assert psutil.wait_procs(children, timeout=10)[1] == []


@pytest.mark.verify
def test_ctrl_c_while_a_call_waits_ends_it_calmly_and_nothing_is_paid(tmp_path, scratch):
    state = tmp_path / "state"
    with demo_on_a_terminal("--dir", str(state), env={"TMPDIR": str(scratch)}) as seen:
        seen.expect("or press r here")
        Newcomer(state / "callgate.toml", fact(seen.text, "console")).enrol()
        seen.press("r")
        seen.expect("press t:")
        seen.press("t")
        seen.expect("or press b here")
        seen.press("b")
        seen.expect("or press n here")
        children = below(seen.process.pid)
        seen.press("\x03")
        assert seen.end() == 0
        assert re.fullmatch(r": refuse it\s+Stopped\.\s*", seen.text.rpartition("or press n here")[2])
        assert psutil.wait_procs(children, timeout=10)[1] == []
    assert paid(state) == [RENT]


# -- with a person ---------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_person_plays_it_with_keys_and_a_passkey_and_each_printed_command_works(scratch, tmp_path):
    with demo_on_a_terminal(env={"TMPDIR": str(scratch)}) as seen:
        seen.expect("or press r here")
        config = config_in(seen.text)
        newcomer = Newcomer(config, fact(seen.text, "console"))
        # Nobody approves what was not shown: the key for the transfer does nothing yet.
        seen.press("tr")
        seen.expect("press t:")
        seen.press("t")
        assert "{+ Before you use any other tool" in seen.expect("or press b here")
        seen.press("b")
        seen.expect("need a passkey")
        newcomer.enrol()
        seen.expect("or press n here")
        assert paid(config.parent) == [RENT]
        seen.press("n")
        seen.expect("Not a cent has left.")
        seen.expect("or press n here")
        newcomer.approve()
        program, *_ = re.search(r"install +(.+?) install puts", seen.expect(LAST_LINE), re.DOTALL)[1].split()
        assert shutil.which(program), "what the demo says to type next is there"
        assert seen.restored
        assert paid(config.parent) == [RENT, TICKETS]
        typed = commands(seen.text)
        assert len(typed) >= 10
        # Those that decide are left out: nothing waits any more, and they would say so.
        shown = [command for command in typed if not re.search(r"review|refuse|block|enroll", command)]
        bash("\n".join([*settings(seen.text), *dict.fromkeys(shown)]), cwd=tmp_path)
        seen.press("\x03")
        assert seen.end() == 0


@pytest.mark.verify
def test_what_the_person_approves_is_done_even_if_it_is_theft_and_by_command_as_well(scratch, tmp_path):
    with demo_on_a_terminal(env={"TMPDIR": str(scratch), "NO_COLOR": "1"}) as seen:
        seen.expect("or press r here")
        config = config_in(seen.text)
        newcomer = Newcomer(config, fact(seen.text, "console"))
        newcomer.enrol()
        first = settings(seen.text)
        bash(
            "\n".join([*first, "callgate tools list --json > t", "callgate tools approve --from t --with-findings"]),
            cwd=tmp_path,
        )
        seen.expect("or press b here")
        (block,) = [command for command in commands(seen.text) if " block " in command]
        bash("\n".join([*first, block]), cwd=tmp_path)
        # Who has a passkey is not asked for one.
        assert "need a passkey" not in seen.expect("or press n here")
        newcomer.approve()
        seen.expect("Transferred 4900.00 EUR to Linde Homes")
        seen.expect("or press n here")
        (refuse,) = [command for command in commands(seen.text)[-1:] if " refuse " in command]
        bash("\n".join([*first, refuse]), cwd=tmp_path)
        seen.expect(LAST_LINE)
        assert paid(config.parent) == [RENT, THEFT]
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", seen.raw)
        seen.press("\x03")
        assert seen.end() == 0


# -- its surroundings ------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_port_in_use_is_no_obstacle_and_settings_of_ones_own_are_left_alone(tmp_path):
    """Its output is a file: no link is left in it that lets somebody in."""
    own = tmp_path / "own.db"
    env = {"CALLGATE_STORE_URL": f"sqlite:///{own}", "CALLGATE_BLOCK_ALL": "1"}
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", 8420))
            other.listen()
        except OSError:
            pass  # something else has it already
        with running_demo(tmp_path, env=env) as demo:
            demo.wait_for("callgate review")
            gateway = fact(demo.printed, "gateway")
            assert not gateway.endswith(":8420")
            assert f"CALLGATE_LISTEN={gateway.removeprefix('http://')}" in demo.printed
            assert "unset CALLGATE_BLOCK_ALL CALLGATE_STORE_URL" in demo.printed
            assert "callgate enroll me" in demo.printed
            assert "/enrol#" not in demo.printed
            assert "press r" not in demo.printed
            link = bash("\n".join([*settings(demo.printed), "callgate enroll me"]))
            assert f"  {fact(demo.printed, 'console')}enrol#" in link
            assert demo.end(signal.SIGINT) == 0
    assert not own.exists()


def test_a_folder_with_another_configuration_is_left_alone(tmp_path):
    text = '[servers.files]\ncommand = ["true"]\n'
    (tmp_path / "callgate.toml").write_text(text)
    status, printed, complained = auto(tmp_path, "--dir", str(tmp_path))
    assert (status, printed) == (1, "")
    assert "not the configuration of this demo" in complained
    assert "--dir" in complained
    assert (tmp_path / "callgate.toml").read_text() == text


def test_a_folder_that_cannot_be_made_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    status, _, complained = auto(tmp_path, "--dir", str(tmp_path / "file" / "below"))
    assert status == 1
    assert "--dir" in complained
    assert "Traceback" not in complained


@pytest.mark.verify
def test_a_folder_with_an_odd_name_is_taken_as_it_is(tmp_path):
    state = tmp_path / "it's ${HOME} here"
    state.mkdir()
    configure(state / "callgate.toml", kept=True)
    configure(state / "callgate.toml", kept=True)
    with running_demo(tmp_path, "--dir", str(state)) as demo:
        demo.wait_for("callgate review")
        assert "transfer" in bash("\n".join([*settings(demo.printed), "callgate tools list"]))
        assert demo.end(signal.SIGTERM) == 0
