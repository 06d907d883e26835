"""A server whose tools, annotations and results a test writes down: `python -m tests.support.office FILE`, over stdio.

FILE is JSON: `{"name", "tools": [entries], "results": {tool: result or [result, …]}, "answers": {method: result}}`. It is
read anew for each request. Every message that arrives is appended to FILE.seen, one JSON text a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: Path) -> None:
    """Serve until the client is gone."""
    seen = Path(f"{path}.seen")
    counts: dict[str, int] = {}
    for line in sys.stdin.buffer:
        message = json.loads(line)
        with seen.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")
        if "id" not in message or "method" not in message:
            continue
        reply = answer(json.loads(path.read_text(encoding="utf-8")), message, counts)
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
        sys.stdout.flush()


def answer(script: dict[str, Any], message: dict[str, Any], counts: dict[str, int]) -> dict[str, Any]:
    """The result or error that the script has for a request."""
    method, params = message["method"], message.get("params") or {}
    if method in script.get("answers", {}):
        return {"result": script["answers"][method]}
    if method == "initialize":
        info = {"name": script.get("name", "office"), "version": "1"}
        version = params.get("protocolVersion", "2025-11-25")
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": script.get("tools", [])} | _modern(params)}
    if method == "tools/call":
        name = params.get("name", "")
        result = script.get("results", {}).get(name, {"content": [{"type": "text", "text": "done"}]})
        if isinstance(result, list):
            at = counts.get(name, 0)
            counts[name] = at + 1
            result = result[min(at, len(result) - 1)]
        return {"result": result | _modern(params)}
    return {"error": {"code": -32601, "message": "no such method"}}


def _modern(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta") or {}
    return {"resultType": "complete"} if "io.modelcontextprotocol/protocolVersion" in meta else {}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
