"""examples/wrap: after the change and one review the client has what it had before, and a record."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    for _ in range(10):
        done = subprocess.run(argv, input=lines.encode(), env=env, capture_output=True, timeout=60, check=True)
        # A machine that is busy keeps it from reading its kill switch for a while.
        if b"store_unavailable" not in done.stdout:
            break
    return done.stdout.splitlines(), done.stderr


def callgate(env, *words):
    done = subprocess.run(["callgate", *words], env=env, capture_output=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.verify
def test_after_a_review_the_client_has_the_same_and_the_call_is_on_record(tmp_path):
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    (greeting, listed, result), said = as_a_client_does("before.json", tmp_path / "notes", env)
    assert said == b""

    (_, only, refused), said = as_a_client_does("after.json", tmp_path / "notes", env)
    assert [tool["name"] for tool in json.loads(only)["result"]["tools"]] == ["callgate_pending"]
    assert json.loads(refused)["error"]["data"]["reason"] == "tool_not_approved"
    assert b"callgate review" in refused
    assert said == b""

    reviewed = tmp_path / "tools.json"
    reviewed.write_bytes(callgate(env, "tools", "list", "--json"))
    callgate(env, "tools", "approve", "--from", str(reviewed), "--with-findings")

    (hello, shown, answer), said = as_a_client_does("after.json", tmp_path / "notes", env)
    assert said == b""
    assert answer == result
    assert json.loads(shown)["result"]["tools"] == json.loads(listed)["result"]["tools"]
    assert json.loads(hello)["result"]["serverInfo"] == json.loads(greeting)["result"]["serverInfo"]
    refused, allowed = map(json.loads, callgate(env, "audit", "list", "--json").splitlines())
    assert refused["decision"]["reason"] == "tool_not_approved"
    assert (allowed["decision"]["server"], allowed["decision"]["tool"]) == ("notes", "read_note")
    assert allowed["outcome"]["outcome"] == "result"
    callgate(env, "stop")


def test_the_page_shows_the_same_files():
    page = (FOLDER.parents[1] / "docs" / "how-to" / "wrap-a-server.md").read_text()
    for name in ("before.json", "after.json"):
        assert f"```json\n{(FOLDER / name).read_text()}```" in page
