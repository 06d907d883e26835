"""`python tabled.py TABLE.toml STATE.json`: a server whose tools stand in a table, and whose answers in its state.

In a table: `p` has the parameters, `name = "s* about"`: s text, i whole, n number, b switch, S texts, L objects,
O object, `a|b` a choice; the star says that it is required. `a` are annotations: r reads, w writes, d destroys,
m may be repeated, o open world, c closed world. `out` is the answer where the state has none; $name is an argument.
State: {tool: [[{argument: part of it}, answer], ...]} or {tool: answer}; an answer is a text, or anything as JSON.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

TABLE: dict[str, Any] = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
STATE = Path(sys.argv[2])
TYPES: dict[str, dict[str, Any]] = {
    "s": {"type": "string"},
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "b": {"type": "boolean"},
    "S": {"type": "array", "items": {"type": "string"}},
    "L": {"type": "array", "items": {"type": "object"}},
    "O": {"type": "object"},
}
HINTS = {
    "r": {"readOnlyHint": True},
    "w": {"readOnlyHint": False, "destructiveHint": False},
    "d": {"readOnlyHint": False, "destructiveHint": True},
    "m": {"idempotentHint": True},
    "o": {"openWorldHint": True},
    "c": {"openWorldHint": False},
}


def parameters(tool: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    found: dict[str, Any] = {}
    needed = []
    for name, said in tool.get("p", {}).items():
        kind, _, about = said.partition(" ")
        if kind.endswith("*"):
            needed.append(name)
            kind = kind[:-1]
        one = dict(TYPES[kind]) if kind in TYPES else {"type": "string", "enum": kind.split("|")}
        found[name] = {**one, "description": about} if about else one
    return found, needed


def tools() -> list[dict[str, Any]]:
    found = []
    for name, tool in TABLE["tools"].items():
        properties, needed = parameters(tool)
        inputs: dict[str, Any] = {"type": "object", "properties": properties}
        if needed:
            inputs["required"] = needed
        one: dict[str, Any] = {"name": name, "description": tool["d"], "inputSchema": inputs}
        if "a" in tool or "title" in tool:
            one["annotations"] = {"title": tool["title"]} if "title" in tool else {}
            for letter in tool.get("a", ""):
                one["annotations"] |= HINTS[letter]
        found.append(one)
    return found


def wrong(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
    tool = TABLE["tools"].get(name)
    if tool is None:
        return wrong(f"Unknown tool: {name}")
    properties, needed = parameters(tool)
    bad = [one for one in needed if one not in given] + [one for one in given if one not in properties]
    for one in given.keys() & properties.keys():
        fit: dict[str, Any] = {
            "string": str,
            "integer": int,
            "number": (int, float),
            "boolean": bool,
            "array": list,
            "object": dict,
        }
        if not isinstance(given[one], fit[properties[one]["type"]]) or given[one] not in properties[one].get(
            "enum", [given[one]]
        ):
            bad.append(one)
    if bad:
        return wrong(f"Input validation error: {', '.join(bad)}")
    known: dict[str, Any] = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    answer = known.get(name)
    if isinstance(answer, list) and all(isinstance(one, list) and len(one) == 2 for one in answer):
        flat = {key: json.dumps(one, ensure_ascii=False).lower() for key, one in given.items()}
        fits = (
            say for when, say in answer if all(str(part).lower() in flat.get(key, "") for key, part in when.items())
        )
        answer = next(fits, None)
    if answer is None:
        answer = re.sub(r"\$(\w+)", lambda found: _shown(given.get(found[1], "")), tool.get("out", "Nothing found."))
    if isinstance(answer, dict) and "isError" in answer:
        return wrong(answer["text"])
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, indent=2)
    return {"content": [{"type": "text", "text": text}]}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def answered(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": TABLE["name"], "version": TABLE["version"]}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": tools()}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}))
    return {} if method == "ping" else None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        given = answered(asked["method"], asked.get("params", {}))
        rest = {"error": {"code": -32601, "message": "Method not found"}} if given is None else {"result": given}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **rest}, ensure_ascii=False), flush=True)
