"""A project that somebody else wrote lies open in the editor: it must not switch the gate off, choose which files
`callgate install` changes, keep it waiting, or steer the terminal."""

import contextlib
import json
import os

import pytest

from support.fork_server import CALLGATE
from support.installed import Home, notes
from support.npm_registry import npm_registry


@pytest.fixture
def home(tmp_path):
    with contextlib.closing(Home(tmp_path / "home")) as made:
        yield made


def test_a_callgate_toml_in_the_project_does_not_switch_the_gate_off(home):
    """Editors start the user's servers in the folder that is open."""
    path = home.write(".cursor/mcp.json", json.dumps({"mcpServers": {"notes": notes(home.path / "notes")}}))
    home.type("install", "--yes")
    (home.project / "callgate.toml").write_text(
        '[pinning]\nmode = "off"\n[trust]\nmode = "off"\n[store]\nurl = "sqlite:///stolen.db"\n'
    )
    with home.started(json.loads(path.read_text())["mcpServers"]["notes"]) as server:
        server.shake_hands()
        assert server.tools() == []
    assert not (home.project / "stolen.db").exists()


def test_the_same_file_counts_where_the_person_asks_for_it(home):
    """So that the attack above is known to do something."""
    (home.project / "callgate.toml").write_text('[pinning]\nmode = "off"\n[trust]\nmode = "off"\n')
    entry = notes(home.path / "notes")
    wrapped = {
        "command": CALLGATE,
        "args": ["wrap", "notes", "-c", "callgate.toml", "--", entry["command"], *entry["args"]],
    }
    with home.started(wrapped) as server:
        server.shake_hands()
        assert server.tools() != []


def test_a_link_out_of_the_project_is_not_followed(home):
    victim = home.write(".config/other/settings.json", '{"mcpServers": {"a": {"command": "x"}}}')
    before = victim.read_bytes()
    (home.project / ".mcp.json").symlink_to(victim)
    (home.project / ".cursor").symlink_to(victim.parent)
    said = home.type("install", "--yes", code=1)
    assert "a link that leads out of the project" in said
    assert victim.read_bytes() == before
    assert os.listdir(victim.parent) == ["settings.json"]  # noqa: PTH208


def test_a_pipe_in_the_place_of_a_file_does_not_keep_it_waiting(home):
    os.mkfifo(home.project / ".mcp.json")
    assert "is not a regular file" in home.type("install", "--yes", code=1)


def test_a_project_cannot_call_its_own_program_the_gate(home):
    """What is named callgate is left alone, and told apart from this one."""
    home.write(
        "my project/.mcp.json", '{"mcpServers": {"a": {"command": "./callgate", "args": ["wrap", "a", "--", "x"]}}}'
    )
    assert "by another program: ./callgate" in home.type("install", "--yes")


def test_names_cannot_steer_the_terminal(home):
    name = "a\\u001b[2J\\u202e\\r\\nb"
    text = f'{{"mcpServers": {{"{name}": {{"command": "x\\u001b]0;t\\u0007", "args": ["[red]\u202e"]}}}}}}'
    home.write("my project/.mcp.json", text)
    said = home.type("install", "--dry-run")
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "[red]" in said


def test_a_name_cannot_become_an_option(home):
    path = home.write(
        "my project/.mcp.json",
        '{"mcpServers": {"--config=evil.toml": {"command": "x"}, "-c": {"command": "--", "args": ["--url"]}}}',
    )
    home.type("install", "--yes")
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers["--config=evil.toml"]["args"] == ["wrap", "config-evil-toml", "--", "x"]
    assert servers["-c"]["args"] == ["wrap", "c", "--", "--", "--url"]


def test_a_look_for_versions_listens_to_no_file_and_runs_no_program_of_the_project(home, tmp_path):
    """`callgate install --pin-versions` asks npm and uv before anybody has agreed to anything."""
    ran = home.path / "ran"
    for name in ("npm", "uv", "node", "npx", "uvx", ".venv/bin/python"):
        program = home.write(f"my project/{name}", f"#!/bin/sh\necho {name} >> '{ran}'\n")
        program.chmod(0o755)
    asked = home.path / "asked"
    manager = home.write(
        "bin/uv",
        f"#!/bin/sh\npwd >> '{asked}'; env >> '{asked}'\nread line < requirements.in\necho \"$line==1.0.0\"\n",
    )
    manager.chmod(0o755)
    with npm_registry() as users, npm_registry() as projects:
        users.publish("plain", "1.0.0")
        projects.publish("plain", "6.6.6")
        home.environ |= users.environ(tmp_path)
        home.environ["PATH"] = f"{manager.parent}:.:{home.environ['PATH']}"
        home.write("my project/.npmrc", f"registry={projects.url}\nscript-shell=./npm\n")
        home.write("my project/package.json", "{}")
        home.write("my project/uv.toml", f'index-url = "{projects.url}"\n')
        own = {"UV_PYTHON": "./uv", "UV_CONFIG_FILE": "uv.toml", "npm_config_userconfig": ".npmrc", "PATH": "."}
        entries = {
            "npm": {"command": "./npx", "args": ["plain"], "env": own},
            "uv": {"command": "./uvx", "args": ["plain"], "env": own},
            "option": {"command": "npx", "args": ["--package=--prefix=.", "x"], "env": own},
            "file": {"command": "uvx", "args": ["--find-links", "./wheels", "plain"], "env": own},
        }
        path = home.write("my project/.mcp.json", json.dumps({"mcpServers": entries}))
        said = home.type("install", "--pin-versions", "--yes")
        assert projects.asked == []
        assert users.asked != []
    after = json.loads(path.read_text())["mcpServers"]
    assert after["npm"]["args"][3:] == ["./npx", "plain@1.0.0"]
    assert after["uv"]["args"][3:] == ["./uvx", "plain@1.0.0"]
    assert after["option"]["args"][3:] == ["npx", "--package=--prefix=.", "x"]
    assert after["file"]["args"][3:] == ["uvx", "--find-links", "./wheels", "plain"]
    assert said.count("Its version stays open") == 2
    assert not ran.exists()
    heard = asked.read_text()
    assert str(home.project) not in heard.splitlines()[0]
    assert "UV_PYTHON" not in heard
    assert "UV_CONFIG_FILE" not in heard
