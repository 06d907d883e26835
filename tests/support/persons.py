"""People for tests of the gateway: enrolled in its store, and deciding what waits there as the approval page would."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from sqlalchemy import select

from callgate.approval import Approvals, ApprovalSettings, RelyingParty, Request
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.store import SqlApprovals, Store
from callgate.store.schema import audit_record
from support.fork_server import CALLGATE, Forked
from support.gateway import HARMLESS, Gateway, serving, store_path
from support.raw import SECONDS
from support.stores import write_ready

MARK: Final = "io.modelcontextprotocol/verified-approval"
PARTY: Final = RelyingParty("localhost", origins=("http://localhost:*",))


@dataclass
class Person:
    """Somebody with a passkey, on the same store as a running gateway."""

    approvals: Approvals
    key: SoftwareAuthenticator
    name: str

    async def waiting(self, tool: str | None = None) -> Request:
        """The request that waits for this person, once there is one."""
        return await self._once(lambda one: tool in (None, one.tool))

    async def waiting_for(self, identity: str) -> Request:
        """The waiting request of the call with this argument, once there is one."""
        return await self._once(lambda one: json.loads(one.canonical).get("id") == identity)

    async def _once(self, wanted: Callable[[Request], bool]) -> Request:
        deadline = time.monotonic() + SECONDS
        while True:
            mine = [one for one in await self.open_requests() if wanted(one)]
            if mine:
                return mine[0]
            assert time.monotonic() < deadline, "nobody was asked"
            await asyncio.sleep(0.02)

    async def approve(self, request: Request | None = None) -> Request:
        """Sign on the page."""
        request = request or await self.waiting()
        issued = await self.approvals.page_challenge(request, self.name)
        return await self.approvals.approve(request.id, self.evidence(issued.result), by=self.name)

    async def refuse(self, note: str = "not today", request: Request | None = None) -> Request:
        request = request or await self.waiting()
        return await self.approvals.refuse(request.id, by=self.name, note=note)

    async def open_requests(self) -> list[Request]:
        return list(await self.approvals.shelf.requests(self.name, states=("waiting",)))

    def evidence(self, issued: dict[str, Any]) -> dict[str, Any]:
        """What a client that does the ceremony itself sends with its call."""
        response = self.key.get(issued["requestOptions"])
        return {"method": "webauthn", "challengeId": issued["challengeId"], "response": response}


async def enrolled(store: Store, name: str = "ann", **settings: Any) -> Person:
    approvals = Approvals(SqlApprovals(store), PARTY, ApprovalSettings(**settings))
    key = SoftwareAuthenticator("http://localhost:8700", transports=("usb",))
    begun = await approvals.begin_enrolment(await approvals.ticket(name, by="test"))
    await approvals.finish_enrolment(key.create(begun["options"]))
    return Person(approvals, key, name)


@contextlib.asynccontextmanager
async def person_at(directory: Path, name: str = "ann") -> AsyncIterator[Person]:
    """A person on the store of the gateway whose configuration is in that directory."""
    store = Store.open(f"sqlite:///{store_path(directory)}")
    try:
        yield await enrolled(store, name)
    finally:
        await store.close()


@dataclass
class VaultServer:
    """A vault, and everything that reached it."""

    directory: Path
    url: str = ""
    options: tuple[str, ...] = ()

    @property
    def argv(self) -> list[str]:
        """The command that starts it on stdio."""
        return _argv("stdio", self.directory, self.options)

    @property
    def received(self) -> list[dict[str, Any]]:
        path = self.directory / "received"
        lines = path.read_bytes().splitlines() if path.exists() else []
        read = map(json.loads, lines)
        return [one for message in read for one in (message if isinstance(message, list) else [message])]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [message for message in self.received if message.get("method") == "tools/call"]

    def methods(self) -> list[str]:
        return [message.get("method", "response") for message in self.received]


def _argv(transport: str, directory: Path, options: tuple[str, ...]) -> list[str]:
    script = str(Path(__file__).with_name("vault.py"))
    return [sys.executable, "-I", "-S", script, transport, str(directory), *options]


def vault_at(directory: Path, *options: str) -> VaultServer:
    """A vault to be started by a command."""
    directory.mkdir(exist_ok=True)
    return VaultServer(directory, options=options)


@contextlib.contextmanager
def http_vault(directory: Path, *options: str) -> Iterator[VaultServer]:
    """A vault that listens."""
    vault = vault_at(directory, *options)
    process = subprocess.Popen(_argv("http", directory, options), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        vault.url = line.split()[-1]
        yield vault
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextlib.asynccontextmanager
async def over_pipes(argv: list[str], errors: Path) -> AsyncIterator[Any]:
    """A client's transport to a forked `callgate wrap`, for clients that start none themselves."""
    coming, read = anyio.create_memory_object_stream[Any](100)
    written, going = anyio.create_memory_object_stream[SessionMessage](100)
    with errors.open("ab") as log:
        process = Forked(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    async def receive() -> None:
        async with coming:
            while line := await asyncio.to_thread(stdout.readline):
                with contextlib.suppress(anyio.BrokenResourceError):
                    await coming.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def send() -> None:
        async with going:
            async for one in going:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                stdin.flush()
        stdin.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield read, written
        finally:
            written.close()
            read.close()
    await asyncio.to_thread(process.wait)
    stdout.close()


WAYS: Final = ("web", "pipe", "wrap-web", "wrap-pipe")


@dataclass
class ApprovalSite:
    """A gateway that asks for approvals, in front of a vault over HTTP (`web`) and one over stdio (`pipe`)."""

    directory: Path
    gateway: Gateway
    store: Store
    person: Person
    vaults: dict[str, VaultServer]

    def vault(self, way: str) -> VaultServer:
        return self.vaults[way.removeprefix("wrap-")]

    def transport(self, way: str) -> Any:
        """What an SDK client connects to: the gateway's endpoint, or `callgate wrap` in front of the same server."""
        if not way.startswith("wrap-"):
            return self.gateway.url(way)
        return over_pipes(self.wrap_argv(way.removeprefix("wrap-")), self.directory / "wrap.log")

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """What is on record of calls, oldest first."""
        with self.store.reading() as conn:
            rows = conn.execute(select(audit_record.c.body).order_by(audit_record.c.id)).scalars().all()
        return [record for record in map(json.loads, rows) if record["kind"] == "decision"]

    def wrap_argv(self, server: str) -> list[str]:
        return [CALLGATE, "wrap", "-c", str(self.gateway.config), server]


@contextlib.contextmanager
def approval_site(directory: Path, *options: str, **sections: Any) -> Iterator[ApprovalSite]:
    """The tools `wipe*` need approval by the operator's wish; the vaults mark others themselves."""
    approval = {"tools": ["wipe*", "quiz"]} | sections.pop("servers_approval", {})
    trust = sections.pop("servers_trust", HARMLESS)
    with http_vault(directory / "web", *options) as web:
        pipe = vault_at(directory / "pipe", *options)
        servers = {
            "web": {"url": web.url, "approval": approval, "trust": trust},
            "pipe": {"command": pipe.argv, "approval": approval, "trust": trust},
        }
        url = sections.get("store", {}).get("url") or f"sqlite:///{write_ready(store_path(directory))}"
        store = Store.open(url, busy_seconds=30)
        try:
            person = asyncio.run(enrolled(store))
            with serving(directory, servers, **sections) as gateway:
                yield ApprovalSite(directory, gateway, store, person, {"web": web, "pipe": pipe})
        finally:
            store.close_sync()
