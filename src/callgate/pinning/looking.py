"""Reading and inspecting stored texts, each once: the same bytes in the same surroundings have the same findings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from callgate.pinning.document import digest
from callgate.pinning.listing import Reader
from callgate.pinning.model import Finding, Listed, Pin, ServerSeen, ToolSeen
from callgate.pinning.settings import Settings

if TYPE_CHECKING:
    from callgate.pinning.inspection import Surroundings

_KEPT: Final = 50_000
K = TypeVar("K")
V = TypeVar("V")


class Stands(Protocol):
    """A server and its tools, as far as its neighbours are concerned."""

    @property
    def seen(self) -> ServerSeen: ...
    @property
    def group(self) -> str: ...
    @property
    def joined(self) -> bool: ...
    @property
    def tools(self) -> tuple[ToolSeen, ...]: ...


class Around(msgspec.Struct, frozen=True):
    """The tools of the other servers that the same agent sees, with a key for what is remembered."""

    server: str
    others: Mapping[str, frozenset[str]]
    growth_percent: float
    key: str

    def surroundings(self, before: Mapping[str, Any] | None) -> Surroundings:
        from callgate.pinning.inspection import Surroundings

        return Surroundings(server=self.server, others=self.others, before=before, growth_percent=self.growth_percent)


class Surrounding:
    """Who stands beside whom, for all servers of a review."""

    def __init__(self, present: Sequence[Stands], growth_percent: float) -> None:
        self._growth = growth_percent
        self._present = present
        self._names = {
            one.seen.server_id: frozenset(tool.tool for tool in one.tools if not tool.gone) for one in present
        }
        self._digests = {server_id: digest(sorted(names)) for server_id, names in self._names.items()}
        self._made: dict[str, Around] = {}

    def of(self, one: Stands) -> Around:
        made = self._made.get(one.seen.server_id)
        if made is None:
            others: dict[str, frozenset[str]] = {}
            parts = [one.seen.name, str(self._growth)]
            for other in self._present:
                # Another version of the same server is no neighbour: all of its names are alike.
                if other.group != one.group or not other.joined or other.seen.lineage == one.seen.lineage:
                    continue
                name = other.seen.name if other.seen.name != one.seen.name else other.seen.server_id
                others[name] = others.get(name, frozenset()) | self._names[other.seen.server_id]
                parts += [name, self._digests[other.seen.server_id]]
            made = Around(one.seen.name, others, self._growth, digest(parts))
            self._made[one.seen.server_id] = made
        return made


class Looking:
    """Remembers what was read and found."""

    def __init__(self) -> None:
        self._listed: dict[tuple[str, str, bytes], Listed] = {}
        self._findings: dict[tuple[bytes, int, str], tuple[Finding, ...]] = {}
        self._tokens: dict[bytes, int] = {}
        self._open: dict[bytes, str] = {}

    def listed(self, server_id: str, tool: ToolSeen, settings: Settings) -> Listed:
        """A stored text, read anew and held against its hash: the store is not believed."""
        if tool.problem or not tool.raw:
            why = tool.problem or "nothing of its definition was kept"
            return Listed(tool.tool, tool.raw, _loosely(tool.raw), problem=why)
        key = (server_id, tool.approval_hash, _sha(tool.raw))
        made = self._listed.get(key)
        if made is None:
            made = Reader(server_id, settings).read(tool.raw)
            if not made.problem and (made.name != tool.tool or made.approval_hash != tool.approval_hash):
                why = "what is stored of it is not what was met; let the server be asked again"
                made = Listed(tool.tool, tool.raw, made.entry, problem=why)
            _keep(self._listed, key, made)
        return made

    def findings(self, listed: Listed, around: Around, before: Pin | None) -> tuple[Finding, ...]:
        if not listed.entry:
            return ()
        key = (_sha(listed.raw), before.seq if before is not None else 0, around.key)
        made = self._findings.get(key)
        if made is None:
            from callgate.pinning.inspection import Inspected, inspect

            former = _loosely(before.raw) if before is not None else None
            made = inspect(Inspected.of(listed.entry), around.surroundings(former or None))
            _keep(self._findings, key, made)
        return made

    def tokens(self, raw: bytes) -> int:
        key = _sha(raw)
        made = self._tokens.get(key)
        if made is None:
            from callgate.pinning.inspection import tokens

            made = tokens(raw.decode(errors="replace"))
            _keep(self._tokens, key, made)
        return made

    def catch_all(self, listed: Listed) -> str:
        """Why the input schema takes nearly anything; empty if it does not."""
        if not listed.entry:
            return ""
        key = _sha(listed.raw)
        made = self._open.get(key)
        if made is None:
            from callgate.pinning.inspection import is_catch_all

            made = is_catch_all(listed.input_schema)
            _keep(self._open, key, made)
        return made


def _keep(where: dict[K, V], key: K, value: V) -> None:
    if len(where) >= _KEPT:
        where.clear()
    where[key] = value


def _sha(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _loosely(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw.decode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
