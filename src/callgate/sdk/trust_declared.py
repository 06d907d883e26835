"""What an author declares of a tool, in the form of the trust annotations, and what follows for one call of it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from callgate.errors import ConfigError, place
from callgate.trust import attribution
from callgate.trust.model import Annotations, ToolLabel
from callgate.trust.resolving import answer
from callgate.trust.said import Defaults, Layer, Said, said_of, whole
from callgate.trust.vocabulary import CRITICAL_META, FIELDS_META, UNKNOWN, Vocabulary

log = logging.getLogger("callgate.trust")

Words: TypeAlias = str | Sequence[str]
# A class of data: a word, or {"regulated": {"scopes": [...]}}; or several.
Classes: TypeAlias = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
# From a call's arguments to what holds for it: any of `destination`, `outcomes`, `source`, `sensitivity`,
# `attribution`, `openWorldHint`.
Resolve: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None]
# Whether a call breaks a rule, from its arguments and the annotations of the request.
Forbids: TypeAlias = Callable[[dict[str, Any], Annotations], bool]

_RESOLVED: Final = frozenset({"destination", "outcomes", "source", "sensitivity", "attribution", "openWorldHint"})
_ADVICE: Final = (
    "destination, accepts and outcomes say what a tool does with its input, source and sensitivity what it returns."
)


class Declared(msgspec.Struct, frozen=True):
    """A tool that its author declared."""

    tool: str
    # As they stand in the list of tools.
    annotations: Mapping[str, Any]
    meta: Mapping[str, Any]
    said: Said
    label: ToolLabel
    resolve: Resolve | None = None
    forbids: Mapping[str, Forbids] = {}

    def listed(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The tool's entry in `tools/list`; the SDK's types would leave these members out."""
        made = entry | {"annotations": {**(entry.get("annotations") or {}), **self.annotations}}
        return made | {"_meta": {**(entry.get("_meta") or {}), **self.meta}} if self.meta else made

    async def of(self, arguments: dict[str, Any], vocabulary: Vocabulary) -> ToolLabel:
        """The label of one call. What the author's function cannot tell, or tells wrongly, stays as declared."""
        if self.resolve is None:
            return self.label
        try:
            found = self.resolve(arguments)
            told = await found if inspect.isawaitable(found) else found
            said = Said() if told is None else _read(self.label.server, self.tool, told, vocabulary)
        except Exception as error:  # noqa: BLE001 - arguments are an agent's: whatever they break is undecided
            log.warning("the resolve function of %s failed: %s", self.tool, place(error))
            return self.label
        return self.label if said == Said() else self._narrowed(said)

    def _narrowed(self, told: Said) -> ToolLabel:
        words: dict[str, Any] = {}
        for name in ("destination", "outcomes", "source", "sensitivity"):
            base: frozenset[str] | None = getattr(self.said, name)
            said: frozenset[str] | None = getattr(told, name)
            if said is not None and base is not None:
                # Beyond what is declared nothing can be narrowed; then both are possible.
                words[name] = said if said <= base else base | said
        resolved = Said(**words, open_world=told.open_world, attribution=told.attribution)
        rest = msgspec.structs.replace(self.said, open_world=None)
        return whole(self.label.server, self.tool, [Layer("operator", resolved.over(rest))], Defaults())

    def answer(self, label: ToolLabel) -> dict[str, Any]:
        """The result of `tools/resolve`, with the hints that the author gave to the list."""
        made = answer(self.tool, label, self.label)
        annotations = made["tool"]["annotations"]
        # Nothing is said of what the author said nothing of.
        said = self.said
        for name, known in (
            ("readOnlyHint", said.read_only is not None),
            ("destructiveHint", said.destructive is not None),
            ("openWorldHint", "openWorldHint" in self.annotations),
            ("inputMetadata", said.destination is not None),
            ("returnMetadata", said.source is not None),
        ):
            if not known:
                annotations.pop(name)
        return made


def declared(
    server: str,
    tool: str,
    vocabulary: Vocabulary,
    *,
    destination: Words | None,
    accepts: Classes,
    outcomes: Words | None,
    source: Words | None,
    sensitivity: Classes,
    open_world: bool | None,
    critical: Sequence[str] | None,
    fields: Mapping[str, str] | None,
    resolve: Resolve | None,
    forbids: Mapping[str, Forbids],
) -> Declared:
    """Reads what an author says as strictly as a peer would; ConfigError where it would be taken for unknown."""
    if (destination is None) is not (outcomes is None) or (destination is None and source is None):
        raise ConfigError(
            f"{tool}: say what it does with its input (destination and outcomes), what it returns (source), or both",
            advice=_ADVICE,
        )
    made: dict[str, Any] = {}
    if destination is not None:
        made["inputMetadata"] = {
            "destination": _plain(destination),
            "sensitivity": _plain(accepts),
            "outcomes": _plain(outcomes),
        }
    if source is not None:
        made["returnMetadata"] = {"source": _plain(source), "sensitivity": _plain(sensitivity)}
    meta: dict[str, Any] = {}
    if critical is not None:
        meta[CRITICAL_META] = list(critical)
    if fields:
        meta[FIELDS_META] = dict(fields)
    read = vocabulary.tool({"annotations": made, "_meta": meta})
    if read.problems:
        raise ConfigError(f"{tool}: {read.problems[0].path}: {read.problems[0].text}", advice=_ADVICE)
    said = msgspec.structs.replace(said_of(read), open_world=open_world)
    label = whole(server, tool, [Layer("operator", said)], Defaults())
    if open_world is not None or (destination is not None and source is not None):
        made["openWorldHint"] = label.open_world
    return Declared(tool, made, meta, said, label, resolve, dict(forbids))


def _read(server: str, tool: str, told: object, vocabulary: Vocabulary) -> Said:
    """What a resolve function says; what cannot be read counts as not said."""
    if not isinstance(told, Mapping) or not told.keys() <= _RESOLVED:
        log.warning("the resolve function of %s: expected a mapping of %s", tool, ", ".join(sorted(_RESOLVED)))
        return Said()
    made: dict[str, Any] = {
        # Each field is read for itself, so that the others need not be known.
        "inputMetadata": {
            "destination": _plain(told.get("destination", "public")),
            "sensitivity": "none",
            "outcomes": _plain(told.get("outcomes", "irreversible")),
        },
        "returnMetadata": {
            "source": _plain(told.get("source", "untrustedPublic")),
            "sensitivity": _plain(told.get("sensitivity", "none")),
        },
        "attribution": list(told.get("attribution", ())),
    }
    if "openWorldHint" in told:
        made["openWorldHint"] = told["openWorldHint"]
    read = vocabulary.annotations(made)
    if read.problems or read.input is None or read.returns is None:
        log.warning("the resolve function of %s: %s", tool, read.problems[0].text if read.problems else "unreadable")
        return Said()
    given, returned = read.input, read.returns
    return Said(
        destination=given.destination if "destination" in told else None,
        outcomes=given.outcomes if "outcomes" in told else None,
        source=returned.source if "source" in told else None,
        sensitivity=returned.sensitivity if "sensitivity" in told and UNKNOWN not in returned.sensitivity else None,
        open_world=read.open_world if "openWorldHint" in told else None,
        attribution=tuple(attribution.taken(one, server, tool) for one in read.attribution) or None,
    )


def _plain(value: Any) -> Any:
    """As JSON has it: a word, an object, or a list of these."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return value
