"""A small MCP server with verified approval, written on the bare wire in both eras, that remembers all it was sent.

It verifies with the real service, and can be made to say anything else. As a program it speaks stdio:
`python -m support.sep_server RECORDS`, and writes every message it gets to the file RECORDS.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from aiohttp import web

from callgate.approval.model import ApprovalSettings, Gated, RelyingParty
from callgate.approval.service import Approvals
from callgate.canonical import canonical
from callgate.errors import Refused
from callgate.protocol import CAPABILITY, CHALLENGE_CREATE, ENROLL_BEGIN, ENROLL_FINISH, META
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.store import MemoryStore, SqlApprovals

Message: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Message], Awaitable[dict[str, Any]]]

USER: Final = "ann"
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "resourceId": {"type": "string"},
        "force": {"type": "boolean", "default": False},
        "more": {},
    },
    "required": ["resourceId"],
}


def tool(name: str, mark: Any = None, **more: Any) -> dict[str, Any]:
    """A listing entry; `mark` is the annotation."""
    entry = {"name": name, "inputSchema": SCHEMA, **more}
    return entry if mark is None else entry | {"_meta": {META: mark}}


class RpcError(Exception):
    """An error to answer with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Drop(Exception):
    """End the connection without an answer."""


class SepServer:
    """`records` has every message in order, `replies` every answer; `instead` maps a method to what answers it instead of the server."""

    def __init__(
        self,
        *,
        capabilities: dict[str, Any] | None = None,
        settings: ApprovalSettings | None = None,
        origin: str = "http://localhost:*",
    ) -> None:
        self.tools = [tool("delete_resource", {"required": "verified"}), tool("read_resource")]
        self.page_size = 100
        self.capabilities = {CAPABILITY: {}} if capabilities is None else capabilities
        self.records: list[Message] = []
        self.replies: list[Message] = []
        self.ran: list[tuple[str, Any]] = []
        self.instead: dict[str, Handler] = {}
        self.notify: list[asyncio.Queue[Message]] = []
        self.ttl_ms = 0
        party = RelyingParty(id="localhost", origins=(origin,))
        self.approvals = Approvals(SqlApprovals(MemoryStore()), party, settings or ApprovalSettings(first_use=True))

    async def enrol(self, software: SoftwareAuthenticator) -> None:
        """Enrol a passkey without the wire."""
        begun = await self.approvals.begin_enrolment(None, first_use=USER)
        await self.approvals.finish_enrolment(software.create(begun["options"]))

    def sent(self, method: str) -> list[Message]:
        """The params of every request of a method, in order."""
        return [record.get("params", {}) for record in self.records if record["method"] == method]

    @property
    def methods(self) -> list[str]:
        """Every method but those of the connection itself."""
        own = ("initialize", "server/discover", "notifications/")
        return [record["method"] for record in self.records if not record["method"].startswith(own)]

    async def announce(self, method: str) -> None:
        """Tell every client that listens."""
        for queue in self.notify:
            queue.put_nowait({"jsonrpc": "2.0", "method": method})

    async def answer(self, message: Message) -> Message | None:
        """The reply to a message; None to a notification."""
        self.records.append(message)
        reply = await self._answer(message)
        if reply is not None:
            self.replies.append(reply)
        return reply

    async def _answer(self, message: Message) -> Message | None:
        if "id" not in message:
            return None
        method = message["method"]
        handler = self.instead.get(method) or self._handlers.get(method)
        head = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            if handler is None:
                raise RpcError(-32601, "Method not found")
            return head | {"result": await handler(message)}
        except RpcError as error:
            return head | {"error": error.error}
        except Refused as refused:
            data = {"reason": refused.reason.value, **refused.data}
            return head | {"error": {"code": refused.code, "message": refused.message, "data": data}}

    @property
    def _handlers(self) -> dict[str, Handler]:
        return {
            "initialize": self.initialize,
            "server/discover": self.discover,
            "tools/list": self.list_tools,
            "tools/call": self.call,
            CHALLENGE_CREATE: self.challenge,
            ENROLL_BEGIN: self.begin,
            ENROLL_FINISH: self.finish,
        }

    async def initialize(self, _message: Message) -> dict[str, Any]:
        capabilities = {"tools": {"listChanged": True}, "extensions": self.capabilities}
        about = {"name": "sep", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}

    async def discover(self, _message: Message) -> dict[str, Any]:
        capabilities = {"tools": {"listChanged": True}, "extensions": self.capabilities}
        return self._complete({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})

    async def list_tools(self, message: Message) -> dict[str, Any]:
        start = int(message.get("params", {}).get("cursor", 0))
        end = start + self.page_size
        page: dict[str, Any] = {"tools": self.tools[start:end]}
        if end < len(self.tools):
            page["nextCursor"] = str(end)
        return self._complete(page)

    async def challenge(self, message: Message) -> dict[str, Any]:
        params = message["params"]
        arguments = params["arguments"]
        gated = self.gated(params["toolName"])
        issued = await self.approvals.challenge(gated, arguments, canonical(arguments), USER)
        return self._complete(issued.result)

    async def call(self, message: Message) -> dict[str, Any]:
        params = message["params"]
        name, arguments = params["name"], params.get("arguments", {})
        entry = next((entry for entry in self.tools if entry["name"] == name), None)
        if entry is not None and META in entry.get("_meta", {}):
            evidence = params.get("_meta", {}).get(META)
            verified = await self.approvals.verify(self.gated(name), arguments, canonical(arguments), evidence)
            await self.approvals.shelf.use(verified.use)
        self.ran.append((name, arguments))
        return self._complete({"content": [{"type": "text", "text": f"{name} done"}]})

    async def begin(self, _message: Message) -> dict[str, Any]:
        return self._complete(await self.approvals.begin_enrolment(None, first_use=USER))

    async def finish(self, message: Message) -> dict[str, Any]:
        return self._complete((await self.approvals.finish_enrolment(message["params"]["response"])).result)

    def gated(self, name: str) -> Gated:
        return Gated(server="sep", server_id="6f1c9c5e-sep", tool=name)

    def _complete(self, result: dict[str, Any]) -> dict[str, Any]:
        return result | {"resultType": "complete", "ttlMs": self.ttl_ms, "cacheScope": "private"}


@contextlib.asynccontextmanager
async def serving(server: SepServer) -> AsyncIterator[str]:
    """The server over Streamable HTTP; its address."""

    async def post(request: web.Request) -> web.StreamResponse:
        message = await request.json()
        try:
            reply = await server.answer(message)
        except Drop:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=500)
        headers = {"Mcp-Session-Id": "one"} if message["method"] == "initialize" else {}
        return web.Response(status=202) if reply is None else web.json_response(reply, headers=headers)

    async def get(request: web.Request) -> web.StreamResponse:
        queue: asyncio.Queue[Message] = asyncio.Queue()
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        server.notify.append(queue)
        while True:
            await stream.write(f"data: {json.dumps(await queue.get())}\n\n".encode())

    async def delete(_request: web.Request) -> web.StreamResponse:
        return web.Response()

    app = web.Application(client_max_size=2**24)
    app.add_routes([web.post("/mcp", post), web.get("/mcp", get), web.delete("/mcp", delete)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


def stdio_argv(records: Path, *, enrolled: bool = False) -> list[str]:
    """The command that runs the server over stdio; `enrolled` gives it a passkey that nobody has."""
    return [sys.executable, str(Path(__file__)), str(records), *(["enrolled"] if enrolled else [])]


async def _speak(records: Path, *, enrolled: bool) -> None:
    server = SepServer()
    if enrolled:
        await server.enrol(SoftwareAuthenticator())
    loop = asyncio.get_running_loop()
    with records.open("ab", buffering=0) as log:
        while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
            log.write(line)
            reply = await server.answer(json.loads(line))
            if reply is not None:
                sys.stdout.write(json.dumps(reply) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_speak(Path(sys.argv[1]), enrolled="enrolled" in sys.argv[2:]))
