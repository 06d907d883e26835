"""HTTP clients of the teller behind a gateway, in both eras, without an SDK."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]

from support.raw import SECONDS, Reply, ask

CONTENT: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
VERSION: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"


def teller_argv(directory: Path) -> list[str]:
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("teller.py")), str(directory)]


def until(true: Callable[[], object]) -> None:
    """Wait for something that another process brings about."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended; nobody may be there to collect its status."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def message(method: str, params: Mapping[str, Any], rpc_id: int | str | None = None) -> bytes:
    whole: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(whole if rpc_id is None else whole | {"id": rpc_id}).encode()


def call(tool: str, rpc_id: int | str = 1, meta: Mapping[str, Any] | None = None, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return message("tools/call", params if meta is None else params | {"_meta": meta}, rpc_id)


def events(body: bytes) -> list[Any]:
    """The messages in an answer, whether a stream or a single one; an event without data only has an id."""
    if body.lstrip().startswith(b"{"):
        return [json.loads(body)]
    data = [line.removeprefix("data:").strip() for line in body.decode().splitlines() if line.startswith("data:")]
    return [json.loads(one) for one in data if one]


def initialize(url: str, version: str = "2025-11-25") -> Reply:
    return ask(url, message("initialize", _hello({}, version), 0))


def _hello(capabilities: Mapping[str, Any], version: str = "2025-11-25") -> dict[str, Any]:
    """Under a name that nobody else has: what this client reads is no stranger's text for the next one."""
    about = {"name": f"raw-{uuid.uuid4().hex}", "version": "1"}
    return {"protocolVersion": version, "capabilities": capabilities, "clientInfo": about}


@dataclass(frozen=True)
class Session:
    """A handshake session."""

    url: str
    id: str
    pid: int

    @classmethod
    def start(cls, url: str) -> Session:
        reply = initialize(url)
        assert reply.status == 200, reply.body
        session = reply.header("mcp-session-id")
        assert session is not None
        return cls(url, session, json.loads(reply.body)["result"]["serverInfo"]["pid"])

    @property
    def headers(self) -> dict[str, str]:
        return CONTENT | {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": "2025-11-25"}

    def post(self, body: bytes) -> Reply:
        return ask(self.url, body, self.headers)

    def call(self, tool: str, rpc_id: int | str = 1, **arguments: Any) -> Any:
        reply = self.post(call(tool, rpc_id, **arguments))
        assert reply.status == 200, reply.body
        return events(reply.body)[-1]["result"]

    def delete(self) -> Reply:
        return ask(self.url, None, self.headers, "DELETE")


def modern_call(tool: str, rpc_id: int | str = 1, token: int | str | None = None, **arguments: Any) -> bytes:
    """A call of the modern era; `log=True` asks for log messages."""
    meta: dict[str, Any] = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    if token is not None:
        meta["progressToken"] = token
    if arguments.pop("log", False):
        meta[f"{META}logLevel"] = "debug"
    return call(tool, rpc_id, meta, **arguments)


def modern_headers(name: str, method: str = "tools/call") -> dict[str, str]:
    return CONTENT | {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Mcp-Name": name}


def modern(url: str, tool: str, rpc_id: int | str = 1, token: int | str | None = None, **arguments: Any) -> Reply:
    return ask(url, modern_call(tool, rpc_id, token, **arguments), modern_headers(tool))


@dataclass
class Guest:
    """A raw client of either era that says of itself what it likes."""

    url: str
    capabilities: Mapping[str, Any]
    session: str | None = None
    # What the server answered to `initialize`, in the handshake era.
    hello: Any = None

    @classmethod
    def arrive(cls, url: str, era: str, **capabilities: Any) -> Guest:
        """In the handshake era with a session of its own, in the modern era without."""
        guest = cls(url, capabilities)
        if era == "legacy":
            reply = ask(url, message("initialize", _hello(capabilities), 0))
            assert reply.status == 200, reply.body
            guest.session = reply.header("mcp-session-id")
            assert guest.session
            guest.hello = events(reply.body)[-1]
        return guest

    @property
    def modern(self) -> bool:
        return self.session is None

    def body(self, method: str, params: Mapping[str, Any], rpc_id: int | str | None = 1) -> bytes:
        """A message as this guest's era has it."""
        if not self.modern:
            return message(method, params, rpc_id)
        envelope = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": self.capabilities}
        return message(method, {**params, "_meta": {**params.get("_meta", {}), **envelope}}, rpc_id)

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        if self.session is not None:
            return CONTENT | {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"}
        named = {"Mcp-Name": str(params["name"])} if method in ("tools/call", "prompts/get") else {}
        return CONTENT | {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, **named}

    def request(self, method: str, params: Mapping[str, Any] | None = None, rpc_id: int | str | None = 1) -> Reply:
        given = params or {}
        return ask(self.url, self.body(method, given, rpc_id), self.headers(method, given))

    def answer(self, method: str, params: Mapping[str, Any] | None = None, rpc_id: int | str = 1) -> Any:
        """The last message that came back: the result, or the error."""
        return events(self.request(method, params, rpc_id).body)[-1]

    def call(self, tool: str, rpc_id: int | str = 1, **arguments: Any) -> Any:
        return self.answer("tools/call", {"name": tool, "arguments": arguments}, rpc_id)
