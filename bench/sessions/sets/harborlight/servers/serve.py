"""Serves a table of tools: `python serve.py TABLE.toml STATE.json`; nothing that is called is really done.

The state says what a tool answers: a text, {"data": anything}, a whole result with "content", or a list of
{"when": {argument: a part of it}, "then": one of these}, of which the first that fits counts. Where the state says
nothing, the table's own answer counts, in which <name> is an argument.
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
HINTS = {
    "R": {"readOnlyHint": True},
    "RO": {"readOnlyHint": True, "openWorldHint": True},
    "RC": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    "W": {"readOnlyHint": False, "destructiveHint": False},
    "WO": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": True},
    "WI": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
    "N": {"readOnlyHint": False},
    "D": {"readOnlyHint": False, "destructiveHint": True},
    "DO": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
}


def property_of(said: str) -> tuple[dict[str, Any], bool]:
    """`string! What it is`: a type of JSON schema or a|b|c, `[]` for a list of these, `!` if it is required."""
    kind, _, about = said.partition(" ")
    required = kind.endswith("!")
    kind = kind.rstrip("!")
    inner = kind.removesuffix("[]")
    one: dict[str, Any] = {"type": "string", "enum": inner.split("|")} if "|" in inner else {"type": inner}
    if inner == "rows":
        one = {"type": "array", "items": {"type": "array", "items": {}}}
    if kind.endswith("[]"):
        one = {"type": "array", "items": one}
    return one | ({"description": about} if about else {}), required


def schema_of(tool: dict[str, Any]) -> dict[str, Any]:
    found = {name: property_of(said) for name, said in tool.get("in", {}).items()}
    return {
        "type": "object",
        "properties": {name: one for name, (one, _) in found.items()},
        "required": [name for name, (_, required) in found.items() if required],
    }


def listed(name: str, tool: dict[str, Any]) -> dict[str, Any]:
    one: dict[str, Any] = {"name": name, "description": tool["text"], "inputSchema": schema_of(tool)}
    if "title" in tool:
        one["title"] = tool["title"]
    if "hint" in tool:
        one["annotations"] = HINTS[tool["hint"]]
    return one


def fits(when: dict[str, str], given: dict[str, Any]) -> bool:
    return all(part.lower() in json.dumps(given.get(key), ensure_ascii=False).lower() for key, part in when.items())


def answer_to(name: str, given: dict[str, Any]) -> Any:
    state = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    found = state.get(name)
    if isinstance(found, list):
        found = next((one["then"] for one in found if fits(one.get("when", {}), given)), None)
    if found is not None:
        return found

    def put(match: re.Match[str]) -> str:
        value = given.get(match[1], "")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return re.sub(r"<(\w+)>", put, TABLE["tools"][name].get("out", "[]"))


def result_of(name: str, given: dict[str, Any]) -> dict[str, Any]:
    schema = schema_of(TABLE["tools"][name])
    wrong = [one for one in schema["required"] if one not in given] + [
        one for one in given if one not in schema["properties"]
    ]
    if wrong:
        return {"content": [{"type": "text", "text": f"Invalid arguments for {name}: {wrong}"}], "isError": True}
    answer = answer_to(name, given)
    if isinstance(answer, str):
        return {"content": [{"type": "text", "text": answer}]}
    if "data" in answer:
        return {"content": [{"type": "text", "text": json.dumps(answer["data"], ensure_ascii=False, indent=2)}]}
    return dict(answer)


def replied(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": TABLE["name"], "version": TABLE["version"]}
        version = params["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [listed(name, tool) for name, tool in TABLE["tools"].items()]}}
    if method == "tools/call" and params.get("name") in TABLE["tools"]:
        return {"result": result_of(params["name"], params.get("arguments") or {})}
    return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **replied(message["method"], message.get("params") or {})}
            print(json.dumps(reply, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
