"""A server with dangerous tools that remembers all it was sent: `python vault.py stdio|http DIRECTORY [OPTION…]`.

Both eras, over stdio and over HTTP. DIRECTORY/received has every message, one a line. Over HTTP it prints its address.
Options: `capable` declares the capability of SEP-2672 (with a sub-field), `paged` lists one tool a page, `events`
answers calls over HTTP with a stream, `mute` never answers tools/list, `listless` has no tools/list, `spaced` writes
JSON with blanks, `slashes` escapes slashes, `shy` declares the capability only to clients that do, `bank` has a tool
`transfer`.
Few imports: a test starts many of these.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

MARK = "io.modelcontextprotocol/verified-approval"
MODERN = "2026-07-28"
HINTS = {"destructiveHint": True, "readOnlyHint": False}
LOOK = {"annotations": {"readOnlyHint": True}}


def tool(name: str, mark: Any = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "number"}}}
    entry = {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}
    return entry if mark is None else entry | {"_meta": {"dev.example/kept": name, MARK: mark}}


TOOLS = [
    tool("look", **LOOK),
    tool("wipe", annotations=HINTS, _meta={"dev.example/kept": "wipe"}),
    tool("wipe_all"),
    tool("danger", annotations=HINTS),
    tool("pay", {"required": "verified", "future": {"x": 1}}),
    tool("pay_here", {"required": "verified", "authenticatorClass": "platform"}),
    tool("odd", {"required": "twice"}),
    tool("classy", {"required": "verified", "authenticatorClass": "quantum"}),
    tool("quiz"),
    tool("grow"),
]
# Of a vault with the option `bank`.
TRANSFER = {
    "name": "transfer",
    "description": "Send money to an account.",
    "annotations": HINTS,
    "inputSchema": {
        "type": "object",
        "required": ["to", "amount"],
        "properties": {"to": {"type": "string"}, "amount": {"type": "number"}, "reference": {"type": "string"}},
    },
}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class Vault:
    """What it says to each message."""

    def __init__(self, directory: Path, options: set[str]) -> None:
        self._received = (directory / "received").open("ab", buffering=0)
        self._options = options
        self._lock = threading.Lock()
        self.ran: list[Any] = []
        # After a call of `grow`, which says so, `look` is marked.
        self.grown = False

    def note(self, raw: bytes) -> None:
        with self._lock:
            self._received.write(raw.replace(b"\n", b" ").strip() + b"\n")

    def answer(self, message: Any) -> Any:
        if isinstance(message, list):
            return [reply for reply in map(self.answer, message) if reply is not None]
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message or method is None:
            return None
        if method == "tools/list" and "mute" in self._options:
            return None
        result = self._result(method, params)
        if isinstance(result, int):
            error = {"code": result, "message": "no such method"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | int:
        modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
        asked = (params.get("capabilities") or {}).get("extensions")
        shy = "shy" in self._options and bool(asked)
        extensions = {"extensions": {"verifiedApproval": {"later": True}}} if "capable" in self._options or shy else {}
        about = {"capabilities": {"tools": {"listChanged": True}, **extensions}}
        about["serverInfo"] = {"name": "vault", "version": "1"}
        if method == "initialize":
            return {"protocolVersion": params["protocolVersion"], **about}
        if method == "server/discover":
            return {"supportedVersions": [MODERN, "2025-11-25"], **about, **cached}
        if method == "tools/list" and "listless" not in self._options:
            return self._page(params.get("cursor")) | cached
        if method == "tools/call":
            return self._call(params, modern)
        return {} if method == "ping" else -32601

    def _page(self, cursor: str | None) -> dict[str, Any]:
        late = [tool("late", {"required": "verified"})]
        tools = [tool("look", {"required": "verified"}, **LOOK), *TOOLS[1:], *late] if self.grown else TOOLS
        tools = [*tools, TRANSFER] if "bank" in self._options else tools
        if "paged" not in self._options:
            return {"tools": tools}
        at = int(cursor or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(tools) else {}
        return {"tools": [tools[at]], **more}

    def _call(self, params: dict[str, Any], modern: bool) -> dict[str, Any]:
        if params["name"] == "quiz" and modern and "inputResponses" not in params:
            question = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
            wanted = {"sure": {"method": "elicitation/create", "params": question}}
            return {"resultType": "input_required", "inputRequests": wanted, "requestState": "the vault's own"}
        self.ran.append(params.get("arguments"))
        self.grown = self.grown or params["name"] == "grow"
        text = json.dumps({"ran": params["name"], "times": len(self.ran)})
        complete = {"resultType": "complete"} if modern else {}
        return {"content": [{"type": "text", "text": text}], "isError": False, **complete}

    def asides(self, message: Any) -> list[dict[str, Any]]:
        """What it says of its own accord before it answers."""
        params = message.get("params") if isinstance(message, dict) else None
        return [CHANGED] if isinstance(params, dict) and params.get("name") == "grow" else []

    def dump(self, message: Any) -> bytes:
        spaces = (", ", ": ") if "spaced" in self._options else (",", ":")
        text = json.dumps(message, separators=spaces)
        return (text.replace("/", "\\/") if "slashes" in self._options else text).encode()


def serve_stdio(vault: Vault) -> None:
    for line in sys.stdin.buffer:
        vault.note(line)
        message = json.loads(line)
        reply = vault.answer(message)
        if reply is not None:
            lines = [*vault.asides(message), reply]
            sys.stdout.buffer.write(b"".join(vault.dump(one) + b"\n" for one in lines))
            sys.stdout.buffer.flush()


def serve_http(vault: Vault, options: set[str]) -> None:
    # Only here: it takes longer to load than all the rest.
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            vault.note(body)
            message = json.loads(body)
            reply = vault.answer(message)
            first = message if isinstance(message, dict) else message[0]
            if reply is None:
                if first.get("method") == "tools/list":
                    time.sleep(30)
                self.send_response(202)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            data = vault.dump(reply)
            stream = "events" in options
            if stream:
                said = [*map(vault.dump, vault.asides(message)), data]
                data = b"".join(b"id: 7\nevent: message\ndata: " + one + b"\n\n" for one in said)
            unknown = isinstance(reply, dict) and reply.get("error", {}).get("code") == -32601
            self.send_response(404 if unknown else 200)
            self.send_header("content-type", "text/event-stream" if stream else "application/json")
            self.send_header("content-length", str(len(data)))
            if first.get("method") == "initialize":
                self.send_header("mcp-session-id", f"vault-{time.monotonic_ns()}")
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()

        do_DELETE = do_GET

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"listening on http://127.0.0.1:{server.server_port}/mcp", flush=True)
    server.serve_forever()


def main() -> None:
    transport, directory, *words = sys.argv[1:]
    options = set(words)
    vault = Vault(Path(directory), options)
    if transport == "stdio":
        serve_stdio(vault)
    else:
        serve_http(vault, options)


if __name__ == "__main__":
    main()
