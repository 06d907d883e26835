"""MCP over stdio for the example servers, by hand: one JSON-RPC message a line, both protocol eras.

Handshake era (up to 2025-11-25): `initialize` first. Modern era (2026-07-28): `server/discover`, and every request says
its version in `params._meta`; results then carry `resultType`, and in `_meta` who the server is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, Final

from callgate_demo.notes import Notes
from callgate_demo.tool import ExampleTool, ToolError

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"
MAX_LINE: Final = 1_000_000

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
UNSUPPORTED_VERSION: Final = -32022

_CACHED: Final = {"ttlMs": 0, "cacheScope": "public"}


class RpcError(Exception):
    """An answer with an error in it."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.value: dict[str, Any] = {"code": code, "message": message} | ({"data": data} if data else {})


class ToolServer:
    """Answers one client, or many through a gateway: it keeps no state but its folder.

    `tools` is asked for every list and call, so that a server can change what it says of a tool.
    """

    def __init__(self, name: str, tools: Callable[[], Mapping[str, ExampleTool]]) -> None:
        self._tools = tools
        info = {"name": f"callgate-demo-{name}", "version": "1"}
        self._about = {"capabilities": {"tools": {}}, "serverInfo": info}
        # Where nobody shakes hands, every result says whose it is.
        self._stamp = {"io.modelcontextprotocol/serverInfo": info}

    def serve(self, lines: BinaryIO, out: BinaryIO) -> None:
        """Answer line by line until the client closes its end."""
        while line := lines.readline(MAX_LINE + 1):
            whole = line
            while len(whole) > MAX_LINE and not whole.endswith(b"\n"):
                # The rest of a line that is too long must not be read as a message of its own.
                whole = lines.readline(MAX_LINE + 1) or b"\n"
            out.writelines(json.dumps(reply, separators=(",", ":")).encode() + b"\n" for reply in self.answers(line))
            out.flush()

    def answers(self, line: bytes) -> Iterable[dict[str, Any]]:
        """The replies to one line: none to a notification, several to a batch (2025-03-26)."""
        if len(line) > MAX_LINE:
            yield _reply(None, error=RpcError(INVALID_REQUEST, "the message is too long").value)
            return
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            yield _reply(None, error=RpcError(PARSE_ERROR, "Parse error").value)
            return
        for one in message if isinstance(message, list) else [message]:
            reply = self._answer(one)
            if reply is not None:
                yield reply

    def _answer(self, message: Any) -> dict[str, Any] | None:
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return _reply(None, error=RpcError(INVALID_REQUEST, "Invalid request").value)
        if "id" not in message:
            return None
        params = message.get("params", {})
        try:
            if not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "params has to be an object")
            modern = _is_modern(params)
            result = self._result(message["method"], params)
        except RpcError as error:
            return _reply(message["id"], error=error.value)
        if modern:
            cached = _CACHED if message["method"] in ("server/discover", "tools/list") else {}
            result = {"resultType": "complete", **cached, **result, "_meta": {**result.get("_meta", {}), **self._stamp}}
        return _reply(message["id"], result=result)

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/call":
            return self._call(params)
        if method == "tools/list":
            return {"tools": [tool.listed() for tool in self._tools().values()]}
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {"protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[0], **self._about}
        if method == "server/discover":
            return {"supportedVersions": [MODERN, *HANDSHAKE], **self._about}
        if method == "ping":
            return {}
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments", {})
        tool = self._tools().get(name) if isinstance(name, str) else None
        if tool is None or not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "Unknown tool" if tool is None else "arguments has to be an object")
        try:
            text, failed = tool.call(arguments), False
        except ToolError as error:
            text, failed = str(error), True
        label = None if failed else tool.label(text)
        about = {} if label is None else {"_meta": {"annotations": label}}
        return {"content": [{"type": "text", "text": text}], "isError": failed, **about}


class NotesServer(ToolServer):
    """The notes of one folder."""

    def __init__(self, notes: Notes) -> None:
        super().__init__("notes", notes.tools)


def _is_modern(params: dict[str, Any]) -> bool:
    meta = params.get("_meta")
    asked = meta.get(VERSION_META) if isinstance(meta, dict) else None
    if asked is not None and asked != MODERN and asked not in HANDSHAKE:
        raise RpcError(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            {"supported": [MODERN, *HANDSHAKE], "requested": str(asked)[:40]},
        )
    return bool(asked == MODERN)


def _reply(rpc_id: Any, **outcome: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rpc_id, **outcome}
