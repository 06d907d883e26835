"""examples/wrap: the client's configuration after the change gives the client what it gave before, and a record."""

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "wrap"
REQUESTS = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "read_note", "arguments": {"name": "todo"}}},
]


def as_a_client_does(name, folder, env):
    server = json.loads((FOLDER / name).read_text())["mcpServers"]["notes"]
    argv = [word.replace("/home/me/notes", str(folder)) for word in [server["command"], *server["args"]]]
    lines = "".join(json.dumps(request) + "\n" for request in REQUESTS)
    done = subprocess.run(argv, input=lines.encode(), env=env, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    return done.stdout


def test_the_client_sees_the_same_and_the_call_is_on_record(tmp_path):
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    before = as_a_client_does("before.json", tmp_path / "notes", env)
    after = as_a_client_does("after.json", tmp_path / "notes", env)
    assert before.count(b"\n") == 3
    assert after == before
    done = subprocess.run(["callgate", "audit", "list", "--json"], env=env, capture_output=True, timeout=60, check=True)
    (entry,) = map(json.loads, done.stdout.splitlines())
    assert (entry["decision"]["server"], entry["decision"]["tool"]) == ("notes", "read_note")
    assert entry["outcome"]["outcome"] == "result"


def test_the_page_shows_the_same_files():
    page = (FOLDER.parents[1] / "docs" / "how-to" / "wrap-a-server.md").read_text()
    for name in ("before.json", "after.json"):
        assert f"```json\n{(FOLDER / name).read_text()}```" in page
