"""What servers say of their tools, as lists of them pass: annotations, and which arguments look critical."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from callgate.jsonrpc.reading import decode_leniently
from callgate.trust.critical import fixed_values, guess
from callgate.trust.labels import Labels
from callgate.trust.model import Annotations
from callgate.trust.proposing import Spared, spared
from callgate.trust.results import lost_in_listing
from callgate.trust.vocabulary import Vocabulary

_TOOLS: Final = 10_000


class AnnotationObserver:
    """Keeps what was learnt when the configuration changes."""

    def __init__(self, stripped: Callable[[str, str, tuple[str, ...]], None]) -> None:
        self._stripped = stripped
        self._labels: Labels | None = None
        self._vocabulary = Vocabulary()
        self._entries: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._known: dict[str, dict[str, Annotations]] = {}
        # Digest of the list that was read last of each server.
        self._read: dict[str, str] = {}

    def teach(self, labels: Labels, vocabulary: Vocabulary) -> None:
        """From now on these labels are told."""
        self._labels, self._vocabulary = labels, vocabulary
        for server in self._entries:
            self._declare(server)

    def listed(self, server: str, result: object) -> None:
        """A page of a server's list."""
        tools = result.get("tools") if isinstance(result, dict) else None
        entries = self._entries.setdefault(server, {})
        new = False
        for entry in tools if isinstance(tools, list) else ():
            name = entry.get("name") if isinstance(entry, dict) else None
            if isinstance(name, str) and (name in entries or len(entries) < _TOOLS) and entries.get(name) != entry:
                entries[name] = entry
                new = True
        if new:
            self._declare(server)

    def met(self, server: str, digest: str, entries: Iterable[bytes]) -> None:
        """A whole list that the gateway read itself: a client may call tools that it never asked a list of."""
        if self._read.get(server) != digest:
            self._read[server] = digest
            self.listed(server, {"tools": [decode_leniently(entry) for entry in entries]})

    def _declare(self, server: str) -> None:
        entries = self._entries[server]
        read = {name: self._vocabulary.tool(entry) for name, entry in entries.items()}
        for lost in lost_in_listing(server, self._known.get(server, {}), read):
            self._stripped(server, lost.tool, lost.missing)
        self._known[server] = read
        if self._labels is not None:
            guessed = {name: _guessed(entry) for name, entry in entries.items()}
            fixed = {name: _fixed(entry) for name, entry in entries.items()}
            self._labels.declare(server, read, guessed, fixed, {name: _spared(one) for name, one in entries.items()})

    def has_output_schema(self, server: str, tool: str) -> bool:
        entry = self._entries.get(server, {}).get(tool)
        return entry is not None and isinstance(entry.get("outputSchema"), dict)


def _fixed(entry: Mapping[str, Any]) -> Mapping[str, frozenset[str]]:
    """The values that a schema has for arguments; none where it breaks the look at it."""
    try:
        return fixed_values(entry.get("inputSchema"), entry.get("description"))
    except Exception:  # noqa: BLE001 - as below
        return {}


def _spared(entry: Mapping[str, Any]) -> Spared | None:
    """The arguments that make a tool graver; none where its entry breaks the look at it."""
    try:
        return spared(entry)
    except Exception:  # noqa: BLE001 - as below
        return None


def _guessed(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Which arguments look critical; where a schema breaks the look at it, whatever a call has is looked at then."""
    try:
        return guess(entry.get("inputSchema"))
    except Exception:  # noqa: BLE001 - a server's schema is a server's: it must not break the list of another
        return ()
