"""Pinned clients in tests: on a shifty server of either kind, in either era, with a file of their own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from mcp import Client, StdioServerParameters
from sqlalchemy import select

from callgate.cli import run
from callgate.errors import Refused
from callgate.pinning.model import PinningSettings
from callgate.pinning.review.views import ToolView
from callgate.sdk import PinnedClient
from callgate.store import Store
from callgate.store.schema import audit_record
from support.gateway import in_thread
from support.shifting import Shifty, listening
from support.stores import write_ready


class Road(NamedTuple):
    """To which kind of server a client goes, and in which era."""

    kind: str
    mode: str


ROADS: Final = [Road(kind, mode) for kind in ("http", "stdio") for mode in ("legacy", "auto")]
# Each kind and each era once.
FEW: Final = [Road("http", "auto"), Road("stdio", "legacy")]

# The list is read before each call.
ALWAYS: Final = PinningSettings(recheck_seconds=0)
SELDOM: Final = PinningSettings(recheck_seconds=3600)


@contextlib.contextmanager
def shifty(directory: Path, kind: str) -> Iterator[Shifty]:
    """A server that can be changed while it runs."""
    if kind == "stdio":
        yield Shifty(directory / "server")
        return
    with listening(directory / "server") as server:
        yield server


def sdk_client(server: Shifty, mode: str, **more: Any) -> Client:
    if server.url:
        return Client(server.url, mode=mode, **more)
    return Client(StdioServerParameters(command=server.argv[0], args=server.argv[1:]), mode=mode, **more)


@contextlib.asynccontextmanager
async def pinning(server: Shifty, mode: str, pins: Path, /, **more: Any) -> AsyncIterator[PinnedClient]:
    """A pinned client, connected; for HTTP in the handshake era, once it hears what is pushed."""
    if not pins.exists():
        # The migrations that make one are most of the cost of a client.
        write_ready(pins)
    given: dict[str, Any] = {"settings": ALWAYS, "name": "files", **more}
    before = len(server.received("(listening)"))
    async with PinnedClient(sdk_client(server, mode), pins=pins, **given) as client:
        if server.url:
            async with asyncio.timeout(20):
                while len(server.received("(listening)")) <= before:
                    await asyncio.sleep(0.01)
        yield client


async def names(client: PinnedClient) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def view(client: PinnedClient, tool: str) -> ToolView:
    """The tool as its reviewer sees it."""
    (found,) = [one for server in (await client.review()).servers for one in server.tools if one.tool == tool]
    return found


async def approve(client: PinnedClient, *tools: str, **more: Any) -> None:
    for tool in tools:
        await client.approve(tool, (await view(client, tool)).approval_hash, by="ada", **more)


async def reason(work: Awaitable[Any]) -> str:
    """Why something is refused; empty where it is not."""
    try:
        await work
    except Refused as refused:
        return refused.reason.value
    return ""


async def call(client: PinnedClient, tool: str, **arguments: Any) -> str:
    """Why a call is refused; empty where it passes."""
    return await reason(client.call_tool(tool, {"id": "1", **arguments}))


async def until_call(client: PinnedClient, tool: str, wanted: str) -> None:
    """Wait until a notification has got around."""
    async with asyncio.timeout(20):
        while await call(client, tool) != wanted:
            await asyncio.sleep(0.01)


def records(pins: Path, kind: str) -> list[dict[str, Any]]:
    """What is on record in a client's file, oldest first."""
    store = Store.open(f"sqlite:///{pins}")
    try:
        with store.reading() as conn:
            rows = conn.execute(select(audit_record.c.body).order_by(audit_record.c.id)).scalars().all()
    finally:
        store.close_sync()
    return [record for record in map(msgspec.json.decode, rows) if record["kind"] == kind]


def execute(pins: Path, *statements: str) -> None:
    """Somebody writes to a client's file behind its back."""
    with contextlib.closing(sqlite3.connect(pins)) as base:
        for text in statements:
            base.execute(text)
        base.commit()


def command(pins: Path, *words: str, status: int = 0) -> str:
    """What `callgate WORDS --store FILE` says."""
    out, err = io.StringIO(), io.StringIO()

    def work() -> int:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return run([*words, "--store", f"sqlite:///{pins}"])

    got = in_thread(work)
    assert got == status, f"callgate {' '.join(words)}: {got}\n{out.getvalue()}\n{err.getvalue()}"
    return out.getvalue()


def listed(pins: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command(pins, "tools", "list", "--json"))
    return found
