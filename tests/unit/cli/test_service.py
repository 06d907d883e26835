"""`callgate service`: the file that is written starts a gateway that stays, and nothing of it is left behind."""

import json
import plistlib
import shlex
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from callgate.cli import run
from callgate.cli.gateway import ask_gateway, end, place_of
from callgate.cli.service import unit_of
from support.installed import notes


@pytest.fixture
def home(here, monkeypatch):
    """A machine without systemd, unless a test brings one."""
    monkeypatch.setenv("HOME", str(here / "home"))
    (here / "bin").mkdir()
    monkeypatch.setenv("PATH", str(here / "bin"))
    yield here
    end(place_of(None))


def unit(home):
    return home / "xdg" / "systemd" / "user" / "callgate-gateway.service"


def words_of(text):
    """The command of a unit, as systemd.syntax(7) reads it: quoted words, with %% and $$ for % and $."""
    line = next(one for one in text.splitlines() if one.startswith("ExecStart="))
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))]


@contextmanager
def started(text, environ):
    with subprocess.Popen(words_of(text), env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def reaping(process):
    """As the system does for a service that has ended."""
    waiting = threading.Thread(target=process.wait)
    waiting.start()
    yield
    waiting.join()


def test_a_dry_run_shows_the_file_and_writes_nothing(home, capsys):
    before = sorted(home.rglob("*"))
    assert run(["service", "install", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{unit(home)}:\n\n")
    assert "ExecStart=" in said
    assert sorted(home.rglob("*")) == before


def test_what_the_file_starts_is_the_gateway_and_it_stays(home, capsys):
    assert run(["service", "install"]) == 0
    said = capsys.readouterr().out
    assert "there is no systemctl here" in said
    assert "`callgate service uninstall`" in said
    text = unit(home).read_text()
    assert f'Environment="XDG_STATE_HOME={home / "state"}"' in text
    assert f"StandardError=append:{place_of(None).log}" in text
    environ = {"HOME": str(home / "home"), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "xdg")}
    with started(text, environ) as service:
        assert any("listening" in line for line in service.stderr)
        assert ask_gateway(place_of(None), "status")["pid"] == service.pid
        # One that comes later waits for its turn.
        with started(text, environ) as second:
            with reaping(service):
                assert run(["stop"]) == 0
            assert "`callgate service uninstall`" in capsys.readouterr().out
            assert service.wait(60) == 0
            assert any("listening" in line for line in second.stderr)
            assert ask_gateway(place_of(None), "status")["pid"] == second.pid
    assert run(["service", "uninstall"]) == 0
    assert not unit(home).exists()
    assert run(["service", "status"]) == 1


def test_a_configuration_with_any_name_is_one_word(home, capsys):
    config = home / 'a "100%" $HOME \\ gate.toml'
    config.write_text("")
    assert run(["service", "install", "--dry-run", "-c", str(config)]) == 0
    said = capsys.readouterr().out
    assert words_of(said)[-1] == str(config.resolve())
    assert f"{unit(home).parent}/callgate-gateway-" in said


def test_the_system_is_told_of_it(home, capsys):
    """A systemctl that keeps what it was asked."""
    asked_for = home / "asked"
    (home / "bin" / "systemctl").write_text(f'#!/bin/sh\necho "$*" >> {asked_for}\n')
    (home / "bin" / "systemctl").chmod(0o755)
    assert run(["service", "install"]) == 0
    assert "runs from login on" in capsys.readouterr().out
    assert run(["service", "status"]) == 0
    assert run(["service", "uninstall"]) == 0
    assert asked_for.read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now callgate-gateway.service",
        "--user is-active callgate-gateway.service",
        "--user disable --now callgate-gateway.service",
        "--user daemon-reload",
    ]


def test_an_agent_of_launchd(home, monkeypatch):
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    made = unit_of(place_of(None))
    assert made.path == home / "home" / "Library" / "LaunchAgents" / "dev.callgate.gateway.plist"
    agent = plistlib.loads(made.text.encode())
    assert agent["ProgramArguments"] == [sys.executable, "-P", "-m", "callgate.cli.gateway", place_of(None).config]
    assert agent["KeepAlive"] is True


def test_another_system_is_refused_with_advice(home, monkeypatch, capsys):
    monkeypatch.setattr("platform.system", lambda: "Windows")
    assert run(["service", "install"]) == 1
    assert "wrapped servers work without one" in capsys.readouterr().err


def test_uninstall_ends_the_gateway_and_takes_the_service_away(home, capsys):
    cursor = home / "home" / ".cursor" / "mcp.json"
    cursor.parent.mkdir(parents=True)
    cursor.write_text(json.dumps({"mcpServers": {"a": notes(home), "b": notes(home)}}))
    assert run(["install", "--yes"]) == 0
    assert run(["service", "install"]) == 0
    assert run(["restart"]) == 0
    assert run(["uninstall", "--yes", "--server", "a"]) == 0
    # One server is still behind it.
    assert ask_gateway(place_of(None), "status") is not None
    assert unit(home).exists()
    capsys.readouterr()
    assert run(["uninstall", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "Your gateway has ended." in said
    assert "The service is gone" in said
    assert ask_gateway(place_of(None), "status") is None
    assert not unit(home).exists()
