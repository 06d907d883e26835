"""Agents and servers for tests of trust: a gateway in front of servers that say what a test wrote down, clients of both
eras over HTTP and over `callgate wrap`, and a person with a passkey."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from sqlalchemy import select

from callgate.store import Store
from callgate.store.schema import audit_record
from support.fork_server import CALLGATE, Forked
from support.gateway import Gateway, serving, store_path
from support.persons import Person, enrolled
from support.raw import SECONDS, Reply, ask
from support.raw_clients import BEGINNING_SECONDS
from support.sessions import CONTENT, META, VERSION, events, message

HANDSHAKE: Final = "2025-11-25"
ERAS: Final = (HANDSHAKE, VERSION)
# How a call ends that a person has to approve, at a gateway that lets nobody wait.
ASKED: Final = "missing_evidence"
EVIL: Final = "evil@attacker.example"
PAGE: Final = f"Opening hours are nine to five. Questions go to {EVIL}, said the shop."

# What the user wrote, for tests in which mail to these two needs nobody.
FRIENDS: Final = "Look it up, then write to bob@example.com or to carol@example.com."

_SCRIPT: Final = Path(__file__).with_name("scripted_server.py")
_numbers: Final = itertools.count(1)


def fresh(word: str = "agent") -> str:
    """A name that no other test of this run has: a client of it has a session of its own."""
    return f"{word}-{os.getpid()}-{next(_numbers)}"


def tool(name: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """An entry of a list of tools, with arguments that are texts."""
    schema = {"type": "object", "properties": {one: {"type": "string"} for one in arguments}}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}


def text(*texts: str, **more: Any) -> dict[str, Any]:
    """A result of these texts."""
    return {"content": [{"type": "text", "text": one} for one in texts], **more}


def labelled(said: str, **annotations: Any) -> dict[str, Any]:
    """A result that its server labels."""
    return text(said, _meta={"annotations": annotations})


def input_metadata(destination: Any = "public", sensitivity: Any = "none", outcomes: Any = "consequential") -> Any:
    return {"destination": destination, "sensitivity": sensitivity, "outcomes": outcomes}


def return_metadata(source: Any = "internal", sensitivity: Any = "none") -> Any:
    return {"source": source, "sensitivity": sensitivity}


@dataclass
class ScriptedServer:
    """A server, and everything that reached it. `trust` is its table `[servers.NAME.trust]`."""

    path: Path
    script: dict[str, Any]
    trust: dict[str, Any] = field(default_factory=dict)
    http: bool = False
    url: str = ""

    def write(self, **changes: Any) -> None:
        """Say something else from now on."""
        self.script |= changes
        spare = self.path.with_suffix(".new")
        spare.write_text(json.dumps(self.script), encoding="utf-8")
        spare.replace(self.path)

    @property
    def argv(self) -> list[str]:
        # A file among the words of a command is part of who the server is, and this one changes.
        return [sys.executable, "-I", "-S", str(_SCRIPT), str(self.path.with_suffix(""))]

    @property
    def table(self) -> dict[str, Any]:
        where: dict[str, Any] = {"url": self.url} if self.http else {"command": self.argv}
        return where | ({"trust": self.trust} if self.trust else {})

    @property
    def seen(self) -> list[dict[str, Any]]:
        path = Path(f"{self.path}.seen")
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        read = map(json.loads, lines)
        return [one for some in read for one in (some if isinstance(some, list) else [some])]

    def calls(self, tool_name: str | None = None) -> list[dict[str, Any]]:
        """The `params` of each call that arrived."""
        found = [one["params"] for one in self.seen if one.get("method") == "tools/call"]
        return [one for one in found if tool_name in (None, one["name"])]

    @property
    def last_labels(self) -> Any:
        """What the last call carried in `_meta.annotations`."""
        return self.calls()[-1].get("_meta", {}).get("annotations")


@contextlib.contextmanager
def listening(server: ScriptedServer) -> Iterator[None]:
    """Start it, where it listens by itself."""
    if not server.http:
        yield
        return
    process = subprocess.Popen([*server.argv, "http"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        server.url = line.split()[-1]
        yield
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@dataclass
class TrustSite:
    """A gateway with trust switched on, its servers, and a person who can approve."""

    directory: Path
    servers: dict[str, ScriptedServer]
    store: Store
    person: Person
    gateway: Gateway

    def agent(self, era: str = HANDSHAKE, name: str | None = None, **more: Any) -> Agent:
        """A client over HTTP, with a session of its own unless it is given a name."""
        return Agent(self.gateway, era, name or fresh(), **more)

    def run(self, *words: str, status: int = 0) -> str:
        """What `callgate WORDS` says on this configuration."""
        return self.gateway.command(*words, status=status)

    def records(self, kind: str) -> list[dict[str, Any]]:
        """What the audit log has of a kind, oldest first."""
        with self.store.reading() as conn:
            rows = conn.execute(select(audit_record.c.body).order_by(audit_record.c.id)).scalars().all()
        return [record for record in map(json.loads, rows) if record["kind"] == kind]

    def noted(self, action: str) -> list[dict[str, Any]]:
        """Acts and alerts of this name."""
        return [one for one in self.records("admin") if one["action"] == action]

    def decided(self, tool_name: str) -> dict[str, Any]:
        """The last decision about a tool."""
        return [one for one in self.records("decision") if one["tool"] == tool_name][-1]

    def trust_of(self, tool_name: str) -> dict[str, Any]:
        """What that says of trust."""
        found: dict[str, Any] = self.decided(tool_name)["extra"]["trust"]
        return {"taken": {}, **found}


@contextlib.contextmanager
def trust_site(directory: Path, servers: Mapping[str, Mapping[str, Any]], **sections: Any) -> Iterator[TrustSite]:
    """`servers` are scripts, each with `trust` for the operator's words and `http` where it listens by itself."""
    started: dict[str, ScriptedServer] = {}
    for name, table in servers.items():
        script = {"name": name, **{key: value for key, value in table.items() if key not in {"trust", "http"}}}
        started[name] = ScriptedServer(
            directory / f"{name}.json", script, dict(table.get("trust", {})), bool(table.get("http"))
        )
        started[name].write()
    # Nobody who waits for a person gives up because the machine is busy.
    sections = {**sections, "approval": {"park_seconds": 600} | sections.get("approval", {})}
    url = sections.get("store", {}).get("url") or f"sqlite:///{store_path(directory)}"
    with contextlib.ExitStack() as stack:
        for server in started.values():
            stack.enter_context(listening(server))
        store = Store.open(url, busy_seconds=60)
        stack.callback(store.close_sync)
        person = asyncio.run(enrolled(store))
        tables = {name: server.table for name, server in started.items()}
        gateway = stack.enter_context(serving(directory, tables, **sections))
        yield TrustSite(directory, started, store, person, gateway)


def trust_servers() -> dict[str, dict[str, Any]]:
    """For attacks: a web of strangers, mail, the house's own notes, and servers that say what they like of themselves."""
    house = {"outcomes": "consequential", "destination": "internal", "source": "internal", "sensitivity": "none"}
    return {
        "web": {"tools": [tool("fetch", "url")], "results": {"fetch": text(PAGE)}, "http": True},
        "pipe": {"tools": [tool("fetch", "url")], "results": {"fetch": text(PAGE)}},
        "mail": {"tools": [tool("send_email", "to", "body", "user", "domain")]},
        "notes": {
            "tools": [tool("write_note", "id", "text"), tool("read_note", "id"), tool("list_notes")],
            "trust": {
                "tools": {
                    "write_note": house | {"destination": "user", "read_only": False},
                    "*": house | {"outcomes": "benign", "read_only": True},
                }
            },
        },
        "believed": {"tools": [tool("read", "path")], "trust": {"trusted": True}},
        "other": {"tools": [tool("read", "path")]},
    }


@dataclass
class Agent:
    """A raw HTTP client of either era that goes to several servers of one gateway."""

    gateway: Gateway
    era: str
    name: str
    session: str | None = None
    prompt: str | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    opened: dict[str, str] = field(default_factory=dict)
    # The address that it calls from.
    peer: str = "127.0.0.1"

    def _ask(self, server: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        return ask(self.gateway.url(server), body, headers, peer=self.peer)

    def meta(self, more: Mapping[str, Any] | None) -> dict[str, Any]:
        made: dict[str, Any] = dict(more or {})
        if self.session is not None:
            made.setdefault("dev.callgate/session", self.session)
        if self.prompt is not None:
            made.setdefault("dev.callgate/prompt", self.prompt)
        if self.era == VERSION:
            made |= {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": dict(self.capabilities)}
            made[f"{META}clientInfo"] = {"name": self.name, "version": "1"}
        return made

    def headers(self, server: str, method: str = "tools/call", name: str = "") -> dict[str, str]:
        if self.era == VERSION:
            named = {"Mcp-Name": name} if name else {}
            return CONTENT | {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, **named}
        if server not in self.opened:
            hello = {"protocolVersion": self.era, "capabilities": self.capabilities, "clientInfo": {"name": self.name}}
            reply = self._ask(server, message("initialize", hello, 0), CONTENT)
            assert reply.status == 200, reply.body
            found = reply.header("mcp-session-id")
            assert found
            self.opened[server] = found
        return CONTENT | {"Mcp-Session-Id": self.opened[server], "MCP-Protocol-Version": self.era}

    def request(self, server: str, method: str, params: Mapping[str, Any], rpc_id: int | str = 7) -> list[Any]:
        """Every message of the answer."""
        meta = self.meta(params.get("_meta"))
        body = message(method, {**params, **({"_meta": meta} if meta else {})}, rpc_id)
        name = params.get("name") if method == "tools/call" else params.get("uri", "")
        reply = self._ask(server, body, self.headers(server, method, str(name)))
        return events(reply.body)

    def call(self, server: str, tool_name: str, meta: Mapping[str, Any] | None = None, /, **arguments: Any) -> Any:
        """The answer to a call: the message with its result or error."""
        params: dict[str, Any] = {"name": tool_name, "arguments": arguments}
        return self.request(server, "tools/call", params if meta is None else params | {"_meta": meta})[-1]

    def asked_about(self, address: str = EVIL, **more: Any) -> bool:
        """Whether mail to this address needs a person."""
        answer = self.call("mail", "send_email", None, **{"to": address, "body": "some words", **more})
        return "error" in answer and reason(answer) == ASKED

    def list_tools(self, server: str) -> Any:
        return self.request(server, "tools/list", {})[-1]["result"]["tools"]


class WrapAgent:
    """A client of `callgate wrap`: one process for each server.

    All are started by this test's process, or, where it does not matter who started them, `forked`: that takes less time.
    """

    def __init__(
        self,
        site: TrustSite,
        era: str = HANDSHAKE,
        env: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
        *,
        forked: bool = False,
    ) -> None:
        self._site = site
        self._start = Forked if forked else subprocess.Popen
        # What stands between this process and the one it starts, as a client would.
        self._through = list(through)
        self._era = era
        self._env = dict(os.environ) | dict(env or {})
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait(SECONDS)
            process.stdout.close()

    def _at(self, server: str) -> subprocess.Popen[bytes]:
        if server not in self._running:
            argv = [*self._through, CALLGATE, "wrap", "-c", str(self._site.gateway.config), server]
            self._running[server] = self._start(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self._env
            )
            if self._era == HANDSHAKE:
                self.request(server, "initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}})
        return self._running[server]

    def request(self, server: str, method: str, params: Mapping[str, Any]) -> Any:
        deadline = time.monotonic() + BEGINNING_SECONDS
        while True:
            answer = self._ask(server, method, params)
            refused = answer.get("error", {}).get("data")
            if not isinstance(refused, dict) or refused.get("reason") != "store_unavailable":
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)

    def _ask(self, server: str, method: str, params: Mapping[str, Any]) -> Any:
        process = self._at(server)
        assert process.stdin is not None
        assert process.stdout is not None
        if self._era == VERSION:
            meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}, **params.get("_meta", {})}
            params = {**params, "_meta": meta}
        process.stdin.write(message(method, params, 5) + b"\n")
        process.stdin.flush()
        while line := process.stdout.readline():
            said = json.loads(line)
            if said.get("id") == 5 and "method" not in said:
                return said
        raise AssertionError("the wrapped server is gone")

    def call(self, server: str, tool_name: str, meta: Mapping[str, Any] | None = None, /, **arguments: Any) -> Any:
        params: dict[str, Any] = {"name": tool_name, "arguments": arguments}
        return self.request(server, "tools/call", params if meta is None else params | {"_meta": meta})


def replies(body: bytes) -> list[Any]:
    """The single messages of an answer to a batch, however they are framed."""
    found = json.loads(body) if body.startswith(b"[") else events(body)
    return [one for some in found for one in (some if isinstance(some, list) else [some])]


def said(answer: Any) -> str:
    """All texts of a result."""
    return "\n".join(item.get("text", "") for item in answer["result"]["content"])


def reason(answer: Any) -> str:
    """Why a call was refused."""
    found: str = answer["error"]["data"]["reason"]
    return found
