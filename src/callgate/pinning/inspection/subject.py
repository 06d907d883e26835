"""What is inspected: one tool as its server lists it, and what else is connected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

_MEMBERS: Final = frozenset(
    {"name", "description", "inputSchema", "title", "annotations", "outputSchema", "_meta"},
)


class Inspected(msgspec.Struct, frozen=True):
    """A tool's definition. Nothing is taken for granted: every member may be any JSON."""

    name: Any = None
    description: Any = None
    input_schema: Any = None
    title: Any = None
    annotations: Any = None
    output_schema: Any = None
    meta: Any = None
    # Members that the protocol does not name; the model may see them all the same.
    rest: Mapping[str, Any] = {}

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Inspected:
        """A tool entry of a list, as it was decoded."""
        return cls(
            name=entry.get("name"),
            description=entry.get("description"),
            input_schema=entry.get("inputSchema"),
            title=entry.get("title"),
            annotations=entry.get("annotations"),
            output_schema=entry.get("outputSchema"),
            meta=entry.get("_meta"),
            rest={name: value for name, value in entry.items() if name not in _MEMBERS},
        )

    def members(self) -> tuple[tuple[str, Any], ...]:
        """Every member with its name on the wire, the ones a model reads first first."""
        return (
            ("name", self.name),
            ("title", self.title),
            ("description", self.description),
            ("inputSchema", self.input_schema),
            ("annotations", self.annotations),
            ("outputSchema", self.output_schema),
            ("_meta", self.meta),
            *self.rest.items(),
        )


class Surroundings(msgspec.Struct, frozen=True):
    """What stands beside the tool: its server's name, the tools of the other servers that the same agent sees.

    `before` is the entry that was approved earlier, if there is one; growth beyond `growth_percent` is told.
    """

    server: str = ""
    others: Mapping[str, frozenset[str]] = {}
    before: Mapping[str, Any] | None = None
    growth_percent: float = 10.0


NOBODY_ELSE: Final = Surroundings()
