"""Reading and inspecting stored texts, each once: the same bytes in the same surroundings have the same findings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from callgate.inspection import ToolFinding
from callgate.pinning.document import digest
from callgate.pinning.listing import Reader
from callgate.pinning.model import Listed, Pin, ToolSeen
from callgate.pinning.neighbours import Neighbours, Stands
from callgate.pinning.settings import Settings

_KEPT: Final = 50_000
_KEPT_FINDINGS: Final = 200_000
_KEPT_BYTES: Final = 32 * 1024 * 1024
_GROUPS: Final = 32
K = TypeVar("K")
V = TypeVar("V")


class Looking:
    """Remembers what was read and found."""

    def __init__(self) -> None:
        self._listed: dict[tuple[str, str, bytes], Listed] = {}
        self._listed_bytes = 0
        self._findings: dict[tuple[bytes, bytes, str], tuple[ToolFinding, ...]] = {}
        self._findings_kept = 0
        self._tokens: dict[bytes, int] = {}
        self._open: dict[bytes, str] = {}
        self._neighbours: dict[str, Neighbours] = {}

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
            # Texts are as large as a server likes: what is remembered of them is bounded in bytes too.
            self._listed_bytes += len(tool.raw)
            if self._listed_bytes > _KEPT_BYTES:
                self._listed.clear()
                self._listed_bytes = len(tool.raw)
            _keep(self._listed, key, made)
        return made

    def findings(
        self, listed: Listed, server: str, others: Mapping[str, frozenset[str]], before: Pin | None, growth: float
    ) -> tuple[ToolFinding, ...]:
        if not listed.entry:
            return ()
        around = digest([server, {name: sorted(tools) for name, tools in others.items()}, growth])
        # Against itself nothing has grown.
        former = before.raw if before is not None and before.raw != listed.raw else b""
        key = (_sha(listed.raw), _sha(former), around)
        made = self._findings.get(key)
        if made is None:
            from callgate.inspection import InspectionContext, ToolDefinition, inspect

            surroundings = InspectionContext(
                server=server, others=others, before=_loosely(former) or None, growth_percent=growth
            )
            made = inspect(ToolDefinition.of(listed.entry), surroundings)
            # One text may have hundreds: they are what takes the room.
            self._findings_kept += len(made)
            if self._findings_kept > _KEPT_FINDINGS or len(self._findings) >= _KEPT:
                self._findings.clear()
                self._findings_kept = len(made)
            self._findings[key] = made
        return made

    def neighbours(self, members: Sequence[Stands]) -> Neighbours:
        """The names around the tools of one group; made anew only when they are others."""
        parts = [
            [one.seen.server_id, one.seen.name, [tool.tool for tool in one.tools if not tool.gone]] for one in members
        ]
        key = digest(parts)
        made = self._neighbours.get(key)
        if made is None:
            if len(self._neighbours) >= _GROUPS:
                self._neighbours.clear()
            made = self._neighbours[key] = Neighbours(members)
        return made

    def tokens(self, raw: bytes) -> int:
        key = _sha(raw)
        made = self._tokens.get(key)
        if made is None:
            from callgate.inspection import tokens

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
            from callgate.inspection import is_catch_all

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
