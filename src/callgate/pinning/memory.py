"""A shelf in process memory, for tests and for libraries without a store: nothing outlives the process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callgate.pinning.clearing import Kept, make_room
from callgate.pinning.keeping import (
    check_link,
    check_wanted,
    compare,
    names_of,
    surplus,
    too_many_tools,
    vanish,
)
from callgate.pinning.model import Change, Connected, Pin, ServerSeen, ToolSeen
from callgate.pinning.storage import USUAL, Bounds, Head, Link, Sealed, Wanted

_pin: Final = msgspec.msgpack.Decoder(Pin)
# The texts of each tool of one server, the newest first.
Texts = dict[str, list[ToolSeen]]
# Which hashes of which tools of which servers were decided on.
Decided = dict[str, dict[str, set[str]]]


class MemoryPins:
    """The whole `PinShelf` of storage.py, for one event loop; `witnesses` are those of everything done, in order."""

    def __init__(self) -> None:
        self.witnesses: list[Any] = []
        self._head: Head | None = None
        self._chain: list[Sealed] = []
        self._decided: Decided = {}
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
        live = {place.server_id for place in self._places.values() if place.until > at}
        record = _Record({**self._servers}, {**self._texts}, self._decided)
        record.put(_kept(self._servers.get(key), server), texts, live, bounds)
        self._servers, self._texts = record.servers, record.texts
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

    async def servers(self) -> list[ServerSeen]:
        return sorted(self._servers.values(), key=lambda server: (-server.last_seen, server.server_id))

    async def tools(self, server_id: str | None = None) -> list[ToolSeen]:
        servers = self._texts if server_id is None else {server_id: self._texts.get(server_id, {})}
        found = [held[0] for texts in servers.values() for held in texts.values()]
        if server_id is None:
            found = [one if _is_decided(self._decided, one) else replace(one, raw=b"") for one in found]
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
        return replace(server, first_seen=server.first_seen or server.last_seen, names=names_of(None, server))
    last = max(before.last_seen, server.last_seen)
    return replace(server, first_seen=before.first_seen, last_seen=last, names=names_of(before, server))


def _is_decided(decided: Decided, text: ToolSeen) -> bool:
    return text.approval_hash in decided.get(text.server_id, {}).get(text.tool, ())


class _Record:
    """A copy of what was met, in which room is made: a refusal leaves everything as it was."""

    def __init__(self, servers: dict[str, ServerSeen], texts: dict[str, Texts], decided: Decided) -> None:
        self.servers = servers
        self.texts = texts
        self._decided = decided

    def put(self, server: ServerSeen, texts: Texts, live: Collection[str], bounds: Bounds) -> None:
        key = server.server_id
        before = self._size(key) if key in self.servers else None
        self.servers[key], self.texts[key] = server, texts
        others = [self._kept(one, live) for name, one in self.servers.items() if name != key]
        make_room(self._kept(server, live), others, bounds, self, before)

    def _kept(self, server: ServerSeen, live: Collection[str]) -> Kept:
        key = server.server_id
        fixed = key in self._decided or key in live
        return Kept(_bytes(key), _bytes(server.lineage), server.name, server.last_seen, self._size(key), fixed)

    def _size(self, server_id: str) -> int:
        held = self.texts[server_id].values()
        return sum(len(one.raw) for texts in held for one in texts if not _is_decided(self._decided, one))

    def forget(self, keys: Sequence[bytes]) -> None:
        for key in [key for key in self.servers if _bytes(key) in keys]:
            del self.servers[key], self.texts[key]

    def trim(self, lineage: bytes | None, need: int) -> int:
        spare = sorted(
            (one.last_seen, server_id, name, one.approval_hash, at == 0, len(one.raw))
            for server_id, tools in self.texts.items()
            if lineage in (None, _bytes(self.servers[server_id].lineage))
            for name, held in tools.items()
            for at, one in enumerate(held)
            if self._is_spare(one, newest=at == 0)
        )
        freed = 0
        for _, server_id, name, text, newest, size in spare:
            if freed >= need:
                break
            freed += size
            tools = self.texts[server_id]
            # A tool that is gone goes with all of its texts.
            left = [] if newest else [one for one in tools.get(name, ()) if one.approval_hash != text]
            rest = {other: held for other, held in tools.items() if other != name}
            self.texts[server_id] = {**rest, name: left} if left else rest
        return freed

    def _is_spare(self, text: ToolSeen, *, newest: bool) -> bool:
        if newest:
            return text.gone and text.tool not in self._decided.get(text.server_id, {})
        return not _is_decided(self._decided, text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
