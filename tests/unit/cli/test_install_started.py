"""What `callgate install` writes is what a client starts: the written command answers through the gate."""

import contextlib
import json
import os
import subprocess

import pytest

from support.fork_server import CALLGATE
from support.installed import Home, command_line, notes
from support.raw import json_answer, raw_server
from support.table import rows
from support.terminal import Terminal


@pytest.fixture
def home(tmp_path):
    with contextlib.closing(Home(tmp_path / "a home")) as made:
        yield made


def entry(path, name):
    return json.loads(path.read_text())["mcpServers"][name]


def test_a_server_is_wrapped_started_reviewed_and_unwrapped(home):
    text = json.dumps({"mcpServers": {"My Notes": notes(home.path / "notes")}}, indent=2)
    path = home.write(".cursor/mcp.json", text)
    home.type("install", "--yes")
    assert entry(path, "My Notes")["command"] == CALLGATE
    with home.started(entry(path, "My Notes")) as server:
        assert server.shake_hands()["serverInfo"]["name"]
        assert server.tools() == [], "nobody has reviewed them"
    waiting = home.write("tools.json", home.type("tools", "list", "--json"))
    assert {tool["server"] for tool in json.loads(waiting.read_text())} == {"my-notes"}
    home.type("tools", "approve", "--from", str(waiting), "--with-findings")
    with home.started(entry(path, "My Notes")) as server:
        server.shake_hands()
        assert "read_note" in server.tools()
    home.type("uninstall", "--yes")
    assert path.read_text() == text


def test_a_server_at_an_address_gets_its_headers_and_no_secret_is_on_the_command_line(home):
    query = "?key=s3cret-query"
    with raw_server() as behind:
        server = {
            "type": "http",
            "url": behind.url + query,
            "headers": {"Authorization": "Bearer s3cret", "X-Team": "a"},
        }
        text = json.dumps({"mcpServers": {"web": server}}, indent=2)
        path = home.write(".cursor/mcp.json", text)
        assert "s3cret" not in home.type("install", "--yes")
        reply = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", "capabilities": {}}}
        behind.script = json_answer(json.dumps(reply).encode())
        with home.started(entry(path, "web")) as pipe:
            assert pipe.ask("initialize", {"protocolVersion": "2025-11-25"})["result"]["protocolVersion"]
            assert "s3cret" not in command_line(pipe.process.pid)
            assert "wrap" in command_line(pipe.process.pid)
        request = behind.requests[0]
        assert (request.header("authorization"), request.header("x-team")) == ([b"Bearer s3cret"], [b"a"])
        assert query.encode() in request.line
        home.type("uninstall", "--yes")
    assert path.read_text() == text


@rows(
    ("words", "environ", "told"),
    [
        (["--url", "https://a", "--url-env", "U"], {"U": "https://b"}, "--url and --url-env were given"),
        (["--url-env", "U"], {}, "the environment variable U is not set"),
        (["--url-env", "U"], {"U": "ftp://s3cret"}, "expected an http or https URL"),
        (["--url", "https://a", "--header-env", "A=V"], {}, "the environment variable V is not set"),
        (["--url", "https://a", "--header-env", "A"], {}, "of no name is not set"),
        (["--url", "https://a", "--header-env", "A=V"], {"V": "s3cret\r\nX: y"}, "one line without control"),
        (["--url", "https://a", "--header-env", "Host=V"], {"V": "s3cret"}, "sets this header itself"),
        (["--header-env", "A=V", "--", "true"], {"V": "s3cret"}, "for a server that has an address"),
    ],
)
def test_what_wrap_cannot_take_from_the_environment_is_told_without_it(home, words, environ, told):
    done = subprocess.run(
        [CALLGATE, "wrap", "web", *words],
        check=False,
        env=home.environ | environ,
        cwd=home.project,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert told in said
    assert "s3cret" not in said


def test_a_person_is_asked_for_each_client_and_shown_what_comes_next(home):
    cursor = home.write(".cursor/mcp.json", '{\n  "mcpServers": {\n    "a": {"command": "x"}\n  }\n}\n')
    zed = home.write(".config/zed/settings.json", '{"context_servers": {"b": {"command": "y"}}}')
    before = zed.read_bytes()
    environ = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR"), "") | home.environ
    with Terminal([CALLGATE, "install", "--client", "cursor", "--client", "zed"], env=environ) as screen:
        shown = screen.expect("Change these 2 files? [y/N]:")
        assert "Cursor  ~/.cursor/mcp.json" in shown
        assert "hooks.json  (a new file)" in shown
        assert '-     "a": {"command": "x"}' in shown
        assert f'+     "a": {{"command": "{CALLGATE}", "args": ["wrap", "a"' in shown
        assert "\x1b[31m" in screen.raw
        assert "\x1b[32m" in screen.raw
        screen.press("y\n")
        screen.expect("Changed. Backup: ~/.cursor/mcp.json.callgate-backup")
        screen.expect("Change this file? [y/N]:")
        screen.press("n\n")
        screen.expect("Cursor: with each prompt, a hook now tells the gate what you wrote.")
        screen.expect("1 server in 1 file now behind the gate.")
        screen.expect("a  its command ended before it answered")
        # Nothing can be reviewed yet, but somebody can enrol.
        screen.expect("Next: a passkey, with which you approve calls.")
        screen.expect("Ctrl-C leaves the link valid.")
        screen.press("\x03")
        screen.expect("callgate enroll")
        screen.expect('Cursor: "Developer: Reload Window"')
        screen.expect("callgate review")
        assert screen.end() == 0
    assert screen.text.count("Restart") == 1
    assert CALLGATE in cursor.read_text()
    assert zed.read_bytes() == before


def test_no_colour_where_none_is_wanted(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    environ = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), "") | home.environ | {"NO_COLOR": "1"}
    with Terminal([CALLGATE, "install", "--dry-run", "--client", "cursor"], env=environ) as screen:
        assert screen.end() == 0
    assert "behind the gate" in screen.raw
    assert not any(f"\x1b[3{colour}m" in screen.raw for colour in range(8))


def test_an_answer_that_never_comes_changes_nothing(home):
    path = home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    environ = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), "") | home.environ
    with Terminal([CALLGATE, "install", "--client", "cursor"], env=environ) as screen:
        screen.expect("[y/N]:")
        assert screen.interrupt() != 0
    assert path.read_text() == '{"mcpServers": {"a": {"command": "x"}}}'
    assert os.listdir(path.parent) == ["mcp.json"]  # noqa: PTH208
