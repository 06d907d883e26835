"""A start from the four hints that tools have anyway: labels where an operator accepts them, or a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from callgate.trust.model import DESTINATIONS, OUTCOMES, SOURCES, UNTRUSTED, Annotations
from callgate.trust.said import Said
from callgate.trust.vocabulary import MAX_VALUE_CHARS

_ORDERS: Final = {"destination": DESTINATIONS, "outcomes": OUTCOMES, "source": SOURCES}
_SHOWN_TOOLS: Final = 1000


def from_hints(annotations: Annotations) -> Said:
    """What the standard hints allow one to say. A hint that is not there says nothing: its field stays unknown.

    idempotentHint says nothing about what a first call does, so nothing follows from it.
    """
    outcomes: frozenset[str] | None = None
    if annotations.read_only:
        outcomes = frozenset({"benign"})
    elif annotations.destructive is False:
        outcomes = frozenset({"consequential"})
    elif annotations.destructive:
        outcomes = frozenset({"consequential", "irreversible"})
    destination: frozenset[str] | None = None
    source: frozenset[str] | None = None
    if annotations.open_world is False:
        destination = frozenset({"ephemeral", "system"} if annotations.read_only else {"user", "internal"})
        source = frozenset({"internal"})
    elif annotations.open_world:
        destination, source = frozenset({"public"}), frozenset({UNTRUSTED})
    return Said(
        destination=destination,
        outcomes=outcomes,
        source=source,
        open_world=annotations.open_world,
        read_only=annotations.read_only,
        destructive=False if annotations.read_only else annotations.destructive,
    )


def starter_table(server: str, tools: Mapping[str, Annotations]) -> str:
    """TOML for callgate.toml to begin with: a table for each tool, with what its hints suggest and what to decide."""
    lines = [
        f"# What the tools of {server} do with data, as their own hints suggest. Read it before you rely on it:",
        "# a hint is the server's word. Keys that are commented out are unknown, which counts as the worst.",
    ]
    for name in sorted(tools)[:_SHOWN_TOOLS]:
        said = from_hints(tools[name])
        lines += ["", f"[servers.{server}.trust.tools.{_toml(name[:MAX_VALUE_CHARS])}]"]
        lines += [
            _line("destination", said.destination, "public"),
            _line("outcomes", said.outcomes, "irreversible"),
            _line("source", said.source, UNTRUSTED),
            _line("sensitivity", None, "user"),
        ]
        if said.read_only is not None:
            lines.append(f"read_only = {str(said.read_only).lower()}")
        if said.open_world is not None:
            lines.append(f"open_world = {str(said.open_world).lower()}")
    if len(tools) > _SHOWN_TOOLS:
        lines += ["", f"# {len(tools) - _SHOWN_TOOLS} more tools are left out."]
    return "\n".join(lines) + "\n"


def _line(key: str, words: frozenset[str] | None, example: str) -> str:
    if not words:
        return f'# {key} = "{example}"'
    ordered = sorted(words, key=_ORDERS[key].index)
    return f"{key} = {json.dumps(ordered[0] if len(ordered) == 1 else ordered)}"


def _toml(name: str) -> str:
    """A key of any letters; a JSON string is a basic string of TOML."""
    return json.dumps(name.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
