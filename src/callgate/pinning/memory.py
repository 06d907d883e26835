"""A shelf in process memory, for tests and for libraries without a store: nothing outlives the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callgate.pinning.keeping import (
    check_link,
    check_wanted,
    compare,
    surplus,
    too_many_servers,
    too_many_tools,
    vanish,
)
from callgate.pinning.model import Change, Connected, Pin, ServerSeen, ToolSeen
from callgate.pinning.storage import USUAL, Bounds, Head, Link, Sealed, Wanted

_pin: Final = msgspec.msgpack.Decoder(Pin)
# The texts of each tool of one server, the newest first.
Texts = dict[str, list[ToolSeen]]


class MemoryPins:
    """The whole `PinShelf` of storage.py, for one event loop; `witnesses` are those of everything done, in order."""

    def __init__(self) -> None:
        self.witnesses: list[Any] = []
        self._head: Head | None = None
        self._chain: list[Sealed] = []
        # Which hashes of which tools were decided on.
        self._decided: dict[str, dict[str, set[str]]] = {}
        self._servers: dict[str, ServerSeen] = {}
        self._texts: dict[str, Texts] = {}
        self._places: dict[tuple[str, str], Connected] = {}

    # ---- decisions ----

    async def head(self) -> Head | None:
        return self._head

    async def chain(self, after: int = 0, most: int = 10_000) -> list[Sealed]:
        return self._chain[max(0, after) :][: max(0, most)]

    async def since(self, after: int = 0) -> tuple[Head | None, list[Sealed]]:
        return self._head, self._chain[max(0, after) :]

    async def decide(self, wanted: Sequence[Wanted], link: Link, witnesses: Sequence[Any] = ()) -> None:
        for one in wanted:
            texts = self._texts.get(one.server_id, {}).get(one.tool)
            check_wanted(one, texts[0] if texts else None)
        rows, head = link(self._head)
        check_link(self._head, rows, head)
        made = [_pin.decode(row.body) for row in rows]
        for pin in made:
            self._decided.setdefault(pin.server_id, {}).setdefault(pin.tool, set()).add(pin.approval_hash)
        self._chain.extend(rows)
        self._head = head
        self.witnesses.extend(witnesses)

    # ---- sightings ----

    async def saw(
        self, server: ServerSeen, tools: Sequence[ToolSeen], *, whole: bool, bounds: Bounds = USUAL
    ) -> tuple[Change, ...]:
        at, key = server.last_seen, server.server_id
        met = {
            tool.tool: replace(tool, server_id=key, first_seen=at, last_seen=at, changes=0, gone=False)
            for tool in tools
        }
        # A copy, so that a refusal leaves everything as it was.
        texts = {name: list(held) for name, held in self._texts.get(key, {}).items()}
        before = {name: held[0] for name, held in texts.items()}
        changes = [compare(before.get(name), tool) for name, tool in met.items()]
        gone = [name for name, tool in before.items() if whole and name not in met and not tool.gone]
        for name in gone:
            texts[name][0] = replace(before[name], gone=True)
        self._drop_tools(server, texts, met, bounds)
        for change, (name, tool) in zip(changes, met.items(), strict=True):
            texts[name] = self._with(texts.get(name, []), tool, change, bounds)
        if key not in self._servers:
            self._drop_servers(server, bounds)
        self._texts[key] = texts
        self._servers[key] = _kept(self._servers.get(key), server)
        lost = sorted((vanish(before[name]) for name in gone), key=lambda change: change.tool)
        return (*(change for change in changes if change is not None), *lost)

    def _with(self, held: list[ToolSeen], tool: ToolSeen, change: Change | None, bounds: Bounds) -> list[ToolSeen]:
        """A tool's texts with the one that was met in front."""
        count = change.changes if change is not None else held[0].changes
        first = next((one.first_seen for one in held if one.approval_hash == tool.approval_hash), tool.first_seen)
        rest = [one for one in held if one.approval_hash != tool.approval_hash]
        # What was gone is not gone as an old text.
        texts = [replace(tool, first_seen=first, changes=count), *(replace(one, gone=False) for one in rest)]
        decided = self._decided.get(tool.server_id, {}).get(tool.tool, set())
        drop = set(surplus([one.approval_hash for one in texts], decided, bounds.texts))
        return [one for one in texts if one.approval_hash not in drop]

    def _drop_tools(self, server: ServerSeen, texts: Texts, met: Mapping[str, ToolSeen], bounds: Bounds) -> None:
        spare = len(texts.keys() | met.keys()) - bounds.tools
        kept = self._decided.get(server.server_id, {}).keys() | met.keys()
        gone = [name for name, held in texts.items() if held[0].gone and name not in kept]
        if len(met) > bounds.tools or len(gone) < spare:
            raise too_many_tools(server, bounds)
        for name in sorted(gone, key=lambda name: texts[name][0].last_seen)[: max(0, spare)]:
            del texts[name]

    def _drop_servers(self, server: ServerSeen, bounds: Bounds) -> None:
        """Forget who was met longest ago and has no decision; first of the newcomer's own lineage."""
        spare = len(self._servers) - bounds.servers + 1
        free = [one for one in self._servers.values() if one.server_id not in self._decided]
        if len(free) < spare:
            raise too_many_servers(bounds)
        free.sort(key=lambda one: (one.lineage != server.lineage, one.last_seen))
        for one in free[: max(0, spare)]:
            del self._servers[one.server_id], self._texts[one.server_id]

    async def servers(self) -> list[ServerSeen]:
        return sorted(self._servers.values(), key=lambda server: (-server.last_seen, server.server_id))

    async def tools(self, server_id: str | None = None) -> list[ToolSeen]:
        servers = self._texts if server_id is None else {server_id: self._texts.get(server_id, {})}
        found = [held[0] for texts in servers.values() for held in texts.values()]
        return sorted(found, key=lambda tool: (tool.server_id, tool.tool))

    async def texts(self, server_id: str, tool: str) -> list[ToolSeen]:
        return list(self._texts.get(server_id, {}).get(tool, ()))

    async def forget(self, server_id: str, witnesses: Sequence[Any] = ()) -> None:
        self._servers.pop(server_id, None)
        self._texts.pop(server_id, None)
        self.witnesses.extend(witnesses)

    # ---- connected servers ----

    async def connect(self, place: Connected, now: int, most: int) -> bool:
        own = (place.gateway, place.name)
        self._places = {key: held for key, held in self._places.items() if held.until > now and key != own}
        same = (place.name, place.server_id)
        others = {(one.name, one.server_id) for one in self._places.values() if one.group == place.group} - {same}
        # One that has no place keeps none, so that of too many the right number is left.
        if len(others) >= most:
            return False
        self._places[own] = place
        return True

    async def connected(self, now: int) -> list[Connected]:
        found = [place for place in self._places.values() if place.until > now]
        return sorted(found, key=lambda one: (one.group, one.name, one.server_id, one.gateway))

    async def disconnect(self, gateway: str, name: str | None = None) -> None:
        for key in [key for key in self._places if key[0] == gateway and name in (None, key[1])]:
            del self._places[key]


def _kept(before: ServerSeen | None, server: ServerSeen) -> ServerSeen:
    if before is None:
        return replace(server, first_seen=server.first_seen or server.last_seen)
    return replace(server, first_seen=before.first_seen, last_seen=max(before.last_seen, server.last_seen))
