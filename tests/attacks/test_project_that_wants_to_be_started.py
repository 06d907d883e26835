"""A project that somebody else wrote brings servers of its own: `callgate install` in it starts none of them."""

import contextlib
import json

import pytest

from support.fork_server import CALLGATE
from support.installed import Home
from support.table import rows
from support.terminal import Terminal


@pytest.fixture
def home(tmp_path):
    with contextlib.closing(Home(tmp_path / "home")) as made:
        yield made


def server(marker, *, wrapped=False):
    """A server that leaves a file where it was started."""
    words = ["sh", "-c", f"touch '{marker}'"]
    if wrapped:
        return {"command": CALLGATE, "args": ["wrap", "evil", "--", *words]}
    return {"command": words[0], "args": words[1:]}


@rows(("wrapped", "questions"), [(True, 1), (False, 3)])
def test_no_server_of_a_project_is_started(home, monkeypatch, wrapped, questions):
    """The client asks its user whether the project is trusted before it starts what the project brings; we do not."""
    own, evil = home.path / f"own {wrapped}", home.path / f"evil {wrapped}"
    home.write(".cursor/mcp.json", json.dumps({"mcpServers": {f"own-{wrapped}": server(own)}}))
    for name in (".mcp.json", ".cursor/mcp.json"):
        path = home.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"mcpServers": {"evil": server(evil, wrapped=wrapped)}}))
    monkeypatch.chdir(home.project)
    environ = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR"), "") | home.environ
    with Terminal([CALLGATE, "install", "--no-hooks"], env=environ) as screen:
        for _ in range(questions):
            screen.expect("Change this file? [y/N]:")
            screen.press("y\n")
        screen.expect("Ctrl-C leaves the link valid.")
        screen.press("\x03")
        assert screen.end() == 0
    assert own.exists()
    assert not evil.exists()
