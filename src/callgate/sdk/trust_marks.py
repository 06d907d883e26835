"""What a tool says, while it runs, of the data that it puts into its result: one label for all of it in the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from mcp.server.mcpserver.exceptions import ToolError
from msgspec.structs import replace

from callgate.errors import ConfigError
from callgate.sdk.trust_declared import Classes, Words
from callgate.trust import attribution
from callgate.trust.model import ANNOTATIONS_META, UNTRUSTED, Annotations, DataLabel, ToolLabel
from callgate.trust.results import Told, annotations_of, combined, of_result, told
from callgate.trust.vocabulary import Vocabulary

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
STOPPED: Final = "Stopped: what this step read was flagged as possibly malicious, so the rest was not done."


class Flagged(ToolError):
    """A tool stops here, because of what it has read. The client sees a flagged result, not the text."""

    def __init__(self, warnings: Sequence[str], say: str = STOPPED) -> None:
        super().__init__(" ".join((say, *warnings)))
        self.warnings = tuple(warnings)


class Marks:
    """The labels of one call."""

    def __init__(self, server: str, tool: str, request: Annotations | None = None) -> None:
        self.server = server
        self.tool = tool
        # What the request says of the data in it.
        self.request = request
        self.labels: list[DataLabel] = []
        self.warnings: list[str] = []

    def add(self, one: DataLabel) -> None:
        self.labels.append(one)

    def read(
        self,
        sources: Sequence[str],
        vocabulary: Vocabulary,
        *,
        source: Words,
        sensitivity: Classes,
        open_world: bool | None,
    ) -> None:
        """Data from somewhere is going to be part of the result."""
        given = {"returnMetadata": {"source": _listed(source), "sensitivity": _listed(sensitivity)}}
        label = vocabulary.annotations(given)
        if label.problems or label.returns is None:
            text = label.problems[0].text if label.problems else "the label cannot be read"
            raise ConfigError(f"{self.tool}: {text}", advice="See the words of returnMetadata.")
        named = [self._source(one) for one in sources]
        self.add(
            DataLabel(
                open_world=open_world is True or UNTRUSTED in label.returns.source,
                sources=label.returns.source,
                sensitivity=label.returns.sensitivity,
                attribution=attribution.united(named),
            )
        )

    def _source(self, given: str) -> str:
        """A path is taken for a file; nothing of it says whose machine that is."""
        if given.startswith(("/", "./", "../")) or _DRIVE.match(given):
            return attribution.of_file(given)
        return attribution.taken(given, self.server, self.tool)

    def annotations(self, result: object, label: ToolLabel | None, vocabulary: Vocabulary) -> dict[str, Any] | None:
        """`_meta.annotations` of the result: what was marked, what its items say, and the declared where nothing was
        marked; None where nothing at all is known."""
        said = told(result, vocabulary)
        if label is None:
            if not self.labels and not self.warnings and not said.kinds - {"annotations"}:
                # Nothing, or all of it in the author's own words.
                return self._cleaned(result)
            label = _nothing(self.server, self.tool)
        parts = [*self.labels]
        if said.kinds or not parts:
            parts.append(_of_items(label, said, chosen=bool(parts)))
        whole = combined(parts)
        if not whole.attribution:
            whole = replace(whole, attribution=(attribution.of_tool(self.server, self.tool),))
        if self.warnings or whole.malicious:
            whole = replace(whole, malicious=True, warnings=tuple(self.warnings))
        return annotations_of(whole)

    def _cleaned(self, result: object) -> dict[str, Any] | None:
        """An author's own annotations: as they are, but for sources in a form that says nothing to others."""
        meta = result.get("_meta") if isinstance(result, Mapping) else None
        own = meta.get(ANNOTATIONS_META) if isinstance(meta, Mapping) else None
        if not isinstance(own, Mapping) or not isinstance(own.get("attribution"), list):
            return None
        named = [attribution.taken(str(one), self.server, self.tool) for one in own["attribution"]]
        return {**own, "attribution": list(attribution.united(named))}


def _of_items(label: ToolLabel, said: Told, *, chosen: bool) -> DataLabel:
    """The label that the result and its items carry already. Where the tool marked something itself, the declared
    values are not joined: they were only what could be."""
    if not chosen:
        # The author is believed: these are their own words.
        return of_result(label, said, trusted=True)
    open_world = said.open_world or UNTRUSTED in said.sources
    return DataLabel(
        open_world=open_world,
        malicious=bool(said.warnings),
        sources=said.sources | ({UNTRUSTED} if open_world else frozenset()),
        sensitivity=said.sensitivity,
        attribution=attribution.united([attribution.taken(one, label.server, label.tool) for one in said.attribution]),
        warnings=said.warnings,
    )


def _nothing(server: str, tool: str) -> ToolLabel:
    none: frozenset[str] = frozenset()
    return ToolLabel(server, tool, none, none, none, none, frozenset({"user"}))


def _listed(value: Any) -> Any:
    return value if isinstance(value, str) else dict(value) if hasattr(value, "keys") else list(value)


_CURRENT: Final[ContextVar[Marks | None]] = ContextVar("callgate_marks", default=None)


@contextmanager
def marking(marks: Marks) -> Iterator[Marks]:
    """What is marked inside belongs to this call."""
    token = _CURRENT.set(marks)
    try:
        yield marks
    finally:
        _CURRENT.reset(token)


def current() -> Marks:
    found = _CURRENT.get()
    if found is None:
        raise ConfigError(
            "no tool is running here that labels could belong to",
            advice="Call this from within a tool of a server that TrustLabels is attached to.",
        )
    return found
