"""What is inspected, what else is connected, and what is found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

Tier: TypeAlias = Literal["hard", "soft"]

# The members of a definition that have a field of their own, by their name on the wire.
_FIELDS: Final = {
    "name": "name",
    "title": "title",
    "description": "description",
    "inputSchema": "input_schema",
    "annotations": "annotations",
    "outputSchema": "output_schema",
    "_meta": "meta",
}
# A place that names one member and no other. Names that are unusual or long are quoted and cut, so two of those can
# share a place.
_ONE_PLACE: Final = re.compile(r"[A-Za-z0-9_$.\[\]-]{1,200}\Z")


class ToolDefinition(msgspec.Struct, frozen=True):
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
    def of(cls, entry: Mapping[str, Any]) -> ToolDefinition:
        """A tool entry of a list, as it was decoded."""
        rest = {name: value for name, value in entry.items() if name not in _FIELDS}
        return cls(**{field: entry.get(name) for name, field in _FIELDS.items()}, rest=rest)

    def members(self) -> tuple[tuple[str, Any], ...]:
        """Every member with its name on the wire, the ones a model reads first first."""
        return (*((name, getattr(self, field)) for name, field in _FIELDS.items()), *self.rest.items())


class InspectionContext(msgspec.Struct, frozen=True):
    """What stands beside the tool: its server's name, the tools of the other servers that the same agent sees.

    `before` is the entry that was approved earlier, if there is one; growth beyond `growth_percent` is told.
    """

    server: str = ""
    others: Mapping[str, frozenset[str]] = {}
    before: Mapping[str, Any] | None = None
    growth_percent: float = 10.0


NO_CONTEXT: Final = InspectionContext()


class ToolFinding(msgspec.Struct, frozen=True):
    """Something in a tool's definition that a reviewer should know of.

    `where` is the place as a path (`description`, `inputSchema.properties.note.description`, `name`), `span` the
    characters there. `what` and `why` are one sentence each.
    """

    rule: str
    tier: Tier
    where: str
    what: str
    why: str
    span: tuple[int, int] | None = None
    # For findings between servers: the other server and its tool.
    server: str = ""
    tool: str = ""

    @property
    def spot(self) -> tuple[str, str] | None:
        """Its rule and its place, where no other place is written the same way."""
        return (self.rule, self.where) if _ONE_PLACE.match(self.where) else None
