"""Servers in the style of hosted ones: `python hosted.py NAME STATE.json`; the tools stand in catalogue.json.

They do nothing. An answer is what STATE.json has for the tool at the time of the call, or else the tool's own.
Arguments are checked against the schema as far as names, required ones and plain types go, so that a broken call shows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SERVERS: dict[str, Any] = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
_TYPES: dict[str, Any] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
}


def wrong(schema: dict[str, Any], given: dict[str, Any]) -> str:
    known = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in given:
            return f"missing required argument {name}"
    for name, value in given.items():
        if name not in known:
            return f"unexpected argument {name}"
        kind = known[name].get("type")
        if kind and not isinstance(value, _TYPES[kind]):
            return f"{name} must be {kind}"
        if "enum" in known[name] and value not in known[name]["enum"]:
            return f"{name} must be one of {known[name]['enum']}"
    return ""


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def main() -> None:
    server, state = SERVERS[sys.argv[1]], Path(sys.argv[2])
    tools = {one["name"]: one for one in server["tools"]}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        number, method, params = message["id"], message["method"], message.get("params", {})
        if method == "initialize":
            about = {"name": server["name"], "version": server["version"]}
            result: dict[str, Any] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": about,
            }
            if "instructions" in server:
                result["instructions"] = server["instructions"]
            say({"id": number, "result": result})
        elif method == "tools/list":
            shown = [{key: value for key, value in one.items() if key != "answer"} for one in tools.values()]
            say({"id": number, "result": {"tools": shown}})
        elif method == "tools/call" and params["name"] in tools:
            tool = tools[params["name"]]
            if why := wrong(tool["inputSchema"], params.get("arguments") or {}):
                say(
                    {
                        "id": number,
                        "result": {"isError": True, "content": [{"type": "text", "text": f"Invalid input: {why}"}]},
                    }
                )
                continue
            known = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
            answer = known.get(tool["name"], tool["answer"])
            if isinstance(answer, dict) and ("content" in answer or "structuredContent" in answer):
                say({"id": number, "result": {"content": [], **answer}})
                continue
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            say({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
        elif method == "ping":
            say({"id": number, "result": {}})
        else:
            say({"id": number, "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    main()
