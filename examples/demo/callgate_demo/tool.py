"""A tool of an example server: how it is listed, what it does, and whose words it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

# A text that begins like this came from outside; whoever sent it chose its words.
RECEIVED: Final = "From: "
USER: Final = "user"
STRANGER: Final = "untrustedPublic"


class ToolError(Exception):
    """What a tool answers when it cannot do what it was asked."""


class DataFlow(msgspec.Struct, frozen=True):
    """What a tool does with data: where its input goes and to what end, and whose words it returns."""

    destination: str
    outcomes: str
    source: str | list[str] = "system"
    sensitivity: str = "none"
    # Arguments that decide who or what a call affects.
    critical: tuple[str, ...] = ()

    def annotations(self) -> dict[str, Any]:
        return {
            "readOnlyHint": self.outcomes == "benign",
            "destructiveHint": self.outcomes == "irreversible",
            "openWorldHint": self.destination == "public" or STRANGER in self.source,
            "inputMetadata": {
                "destination": self.destination,
                "sensitivity": ["none", "user"],
                "outcomes": self.outcomes,
            },
            "returnMetadata": {"source": self.source, "sensitivity": self.sensitivity},
        }


class ExampleTool(msgspec.Struct, frozen=True):
    """One tool; all that it takes are texts."""

    name: str
    description: str
    takes: Mapping[str, str]
    run: Callable[[dict[str, str]], str]
    flow: DataFlow

    def listed(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": {key: {"type": "string", "description": text} for key, text in self.takes.items()},
                "required": list(self.takes),
                "additionalProperties": False,
            },
            "annotations": self.flow.annotations(),
            "_meta": {"dev.callgate/criticalArgs": list(self.flow.critical)},
        }

    def label(self, text: str) -> dict[str, Any] | None:
        """Whose words one result is, where the list of tools leaves that open."""
        if isinstance(self.flow.source, str):
            return None
        stranger = text.startswith(RECEIVED)
        source = STRANGER if stranger else USER
        return {
            "openWorldHint": stranger,
            "returnMetadata": {"source": source, "sensitivity": self.flow.sensitivity},
        }

    def call(self, arguments: dict[str, Any]) -> str:
        """The text of the result; raises ToolError."""
        for key in self.takes:
            if not isinstance(arguments.get(key), str):
                raise ToolError(f"{self.name} needs {key}, a string")
        if unknown := sorted(arguments.keys() - self.takes.keys()):
            raise ToolError(f"{self.name} does not take {unknown[0][:64]!r}")
        try:
            return self.run(arguments)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{self.name} failed: {error}") from None


def by_name(*tools: ExampleTool) -> dict[str, ExampleTool]:
    return {tool.name: tool for tool in tools}
