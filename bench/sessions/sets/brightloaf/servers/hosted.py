"""A hosted-style server: `python hosted.py TOOLS.toml STATE.json`. It answers from its state.

State: {tool: answer} or {tool: [{"if": {argument: part of its text}, "say": answer}, ...]}; $name in a table's own
answer is an argument. An answer is a text, or {"json": anything}, or a whole result.
"""

from __future__ import annotations

import json
import string
import sys
import tomllib
from pathlib import Path
from typing import Any

TOOLS: dict[str, Any] = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
STATE = Path(sys.argv[2])
KINDS = {"text": "string", "number": "number", "whole": "integer", "switch": "boolean", "any": "object"}


def schema(arguments: dict[str, Any]) -> dict[str, Any]:
    """`name = "text! What it is"`: the mark says that it is required; `a|b|c` is a choice."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, said in arguments.items():
        if isinstance(said, dict):
            properties[name] = said
            continue
        kind, _, about = said.partition(" ")
        if kind.endswith("!"):
            required.append(name)
            kind = kind[:-1]
        if kind == "texts":
            one: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
        elif kind == "list":
            one = {"type": "array", "items": {"type": "object"}}
        elif "|" in kind:
            one = {"type": "string", "enum": kind.split("|")}
        else:
            one = {"type": KINDS[kind]}
        properties[name] = one | ({"description": about} if about else {})
    return {"type": "object", "properties": properties, "required": required}


def listed() -> list[dict[str, Any]]:
    found = []
    for name, tool in TOOLS["tool"].items():
        one = {"name": name, "description": tool["about"], "inputSchema": schema(tool.get("args", {}))}
        hints = {
            "r": {"readOnlyHint": True},
            "w": {"readOnlyHint": False, "destructiveHint": False},
            "d": {"readOnlyHint": False, "destructiveHint": True},
        }.get(tool.get("hint", ""))
        if hints is not None:
            one["annotations"] = (
                hints
                | ({"openWorldHint": True} if tool.get("open") else {})
                | ({"title": tool["title"]} if "title" in tool else {})
            )
        found.append(one)
    return found


def result(name: str, given: dict[str, Any]) -> dict[str, Any]:
    tool = TOOLS["tool"][name]
    missing = [one for one in schema(tool.get("args", {}))["required"] if one not in given]
    unknown = [one for one in given if one not in tool.get("args", {})]
    if missing or unknown:
        return {
            "isError": True,
            "content": [{"type": "text", "text": f"invalid arguments: missing {missing}, unknown {unknown}"}],
        }
    known: dict[str, Any] = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    answer: Any = known.get(name)
    if isinstance(answer, list):
        fits = [
            one["say"]
            for one in answer
            if all(
                str(part).lower() in json.dumps(given.get(key, ""), ensure_ascii=False).lower()
                for key, part in one.get("if", {}).items()
            )
        ]
        answer = fits[0] if fits else None
        if answer is None and tool.get("hint") == "r":
            answer = "No results."
    if answer is None:
        flat = {key: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for key, one in given.items()}
        answer = string.Template(tool.get("answer", '{"ok": true}')).safe_substitute(flat)
    if isinstance(answer, str):
        return {"content": [{"type": "text", "text": answer}]}
    if "json" in answer:
        text = json.dumps(answer["json"], ensure_ascii=False, indent=1)
        return {
            "content": [{"type": "text", "text": text}],
            **({"structuredContent": answer["json"]} if answer.get("structured") else {}),
        }
    return {"content": [], **answer}


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
            say(
                {
                    "id": number,
                    "result": {
                        "protocolVersion": params["protocolVersion"],
                        "capabilities": {"tools": {}},
                        "serverInfo": about,
                    },
                }
            )
        elif method == "tools/list":
            say({"id": number, "result": {"tools": listed()}})
        elif method == "tools/call" and params["name"] in TOOLS["tool"]:
            say({"id": number, "result": result(params["name"], params.get("arguments", {}))})
        elif method == "ping":
            say({"id": number, "result": {}})
        else:
            say({"id": number, "error": {"code": -32601, "message": "not offered"}})


if __name__ == "__main__":
    main()
