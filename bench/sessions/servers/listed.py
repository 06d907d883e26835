"""A server whose tools stand in a file: `python listed.py TOOLS.toml STATE.json`. It does nothing, and answers what its
state has for the tool.

It speaks the protocol by itself, so that an answer can be anything: structure without a text, an error, a link to a
resource, and notifications that come before it.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

TOOLS: dict[str, Any] = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
STATE = Path(sys.argv[2])
_TYPES = {"text": "string", "count": "number", "whole": "integer", "switch": "boolean", "any": "object"}


def _schema(arguments: dict[str, Any]) -> dict[str, Any]:
    """`name = "text: what it is"`, or `{ ... }` as it stands; `texts` is a list of them."""
    properties: dict[str, Any] = {}
    for name, said in arguments.items():
        if isinstance(said, dict):
            properties[name] = said
            continue
        kind, _, about = said.partition(":")
        one: dict[str, Any] = {"type": "array", "items": {"type": "string"}} if kind == "texts" else {}
        properties[name] = (one or {"type": _TYPES[kind]}) | ({"description": about.strip()} if about.strip() else {})
    return {"type": "object", "properties": properties}


def listed() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "description": tool["about"],
            "inputSchema": _schema(tool.get("arguments", {})),
            **({"annotations": tool["annotations"]} if "annotations" in tool else {}),
        }
        for name, tool in TOOLS["tool"].items()
    ]


def called(name: str) -> dict[str, Any]:
    """The result, after the notifications that come with it."""
    known: dict[str, Any] = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    answer: Any = known.get(name, TOOLS["tool"][name].get("answer", "Done."))
    if isinstance(answer, str):
        return {"content": [{"type": "text", "text": answer}]}
    result = dict(answer)
    for params in result.pop("before", []):
        say({"method": "notifications/message", "params": params})
    return {"content": [], **result}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        number, method, params = message["id"], message["method"], message.get("params", {})
        if method == "initialize":
            about = {"name": TOOLS["name"], "version": TOOLS["version"]}
            said: dict[str, Any] = {"tools": {}, "logging": {}}
            version = params["protocolVersion"]
            say({"id": number, "result": {"protocolVersion": version, "capabilities": said, "serverInfo": about}})
        elif method == "tools/list":
            say({"id": number, "result": {"tools": listed()}})
        elif method == "tools/call" and params["name"] in TOOLS["tool"]:
            say({"id": number, "result": called(params["name"])})
        elif method == "ping":
            say({"id": number, "result": {}})
        else:
            say({"id": number, "error": {"code": -32601, "message": "not offered"}})


if __name__ == "__main__":
    main()
