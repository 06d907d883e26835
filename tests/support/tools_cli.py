"""Tools on a store as a gateway meets them, and the command line on it, for tests of verbs on tools."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from callgate.audit.storage import Filter
from callgate.cli import run
from callgate.cli.common import open_log
from callgate.pinning.listing import EntryReader, ToolListing, greeting_items
from callgate.pinning.model import Connected, ItemKind, PinningSettings, ServerSeen, ToolSeen
from callgate.store import SqlPins, Store
from support.stores import write_ready

NOTES: Final = "npm:@org/notes@1.2.3"
MAIL: Final = "npm:@org/mail@4.0.0"
GATEWAY: Final = "gateway-1"


def entry(name: str, description: str | None = "Does it.", schema: Any = None, **members: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    made: dict[str, Any] = {"name": name}
    if description is not None:
        made["description"] = description
    return {**made, "inputSchema": {"type": "object"} if schema is None else schema, **members}


# Of a server for notes.
DELETE: Final = entry(
    "delete_note",
    "Delete a note for good.\n\nThe note cannot be brought back.",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20, "description": "Which one."}},
        "required": ["name"],
        "additionalProperties": False,
    },
)
LIST: Final = entry(
    "list_notes", "List the notes.", {"type": "object", "properties": {}, "additionalProperties": False}
)


class ToolsCli:
    """A store, what was met on it, and verbs with what they print."""

    def __init__(self, url: str, capsys: Any = None) -> None:
        self.url = url
        self._capsys = capsys
        with open_log(None, url, create=True):
            pass

    # -- what a gateway does -----------------------------------------------------------------------------------

    def met(
        self,
        name: str,
        *entries: Mapping[str, Any],
        server_id: str = "",
        connected: bool = True,
        at: int | None = None,
        **seen: Any,
    ) -> dict[str, str]:
        """A server lists these tools; the hash of each. As another kind: these prompts, or this greeting."""
        known = server_id or {"notes": NOTES, "mail": MAIL}.get(name, f"npm:{name}@1.0.0")
        now = int(time.time() * 1000) if at is None else at
        kind: ItemKind = seen.pop("as_kind", "tool")
        reader = EntryReader(known, PinningSettings(), kind=kind)
        if kind == "server":
            (greeting,) = entries
            listing = ToolListing(greeting_items(greeting, [greeting.get("serverInfo", {})], known, PinningSettings()))
        else:
            listing = ToolListing(reader.read(json.dumps(one, ensure_ascii=False).encode()) for one in entries)
        server = ServerSeen(
            server_id=known,
            lineage=seen.pop("lineage", known.rpartition("@")[0] or known),
            name=name,
            kind=seen.pop("kind", "stdio"),
            chosen=seen.pop("chosen", True),
            digest=listing.digest,
            tools=len(listing.tools),
            size=listing.size,
            last_seen=now,
            **seen,
        )
        tools = [
            ToolSeen(
                server_id=known,
                tool=one.name,
                approval_hash=one.approval_hash,
                raw=one.raw,
                beside=one.beside,
                problem=one.problem,
                size=len(one.raw),
            )
            for one in listing.tools.values()
        ]

        async def see(shelf: SqlPins) -> None:
            await shelf.saw(server, tools, whole=True, kind=kind)
            if connected:
                place = Connected(name, server.group, known, GATEWAY, now + 3_600_000)
                assert await shelf.connect(place, now, 100)

        self.shelf(see)
        return {one.name: one.approval_hash for one in listing.tools.values()}

    def shelf(self, work: Callable[[SqlPins], Coroutine[Any, Any, Any]]) -> Any:
        store = Store.open(self.url, busy_seconds=60)
        try:
            return asyncio.run(work(SqlPins(store)))
        finally:
            store.close_sync()

    # -- what a person types -----------------------------------------------------------------------------------

    def __call__(self, *words: str, code: int = 0) -> Any:
        found = run([*words, "--store", self.url])
        said = self._capsys.readouterr()
        assert found == code, said.out + said.err
        return said

    def quiet(self) -> None:
        """Forget what was printed until now."""
        self._capsys.readouterr()

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code).out)

    def states(self) -> dict[str, str]:
        """How each tool stands."""
        return {row["tool"]: row["state"] for row in self.json("tools", "list")}

    def approve(self, server: str, tool: str, *more: str) -> str:
        """Approve a tool as it was met last; its hash."""
        view = self.json("tools", "show", "--server", server, "--tool", tool)
        self("tools", "approve", "--server", server, "--tool", tool, "--hash", view["approval_hash"], *more)
        return str(view["approval_hash"])

    def records(self) -> list[tuple[str, str, Any]]:
        """What operators did, as (action, by, detail)."""
        store = Store.open(self.url, busy_seconds=60)
        try:
            with store.audit_reading() as tables:
                found = [json.loads(body) for _, body in tables.bodies(Filter())]
        finally:
            store.close_sync()
        return [(one["action"], one["by"], one.get("detail")) for one in found if one["kind"] == "admin"]


def sqlite(directory: Path, capsys: Any = None) -> ToolsCli:
    return ToolsCli(f"sqlite:///{write_ready(directory / 'store.db')}", capsys)
