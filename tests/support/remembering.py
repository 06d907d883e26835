"""A session's memory and labels of tools, for tests of where values come from."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from callgate.trust.model import DataLabel, Provenance, Step, ToolLabel, Traced
from callgate.trust.provenance import Bounds, Fingerprints, Memory, trace
from callgate.trust.quarantine import Seals

KEY = bytes(range(32))
WORDS = frozenset


def label(tool: str, source: str = "untrustedPublic", **more: Any) -> ToolLabel:
    """A tool that sends something to others, unless told otherwise; what it returns comes from `source`."""
    given: dict[str, Any] = {
        "server": "office",
        "destinations": WORDS({"public"}),
        "outcomes": WORDS({"irreversible"}),
        "accepts": WORDS({"none"}),
        "returns": WORDS({"user"}),
        "critical_declared": True,
        **more,
    }
    return ToolLabel(tool=tool, sources=WORDS({source}), **given)


def reading(tool: str, source: str, **more: Any) -> ToolLabel:
    return label(tool, source, outcomes=WORDS({"benign"}), destinations=WORDS({"ephemeral"}), read_only=True, **more)


class Talk:
    """A conversation: what was read, and what the next call is made of."""

    def __init__(
        self,
        prompt: str = "",
        *,
        bounds: Bounds | None = None,
        key: bytes = KEY,
        seals: Callable[[], Seals] | None = None,
    ) -> None:
        self.memory = Memory(Fingerprints(key), bounds or Bounds(), seals=seals)
        self.open_world = False
        self.packed: list[bytes] = []
        if prompt:
            self.memory.remember_prompt(prompt)

    def read(
        self,
        tool: ToolLabel,
        structured: Any = None,
        *texts: str,
        arguments: Mapping[str, Any] | None = None,
        secrets: Collection[str] = (),
        unread: bool = False,
        **data: Any,
    ) -> bytes:
        given = {"open_world": not tool.trusted_source, "sources": tool.sources, "sensitivity": tool.returns, **data}
        found = DataLabel(**given)
        packed = self.memory.remember_result(
            tool,
            found,
            structured,
            texts,
            arguments or {},
            open_world=self.open_world,
            secrets=secrets,
            unread=unread,
        )
        self.open_world = self.open_world or found.open_world
        self.packed.append(packed)
        return packed

    def step(self, seq: int) -> Step:
        """A step as the store gives it back."""
        return Step(seq, 0, "", "office", "x", "allow", label=DataLabel(open_world=True), memory=self.packed[seq - 1])

    def strangers(self, text: str) -> bytes:
        """A stranger's text was read."""
        return self.read(reading("fetch_page", "untrustedPublic"), None, text)

    def trace(self, arguments: Mapping[str, Any], *critical: str, tool: str = "send_note", **more: Any) -> Provenance:
        return trace(self.memory, label(tool, critical=critical, **more), arguments)

    def value(self, value: Any, *, name: str = "recipient", tool: str = "send_note") -> Traced:
        """One critical value, traced."""
        return self.trace({name: value}, name, tool=tool).values[0]

    def found(self, value: Any, *, name: str = "recipient", tool: str = "send_note") -> str:
        return self.value(value, name=name, tool=tool).found
