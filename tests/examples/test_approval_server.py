"""examples/approval_server: the walk-through prints what its page says, over stdio and over HTTP."""

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.approval_peer import HttpPeer
from support.registry import requirement

pytestmark = pytest.mark.verify

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "approval_server"
ENV = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def walk_through(folder, *words):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / "walk_through.py"), *words],
        cwd=folder,
        env=ENV,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def address(tmp_path):
    """server.py over HTTP on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(FOLDER / "server.py"), str(port)]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, env=ENV, stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(30)


@requirement("VA-002", "VA-003")
def test_over_stdio_it_prints_what_the_page_says(tmp_path):
    assert f"```text\n{walk_through(tmp_path)}```" in (FOLDER / "README.md").read_text()
    assert list(tmp_path.iterdir()) == []


def test_over_http_too_and_the_tool_is_listed_as_the_specification_has_it(tmp_path, address):
    assert f"```text\n{walk_through(tmp_path, address)}```" in (FOLDER / "README.md").read_text()
    peer = HttpPeer(address, "handshake")
    tools = {tool["name"]: tool for tool in peer.result("tools/list")["tools"]}
    listed = tools["delete_resource"]
    assert listed["title"] == "Delete resource"
    assert listed["description"] == "Permanently delete the resource with the given id."
    assert listed["inputSchema"]["properties"]["resourceId"]["minLength"] == 1
    mark = {"required": "verified", "authenticatorClass": "cross-platform"}
    assert listed["_meta"] == {"io.modelcontextprotocol/verified-approval": mark}
    said = peer.result("tools/call", {"name": "list_resources", "arguments": {}})
    assert said["content"][0]["text"] == "def456"
    assert list_passkeys(tmp_path) == []


def list_passkeys(folder):
    command = [sys.executable, "-m", "callgate", "credentials", "list", "--json"]
    store = f"sqlite:///{folder / 'approvals.db'}"
    done = subprocess.run([*command, "--store", store], capture_output=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_it_says_at_its_start_what_to_type_for_the_first_passkey(tmp_path, address):
    command = f"callgate enroll alice --here --store sqlite:///{tmp_path / 'approvals.db'}"
    assert f"\n  {command}\n" in (tmp_path / "said").read_text()
    ticket = subprocess.run(
        [sys.executable, "-m", *shlex.split(command.replace("--here", "--json"))],
        capture_output=True,
        timeout=60,
        check=True,
    )
    HttpPeer(address).enrol(json.loads(ticket.stdout)["ticket"])
    assert [row["user"] for row in list_passkeys(tmp_path)] == ["alice"]
