"""Gateways that pin tools in front of servers that shift, and people who review them through the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pytest
from sqlalchemy import select

from callgate.pinning.model import ServerSeen, ToolSeen
from callgate.store import SqlPins, Store
from callgate.store.schema import audit_record
from support.clients import over_stdio
from support.fork_server import CALLGATE
from support.gateway import Gateway, command, in_thread, serving, store_path
from support.raw import ask
from support.raw_clients import RawClient, RawHttpClient, RawPipeClient, Way, until
from support.shifting import Shifty, listening

T = TypeVar("T")


# ---- a gateway, its servers and its reviewers ----


@dataclass
class Site:
    """One configuration and store: `callgate serve` runs on it, `callgate wrap` may, and people review on it."""

    directory: Path
    gateway: Gateway
    servers: dict[str, Shifty]
    visitors: list[RawClient] = field(default_factory=list)
    # Whether its servers stay what they are from one row of a table to the next.
    lasting: bool = False
    # What was blocked here: server, identity and tool.
    blocked: list[tuple[str, str, str]] = field(default_factory=list)

    def __getitem__(self, name: str) -> Shifty:
        return self.servers[name]

    def server(self, way: Way) -> Shifty:
        return self.servers[way.server]

    def begin_row(self) -> None:
        """Everybody leaves, and other servers are here, which have no tools."""
        self.leave()
        for name, server in self.servers.items() if not self.lasting else ():
            listed = server.state["tools"]
            server.fresh()
            if listed:
                # A tool that only speaks of one of the server that was here before would wait for a review of both.
                RawHttpClient(self.url(name), "modern").attempt("tools/list")
                self.identity(name)

    # ---- clients ----

    def visit(self, way: Way) -> RawClient:
        """Connect."""
        if way.front == "serve":
            visitor: RawClient = RawHttpClient(self.url(way.server), way.era)
        else:
            server = self.servers[way.server]
            before = len(server.received("(listening)"))
            visitor = RawPipeClient(self.wrap_argv(way.server), way.era, self.directory / "wrap.log")
            if way.server == "web":
                # Its stream opens on the side; what is pushed before that, nobody hears.
                until(lambda: len(server.received("(listening)")) > before, "somebody listens")
        self.visitors.append(visitor)
        return visitor

    def again(self, visitor: RawClient, way: Way) -> RawClient:
        """Leave, and connect anew."""
        visitor.close()
        self.visitors.remove(visitor)
        return self.visit(way)

    def leave(self) -> None:
        while self.visitors:
            self.visitors.pop().close()

    def url(self, server: str) -> str:
        return self.gateway.url(server)

    def wrap_argv(self, server: str) -> list[str]:
        return [CALLGATE, "wrap", "-c", str(self.gateway.config), server]

    def transport(self, way: Way) -> Any:
        """What an SDK client connects to."""
        if way.front == "serve":
            return self.url(way.server)
        return over_stdio(self.wrap_argv(way.server), self.directory / "wrap.log")

    # ---- reviewers ----

    def command(self, *words: str, status: int | None = 0) -> str:
        """What `callgate WORDS` says on this configuration."""
        return command(self.gateway.config, *words, status=status)

    def identity(self, server: str) -> ServerSeen:
        """The server as it is now, once the gateway has met it so."""
        state = self.servers[server].state
        reported = f"{state['name']} {state['version']}"

        def met() -> list[ServerSeen]:
            return [one for one in self.servers_seen() if one.name == server and one.reported == reported]

        return until(met, f"{server} was met as {reported}")[0]

    def seen(self, server: str, tool: str) -> ToolSeen:
        """A tool as the server lists it now, once the gateway has met it so."""
        (entry,) = [one for one in self.servers[server].state["tools"] if one["name"] == tool]
        server_id = self.identity(server).server_id

        def met() -> list[ToolSeen]:
            found = [one for one in self.tools_seen(server_id) if one.tool == tool]
            return [one for one in found if one.raw and json.loads(one.raw) == entry]

        return until(met, f"{tool} was met as it is")[0]

    def approve(self, server: str, *tools: str, override: bool = False) -> None:
        """A reviewer approves each of these tools as it is listed now."""
        for tool in tools:
            seen = self.seen(server, tool)
            self._lift(server, tool, seen.server_id)
            words = ["--server", seen.server_id, "--tool", tool, "--hash", seen.approval_hash]
            self.command("tools", "approve", *words, *(["--override"] if override else []))

    def items(self, server: str, *names: str, state: str = "all") -> list[dict[str, Any]]:
        """What `callgate tools list --json` says of these items of a server as it is now, once all of them are met."""
        server_id = self.identity(server).server_id

        def listed() -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = json.loads(self.command("tools", "list", "--json", "--state", state))
            found = [row for row in rows if row["server_id"] == server_id]
            return found if {row["tool"] for row in found} >= set(names) else []

        return until(listed, f"{names} of {server} are {state}")

    def approve_listed(self, server: str, *names: str) -> None:
        """A reviewer approves all that a server has to review, as it is listed: the one gesture for everything."""
        file = self.directory / "reviewed.json"
        file.write_text(json.dumps(self.items(server, *names, state="pending")), encoding="utf-8")
        self.command("tools", "approve", "--from", str(file))

    def block(self, server: str, tool: str, note: str = "not here") -> None:
        identity = self.seen(server, tool).server_id
        self.command("tools", "block", "--server", identity, "--tool", tool, "--note", note)
        self.blocked.append((server, identity, tool))

    def _lift(self, server: str, tool: str, identity: str) -> None:
        """Take back what an earlier test blocked of another server in the same place: it would count here too."""
        for one in [one for one in self.blocked if one[::2] == (server, tool) and one[1] != identity]:
            self.command("tools", "withdraw", "--server", one[1], "--tool", tool)
            self.blocked.remove(one)

    def withdraw(self, server: str, tool: str) -> None:
        self.command("tools", "withdraw", "--server", self.seen(server, tool).server_id, "--tool", tool)

    def together(self) -> None:
        """A reviewer has looked at all servers that agents see together, as they are now."""
        for one in json.loads(self.command("review", "--json", status=None))["sets"]:
            group = ["--group", one["group"]] if one["group"] else []
            self.command("tools", "together", *group, "--version", one["version"])

    def row(self, server: str, tool: str) -> dict[str, Any]:
        """What `callgate tools list --json` says of a tool."""
        seen = self.seen(server, tool)

        def listed() -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = json.loads(self.command("tools", "list", "--json"))
            return [row for row in rows if (row["server_id"], row["tool"]) == (seen.server_id, tool)]

        return until(listed, f"{tool} of {server} is on the review")[0]

    # ---- what is on record ----

    def servers_seen(self) -> list[ServerSeen]:
        return self.shelf(lambda pins: pins.servers())

    def tools_seen(self, server_id: str) -> list[ToolSeen]:
        return self.shelf(lambda pins: pins.tools(server_id))

    def shelf(self, ask_it: Callable[[SqlPins], Coroutine[Any, Any, T]]) -> T:
        async def work() -> T:
            store = Store.open(f"sqlite:///{store_path(self.directory)}", busy_seconds=60)
            try:
                return await ask_it(SqlPins(store))
            finally:
                await store.close()

        return in_thread(lambda: asyncio.run(work()))

    def records(self, kind: str = "decision") -> list[dict[str, Any]]:
        """What is on record, oldest first."""
        store = Store.open(f"sqlite:///{store_path(self.directory)}", busy_seconds=60)
        try:
            with store.reading() as conn:
                rows = conn.execute(select(audit_record.c.body).order_by(audit_record.c.id)).scalars().all()
        finally:
            store.close_sync()
        return [record for record in map(msgspec.json.decode, rows) if record["kind"] == kind]

    def deeds(self, action: str, **detail: Any) -> list[dict[str, Any]]:
        """The records of what the gateway or a reviewer did, by action and what their detail says."""
        found = [record for record in self.records("admin") if record["action"] == action]
        return [
            one for one in found if all((one.get("detail") or {}).get(key) == value for key, value in detail.items())
        ]

    def metrics(self) -> str:
        return ask(f"{self.gateway.address}/metrics", None, {}, "GET").body.decode()


# A list is believed for no time, so that a test need not wait for the next check.
PINNING: Final = {"recheck_seconds": 0}


def _checking(sections: Mapping[str, Any]) -> dict[str, Any]:
    if "pinning" in sections.get("off", {}):
        return dict(sections)
    return {**sections, "pinning": PINNING | sections.get("pinning", {})}


def _opened(directory: Path, gateway: Gateway, servers: dict[str, Shifty]) -> Site:
    """Once it is ready: on a busy machine it may listen seconds after it has read its kill switch."""
    until(lambda: ask(f"{gateway.address}/readyz", None, {}, "GET").status == 200, "the gateway is ready")
    return Site(directory, gateway, servers)


@contextlib.contextmanager
def pinned_site(
    directory: Path, *, tables: Mapping[str, Mapping[str, Any]] | None = None, **sections: Any
) -> Iterator[Site]:
    """A gateway that checks before every call, with a shifty server over HTTP (`web`) and one over stdio (`pipe`).

    `tables` adds to the tables of the servers; `pinning` to what the gateway does.
    """
    with listening(directory / "web") as web:
        servers = {"web": web, "pipe": Shifty(directory / "pipe")}
        given = {name: {**one.table, **(tables or {}).get(name, {})} for name, one in servers.items()}
        with serving(directory, given, reviewed=False, **_checking(sections)) as gateway:
            site = _opened(directory, gateway, servers)
            try:
                yield site
            finally:
                site.leave()


@contextlib.contextmanager
def shifty_site(directory: Path, *names: str, **sections: Any) -> Iterator[Site]:
    """A gateway in front of several shifty servers over HTTP, by name; `tables` adds to their tables."""
    tables: dict[str, Mapping[str, Any]] = sections.pop("tables", {})
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(listening(directory / name)) for name in names}
        given = {name: {**one.table, **tables.get(name, {})} for name, one in servers.items()}
        gateway = stack.enter_context(serving(directory, given, reviewed=False, **_checking(sections)))
        site = _opened(directory, gateway, servers)
        try:
            yield site
        finally:
            site.leave()


@pytest.fixture(scope="session")
def _pinned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with pinned_site(tmp_path_factory.mktemp("pinned")) as site:
        yield site


@pytest.fixture
def pinned(_pinned: Site) -> Iterator[Site]:
    """The site that the tests of a worker share: each begins with servers that nobody has met, and leaves."""
    _pinned.begin_row()
    yield _pinned
    _pinned.leave()
