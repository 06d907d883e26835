"""Labels that are missing where they used to be, and tools that say less of themselves than we assume."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from callgate.trust.labels import Labels
from callgate.trust.model import DESTINATIONS, OUTCOMES, SOURCES, Annotations, class_rank, highest
from callgate.trust.said import said_of
from callgate.trust.vocabulary import RESTRICTED, UNKNOWN

_REMEMBERED: Final = 20000
_WHAT: Final = {
    "annotations": "_meta.annotations",
    "ifc": "_meta.ifc",
    "items": "labels on its content",
    "inputMetadata": "inputMetadata in its listing",
    "returnMetadata": "returnMetadata in its listing",
}


class Stripped(msgspec.Struct, frozen=True):
    """A tool that used to send labels and stopped."""

    server: str
    tool: str
    missing: tuple[str, ...]

    @property
    def text(self) -> str:
        what = ", ".join(_WHAT.get(kind, kind) for kind in self.missing)
        return (
            f"{self.tool} of {self.server} used to send {what} and no longer does; its data is taken as unlabelled. "
            "Ask whoever runs the server, or what stands between, why."
        )


class Expectations:
    """Which kinds of labels each tool has sent before. Each loss is told once, until the labels are back."""

    def __init__(self, known: Mapping[tuple[str, str], Iterable[str]] | None = None) -> None:
        self._sent: OrderedDict[tuple[str, str], frozenset[str]] = OrderedDict()
        self._told: dict[tuple[str, str], frozenset[str]] = {}
        for key, kinds in (known or {}).items():
            self._keep(key, frozenset(kinds))

    @property
    def known(self) -> dict[tuple[str, str], frozenset[str]]:
        """What is expected now, to be handed to the next one."""
        return dict(self._sent)

    def met(self, server: str, tool: str, kinds: frozenset[str]) -> Stripped | None:
        """A result came with these kinds of labels."""
        key = (server, tool)
        before = self._sent.get(key)
        if before is None:
            if kinds:
                self._keep(key, kinds)
            return None
        missing = before - kinds
        if not missing:
            self._told.pop(key, None)
            if kinds != before:
                self._keep(key, kinds)
            return None
        if missing <= self._told.get(key, frozenset()):
            return None
        self._told[key] = missing
        self._keep(key, before | kinds)
        return Stripped(server, tool, tuple(sorted(missing)))

    def _keep(self, key: tuple[str, str], kinds: frozenset[str]) -> None:
        self._sent[key] = kinds
        self._sent.move_to_end(key)
        while len(self._sent) > _REMEMBERED:
            gone, _ = self._sent.popitem(last=False)
            self._told.pop(gone, None)


def lost_in_listing(
    server: str, before: Mapping[str, Annotations], after: Mapping[str, Annotations]
) -> tuple[Stripped, ...]:
    """Tools that are still listed, without the metadata that they had."""
    found = []
    for tool in sorted(before.keys() & after.keys()):
        missing = tuple(
            name
            for name, field in (("inputMetadata", "input"), ("returnMetadata", "returns"))
            if getattr(before[tool], field) is not None and getattr(after[tool], field) is None
        )
        if missing:
            found.append(Stripped(server, tool, missing))
    return tuple(found)


class Understated(msgspec.Struct, frozen=True):
    """A tool whose own word is milder than what holds here."""

    server: str
    tool: str
    field: str
    declared: str
    local: str

    @property
    def text(self) -> str:
        return f"{self.tool} of {self.server} declares {self.field} {self.declared}; here it counts as {self.local}"


def understated(labels: Labels, server: str) -> tuple[Understated, ...]:
    """Tools of a server whose label here is stricter than the declared one: those to look at first."""
    found: list[Understated] = []
    for tool, declared in sorted(labels.declared(server).items()):
        said, label = said_of(declared), labels.listed(server, tool)
        for field, here, order in (
            ("destination", label.destinations, DESTINATIONS),
            ("outcomes", label.outcomes, OUTCOMES),
            ("source", label.sources, SOURCES),
        ):
            words: frozenset[str] | None = getattr(said, field)
            # What nobody can read declares nothing.
            if words and words <= set(order) and _worst(words, order) < _worst(here, order):
                found.append(Understated(server, tool, field, _shown(words, order), _shown(here, order)))
        if said.sensitivity and class_rank(highest(said.sensitivity)) < class_rank(highest(label.returns)):
            found.append(
                Understated(server, tool, "sensitivity", highest(said.sensitivity), highest(label.returns - _OURS))
            )
    return tuple(found)


_OURS: Final = frozenset({UNKNOWN, RESTRICTED})


def _worst(words: frozenset[str], order: tuple[str, ...]) -> int:
    return max(order.index(word) if word in order else len(order) for word in words)


def _shown(words: frozenset[str], order: tuple[str, ...]) -> str:
    return " or ".join(word for word in order if word in words)
