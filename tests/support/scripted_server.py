"""A server whose tools, annotations and results a test writes down: `python scripted_server.py FILE [http]`.

FILE is JSON, read anew for each request: `{"name", "tools": [entries], "results": {tool: result or [result, …]},
"answers": {method: result}, "errors": {tool: error}, "raw": {tool: text}, "before": {tool or method: [messages]},
"http": {tool: [status, content type, text]}, "stream": [messages]}`. A raw text is the reply as it is, with ID in it for
the request's id; what is `before` is said first; `http` is an answer over HTTP as it is, ID as before, its characters
bytes; the stream is what a GET gets. Every message that arrives is appended to FILE.seen, one JSON text a line.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
_MARK = "io.modelcontextprotocol/protocolVersion"


class ScriptedMcp:
    """What it says to each message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = Path(f"{path}.seen")
        self._counts: dict[str, int] = {}

    def script(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        return found

    def hear(self, raw: bytes) -> list[str]:
        """Everything to be said to one text of the client's, each a JSON text."""
        message = json.loads(raw)
        with self._seen.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")
        if isinstance(message, list):
            replies = [said[-1] for said in map(self._answer, message) if said]
            return [f"[{','.join(replies)}]"] if replies else []
        return self._answer(message)

    def _answer(self, message: dict[str, Any]) -> list[str]:
        if "id" not in message or "method" not in message:
            return []
        script = self.script()
        name = (message.get("params") or {}).get("name", "")
        said = script.get("before", {})
        before = [json.dumps(one) for one in said.get(message["method"], said.get(name, []))]
        if message["method"] == "tools/call" and name in script.get("raw", {}):
            return [*before, script["raw"][name].replace("ID", json.dumps(message["id"]))]
        reply = {"jsonrpc": "2.0", "id": message["id"], **self._result(script, message)}
        first = message["method"] == "tools/call" or message["method"] in said
        return [*(before if first else []), json.dumps(reply)]

    def plain(self, raw: bytes) -> tuple[int, str, bytes] | None:
        """An answer to a call that is written down as it is."""
        message = json.loads(raw)
        if not isinstance(message, dict) or message.get("method") != "tools/call":
            return None
        found = self.script().get("http", {}).get(message["params"].get("name", ""))
        if found is None:
            return None
        status, kind, text = found
        return status, kind, text.replace("ID", json.dumps(message["id"])).encode("latin-1")

    def _result(self, script: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message.get("params") or {}
        modern = _MARK in (params.get("_meta") or {})
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
        about: dict[str, Any] = {
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": script.get("name", "server"), "version": "1"},
        }
        if method in script.get("answers", {}):
            return {"result": script["answers"][method] | complete}
        if method == "initialize":
            return {"result": {"protocolVersion": params.get("protocolVersion", "2025-11-25"), **about}}
        if method == "server/discover":
            return {"result": {"supportedVersions": [MODERN, "2025-11-25"], **about, **complete}}
        if method == "tools/list":
            return {"result": {"tools": script.get("tools", []), **complete}}
        if method == "tools/call":
            return self._call(script, params, {"resultType": "complete"} if modern else {})
        return {"error": {"code": -32601, "message": "no such method"}}

    def _call(self, script: dict[str, Any], params: dict[str, Any], complete: dict[str, Any]) -> dict[str, Any]:
        name = params.get("name", "")
        if name in script.get("errors", {}):
            return {"error": script["errors"][name]}
        result = script.get("results", {}).get(name, {"content": [{"type": "text", "text": "done"}]})
        if isinstance(result, list):
            at = self._counts.get(name, 0)
            self._counts[name] = at + 1
            result = result[min(at, len(result) - 1)]
        return {"result": result | complete}


def serve_stdio(server: ScriptedMcp) -> None:
    for line in sys.stdin.buffer:
        for text in server.hear(line):
            sys.stdout.write(text + "\n")
        sys.stdout.flush()


def serve_http(mcp: ScriptedMcp) -> None:
    # Only here: it takes longer to load than all the rest.
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            said = mcp.hear(raw)
            one = len(said) == 1
            data = said[0].encode() if one else _events(said)
            status, kind = 200 if said else 202, "application/json" if one else "text/event-stream"
            status, kind, data = mcp.plain(raw) or (status, kind, data)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.send_header("mcp-session-id", self.headers.get("mcp-session-id") or f"server-{time.monotonic_ns()}")
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            stream = mcp.script().get("stream", [])
            data = _events([json.dumps(one) for one in stream])
            self.send_response(200 if stream else 405)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_DELETE(self) -> None:
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"listening on http://127.0.0.1:{server.server_port}/mcp", flush=True)
    server.serve_forever()


def _events(said: list[str]) -> bytes:
    return "".join(f"event: message\ndata: {text}\n\n" for text in said).encode()


if __name__ == "__main__":
    server = ScriptedMcp(Path(f"{sys.argv[1]}.json"))
    if "http" in sys.argv[2:]:
        serve_http(server)
    else:
        serve_stdio(server)
