"""The room without a gateway: servers are met by saying so, decisions go to a shelf in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from callgate.pinning.identity import http_identity
from callgate.pinning.listing import EntryReader
from callgate.pinning.model import Change, Connected, Pin, PinningSettings, ServerIdentity, ServerSeen, ToolSeen
from callgate.pinning.review.views import ToolView
from callgate.pinning.service import Choice, Pins
from support.memory import MemoryPins, witness

KEY = b"k" * 32
START = 1_800_000_000.0
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string", "maxLength": 40}},
    "required": ["id"],
    "additionalProperties": False,
}


def entry(name: str, description: str = "Reads one record.", schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": SCHEMA if schema is None else schema, **more}


def raw_of(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()


class PinsInMemory:
    """A reviewer's room. A second passes with every meeting."""

    def __init__(self, **settings: Any) -> None:
        self.at = START
        self.shelf = MemoryPins()
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.settings = PinningSettings(**settings)
        self.pins = self.service()

    def service(self, **more: Any) -> Pins:
        """Another process on the same store."""
        return Pins(
            self.shelf,
            lambda: [KEY],
            settings=self.settings,
            witness=self._witness,
            clock=lambda: self.at,
            **more,
        )

    def _witness(self, action: str, by: str, detail: dict[str, Any]) -> Any:
        self.told.append((action, by, detail))
        return witness(action, by, detail)

    def http(self, name: str, version: str = "1.0") -> ServerIdentity:
        return http_identity(f"https://{name}.example/mcp", reported=f"{name} {version}")

    async def meet(
        self,
        name: str,
        *entries: dict[str, Any] | bytes,
        identity: ServerIdentity | None = None,
        group: str = "",
        connect: bool = True,
        whole: bool = True,
    ) -> tuple[ServerIdentity, tuple[Change, ...]]:
        """A server lists its tools; entries are objects, or bytes as they come."""
        who = identity or self.http(name)
        self.at += 1
        now = int(self.at * 1000)
        server = ServerSeen(
            server_id=who.server_id,
            lineage=who.lineage,
            name=name,
            group=group,
            kind=who.kind,
            chosen=who.chosen,
            reported=who.reported,
            warnings=who.warnings,
            last_seen=now,
        )
        read = EntryReader(who.server_id, self.settings).read
        tools = []
        for one in entries:
            raw = one if isinstance(one, bytes) else raw_of(one)
            listed = read(raw)
            tools.append(
                ToolSeen(
                    server_id=who.server_id,
                    tool=listed.name,
                    approval_hash=listed.approval_hash,
                    raw=listed.raw,
                    beside=listed.beside,
                    problem=listed.problem,
                    size=len(raw),
                )
            )
        changes = await self.shelf.saw(server, tools, whole=whole)
        if connect:
            await self.connect(name, who, group)
        return who, changes

    async def connect(self, name: str, who: ServerIdentity, group: str = "", gateway: str = "g") -> None:
        place = Connected(name, group, who.server_id, gateway, int(self.at * 1000) + 10**12)
        assert await self.shelf.connect(place, int(self.at * 1000), 100)

    async def view(self, name: str, tool: str) -> ToolView:
        return await self.pins.find(name, tool)

    async def approve(
        self, name: str, *tools: str, by: str = "ann", together: Iterable[str] = (), **more: Any
    ) -> list[Pin]:
        views = [await self.view(name, tool) for tool in tools]
        choices = [Choice("approve", view.server_id, view.tool, view.approval_hash, **more) for view in views]
        return await self.pins.decide(choices, by=by, together=together)

    async def approve_all(self, by: str = "ann") -> list[Pin]:
        """Everything that waits, seen together."""
        review = await self.pins.review()
        choices = [Choice("approve", view.server_id, view.tool, view.approval_hash) for view in review.pending]
        together = [server.seen.server_id for server in review.servers]
        return await self.pins.decide(choices, by=by, together=together)
