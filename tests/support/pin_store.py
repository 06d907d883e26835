"""The store of tool pinning for tests: what to put on them, and processes that meet and decide at the same moment.

Run as a program, this is one of those processes: `python pin_store.py URL`, with the jobs on stdin.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from callgate.errors import Refused
from callgate.pinning.chain import DecisionChain
from callgate.pinning.document import approval_hash, beside
from callgate.pinning.model import Connected, Pin, ServerSeen, ToolSeen
from callgate.pinning.storage import ExpectedTool, PinRepository
from callgate.store import ADMIN, AuditRow, SqlPins, Store
from support import racing
from support.memory import bodies

NOW: Final = 1_800_000_000_000
SECOND: Final = 1000
SERVER: Final = "npm:@org/files@1.2.3"
KEY: Final = b"k" * 32


class Shelved:
    """A shelf of pins, and what was written beside it."""

    def __init__(self, shelf: PinRepository, store: Store, url: str) -> None:
        self.shelf = shelf
        self.store = store
        self.url = url

    @property
    def witnesses(self) -> list[str]:
        """The audit rows of everything that was done, in order."""
        return [body.decode() for body in bodies(self.store)]


def witness(text: str) -> AuditRow:
    return AuditRow(ADMIN, NOW, None, None, None, None, None, text.encode(), b"seal" * 9)


def server(server_id: str = SERVER, **changes: Any) -> ServerSeen:
    plain = ServerSeen(
        server_id=server_id,
        lineage="npm:@org/files",
        name="files",
        kind="stdio",
        chosen=True,
        target="npx @org/files@1.2.3",
        reported="files 1.2.3",
        warnings=("a warning",),
        digest="sha256:list",
        tools=1,
        size=100,
        last_seen=NOW,
    )
    return replace(plain, **changes)


def tool(name: str = "read", description: str = "Reads a file.", server_id: str = SERVER, **members: Any) -> ToolSeen:
    """A tool as its list has it; `members` are further ones of its entry, such as annotations."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    entry = {"name": name, "description": description, "inputSchema": schema, **members}
    raw = json.dumps(entry).encode()
    hashed = approval_hash(server_id, name, description, schema) if _whole(name + description + server_id) else ""
    return ToolSeen(server_id=server_id, tool=name, approval_hash=hashed, raw=raw, beside=beside(entry), size=len(raw))


def unfit(name: str = "read", raw: bytes = b'{"name":"read","name":"write"}', server_id: str = SERVER) -> ToolSeen:
    return ToolSeen(server_id=server_id, tool=name, approval_hash="", raw=raw, problem="a key is there twice")


def _whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def pin(of: ToolSeen, **changes: Any) -> Pin:
    plain = Pin(
        action="approve",
        server_id=of.server_id,
        lineage="npm:@org/files",
        server="files",
        tool=of.tool,
        approval_hash=of.approval_hash,
        approved_at=NOW,
        approved_by="ada",
        beside=of.beside,
        raw=of.raw,
    )
    return replace(plain, **changes)


def place(name: str = "files", **changes: Any) -> Connected:
    plain = Connected(name=name, group="", server_id=f"id of {name}", gateway="one", until=NOW + 60 * SECOND)
    return replace(plain, **changes)


def keys() -> list[bytes]:
    return [KEY]


def wanted(of: ToolSeen) -> ExpectedTool:
    return ExpectedTool(of.server_id, of.tool, of.approval_hash)


async def decide(shelf: PinRepository, *pins: Pin, witnesses: Sequence[AuditRow] = ()) -> None:
    """Decide on texts as they were met, as a reviewer does."""
    asked = [ExpectedTool(one.server_id, one.tool, one.approval_hash) for one in pins]
    await shelf.decide(asked, DecisionChain(keys).link(pins), witnesses)


async def read(shelf: PinRepository) -> DecisionChain:
    """Everything that was decided, verified."""
    book = DecisionChain(keys)
    book.read(*await shelf.since())
    assert book.broken == ""
    return book


def race(url: str, jobs: Sequence[Sequence[dict[str, Any]]]) -> list[list[Any]]:
    """Let processes begin at once; what each job of each process came to."""
    return racing.race(__file__, url, jobs)


class _Oracle:
    """Reads, on a connection of its own, which text is the newest at the moment a decision is written."""

    def __init__(self, url: str) -> None:
        self._store = Store.open(url, busy_seconds=30)

    def newest(self) -> str:
        # On a thread of the store that decides; this one has readers of its own.
        return asyncio.run(self._newest())

    async def _newest(self) -> str:
        (found,) = await SqlPins(self._store).tools(SERVER)
        return found.approval_hash

    def close(self) -> None:
        self._store.close_sync()


async def _do(shelf: SqlPins, oracle: _Oracle, job: dict[str, Any]) -> Any:
    kind = job["do"]
    at = NOW + job.get("at", 0)
    try:
        if kind == "saw":
            listed = [tool(description=text) for text in job["texts"]]
            found = await shelf.saw(server(last_seen=at), listed, whole=True)
            return [change.what for change in found]
        if kind == "approve":
            met = tool(description=job["text"])
            link = DecisionChain(keys).link

            def note(head: Any) -> Any:
                return link([pin(met, note=oracle.newest())])(head)

            await shelf.decide([wanted(met)], note, [witness(f"approved {job['text']}")])
        elif kind == "connect":
            return await shelf.connect(place(job["name"], gateway=job.get("gateway", "one")), NOW, job["most"])
        else:
            raise ValueError(kind)
    except Refused as refused:
        return refused.reason.value
    return "done"


async def _main(url: str) -> None:
    store = Store.open(url, busy_seconds=30)
    oracle = _Oracle(url)
    shelf = SqlPins(store)
    # The first use of a connection is slow; it is not what the race is about.
    await shelf.servers()
    print("ready", flush=True)
    jobs = json.loads(sys.stdin.readline())
    # One after the other: the processes race, not the jobs of one.
    print(json.dumps([await _do(shelf, oracle, job) for job in jobs]), flush=True)
    oracle.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
