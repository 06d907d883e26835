"""examples/http_gateway: the file as it stands, in front of a real server of its own."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.fork_server import CALLGATE
from support.gateway import Gateway

pytestmark = pytest.mark.verify

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "http_gateway"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Tools(BaseHTTPRequestHandler):
    """An MCP server whose only tool answers with the credentials it was given."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = {"resultType": "complete", "content": [{"type": "text", "text": self.headers["Authorization"]}]}
        if asked["method"] == "tools/list":
            tool = {"name": "get_token", "description": "Says it.", "inputSchema": {"type": "object"}}
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        pass


@pytest.fixture
def tools_url():
    with ThreadingHTTPServer(("127.0.0.1", 0), Tools) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


@pytest.fixture
def gateway(tmp_path, tools_url):
    shutil.copy(FOLDER / "callgate.toml", tmp_path)
    env = {
        "CALLGATE_LISTEN": "127.0.0.1:0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TOOLS_URL": tools_url,
        "TOOLS_TOKEN": "of-the-gateway",
    }
    running = Gateway(tmp_path / "callgate.toml", env)
    yield running
    assert running.stop() == 0


def call(gateway, server, tool, arguments):
    params = {"name": tool, "arguments": arguments, "_meta": META}
    request = urllib.request.Request(
        gateway.url(server),
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode(),
        {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": "Bearer of-the-client",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def ready(gateway):
    """A machine that is busy keeps it from reading its kill switch for a while."""
    try:
        return call(gateway, "tools", "get_token", {})
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return None


def text(answer):
    assert "result" in answer, answer
    return answer["result"]["content"][0]["text"]


def callgate(gateway, *words):
    argv = [CALLGATE, *words, "-c", str(gateway.config)]
    env = os.environ | {"TOOLS_TOKEN": "of-the-gateway"}
    return subprocess.run(argv, capture_output=True, check=True, timeout=60, env=env).stdout


def until(came):
    for _ in range(600):
        if came():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")


def review(gateway, tmp_path):
    """The first calls are refused, then all that was met is approved."""
    until(lambda: ready(gateway))
    for server, tool in (("tools", "get_token"), ("notes", "write_note")):
        assert call(gateway, server, tool, {})["error"]["data"]["reason"] == "tool_not_approved"
    # What was met is written down soon after it was refused.
    until(lambda: len(json.loads(callgate(gateway, "tools", "list", "--json"))) == 6)
    (tmp_path / "tools.json").write_bytes(callgate(gateway, "tools", "list", "--json"))
    callgate(gateway, "tools", "approve", "--from", str(tmp_path / "tools.json"), "--with-findings")
    until(lambda: "result" in call(gateway, "notes", "list_notes", {}))


def test_each_server_is_reached_with_its_own_credentials_and_notes_stay_private(gateway, tmp_path):
    review(gateway, tmp_path)
    written = text(call(gateway, "notes", "write_note", {"name": "diary", "text": "between us"}))
    assert written == "Wrote diary, 10 characters."
    assert text(call(gateway, "tools", "get_token", {})) == "Bearer of-the-gateway"
    assert (tmp_path / "notes" / "diary.txt").read_text() == "between us"
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").glob("callgate.db*"))
    assert b"write_note" in stored
    assert b"between us" not in stored
    assert b"of-the-" not in stored
    assert "of-the-" not in "\n".join(gateway.lines)


def test_without_the_token_the_file_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("TOOLS_TOKEN", raising=False)
    done = subprocess.run(
        [CALLGATE, "check", "-c", str(FOLDER / "callgate.toml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "TOOLS_TOKEN" in done.stderr
