"""The scripted agent: an MCP client of the 2026-07-28 protocol that does what it reads, as a model might.

It knows one address and believes every word. It has not heard of Callgate.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

import aiohttp
import msgspec

VERSION: Final = "2026-07-28"
_PREFIX: Final = "io.modelcontextprotocol"


class ListingFailed(Exception):
    """The list of tools could not be had."""


class CallResult(msgspec.Struct, frozen=True):
    """What came back for a call: a text, and the reason if it was refused on its way."""

    text: str
    reason: str = ""
    failed: bool = False

    @property
    def done(self) -> bool:
        return not self.reason and not self.failed


class ScriptedAgent:
    """One conversation, over however many servers."""

    def __init__(self, address: str, http: aiohttp.ClientSession) -> None:
        self._address = address
        self._http = http
        self._conversation = uuid.uuid4().hex

    async def tools(self, server: str) -> list[str]:
        """The names of the tools that it may know of."""
        message = await self._ask(server, "tools/list", {})
        if "result" not in message:
            raise ListingFailed(f"{server} does not list its tools: {message['error']['message']}")
        return [tool["name"] for tool in message["result"]["tools"]]

    async def call(self, server: str, tool: str, **arguments: str) -> CallResult:
        message = await self._ask(server, "tools/call", {"name": tool, "arguments": arguments})
        if "error" in message:
            error = message["error"]
            data = error.get("data")
            reason = data.get("reason") if isinstance(data, dict) else None
            return CallResult(str(error["message"]), str(reason or error["code"]))
        result = message["result"]
        text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
        return CallResult(text, failed=bool(result.get("isError")))

    async def _ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        headers |= {"Mcp-Method": method} | ({"Mcp-Name": params["name"]} if "name" in params else {})
        meta = {
            f"{_PREFIX}/protocolVersion": VERSION,
            f"{_PREFIX}/clientCapabilities": {},
            f"{_PREFIX}/clientInfo": {"name": "demo-agent", "version": "1"},
            # So that what it read in an earlier conversation is not taken for part of this one.
            "dev.callgate/session": self._conversation,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        async with self._http.post(f"{self._address}/servers/{server}/mcp", json=message, headers=headers) as reply:
            if reply.content_type == "text/event-stream":
                return await _last(reply.content)
            answer: dict[str, Any] = json.loads(await reply.read())
            return answer


async def _last(stream: aiohttp.StreamReader) -> dict[str, Any]:
    """The answer at the end of a stream; before it come progress, and lines that only keep it open."""
    async for line in stream:
        if line.startswith(b"data:"):
            message = json.loads(line.removeprefix(b"data:"))
            if "result" in message or "error" in message:
                found: dict[str, Any] = message
                return found
    raise aiohttp.ServerDisconnectedError("the stream ended without an answer")
