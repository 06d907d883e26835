"""The label of a result: what the tool may return, what the server says of this result, and what its items say.

A result is one unit: one item from the open world, and all of it is. What a server that is not trusted says can only
make it worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from callgate.trust import attribution
from callgate.trust.model import ANNOTATIONS_META, UNTRUSTED, Annotations, DataLabel, ToolLabel
from callgate.trust.resolving import one_class, strictest
from callgate.trust.vocabulary import MAX_ATTRIBUTION, RESTRICTED, UNKNOWN, Vocabulary

MAX_ITEMS: Final = 10000
# Of so many items the labels are read in full; of those after them only whether they are marked.
MAX_LABELLED: Final = 1000
MAX_WARNINGS: Final = 16
FLAGGED: Final = "the server marked this result as malicious activity"
ITEM_FLAGGED: Final = "the server marked part {at} of this result as malicious activity"
TOO_MANY: Final = f"the result has more than {MAX_ITEMS} parts; the labels of the rest were not read"
TOO_MANY_LABELLED: Final = f"the result has more than {MAX_LABELLED} labels; the rest was not read in full"

_DEFAULT: Final = Vocabulary()
# Where an item can have labels.
_MARKS: Final = frozenset({"_meta", "annotations", "resource"})
_ITEM_WORDS: Final = ("openWorldHint", "maliciousActivityHint", "attribution", "returnMetadata")
_NOTHING: Final[frozenset[str]] = frozenset()
_TRUSTED: Final = frozenset({"system", "user", "internal", "trustedPublic"})


class Told(msgspec.Struct, frozen=True):
    """What a result says of itself, all its items together."""

    annotations: Annotations | None = None
    # Some item, or GitHub's label, says open-world, restricted or malicious.
    open_world: bool = False
    restricted: bool = False
    # GitHub's label says the contrary of the first, for the whole result.
    trusted_words: bool = False
    sources: frozenset[str] = _NOTHING
    sensitivity: frozenset[str] = _NOTHING
    attribution: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    # Which kinds of labels were there: `annotations`, `ifc`, `items`.
    kinds: frozenset[str] = _NOTHING
    problems: tuple[str, ...] = ()


def told(result: object, vocabulary: Vocabulary = _DEFAULT) -> Told:
    """Reads the labels of a result and of its items."""
    # Asking whether something is any kind of mapping takes a while, and nearly always it is a plain one.
    if (type(result) is not dict and not isinstance(result, Mapping)) or _is_bare(result):
        return _SILENT
    own = vocabulary.of_meta(result.get("_meta"))
    ifc = vocabulary.ifc_of_meta(result.get("_meta"))
    gathered = _Gathered()
    gathered.kinds |= {kind for kind, there in (("annotations", own), ("ifc", ifc)) if there is not None}
    if own is not None:
        gathered.add(own, FLAGGED)
    if ifc is not None:
        gathered.open_world |= ifc.untrusted is True
        gathered.restricted |= ifc.restricted is True
        gathered.problems += [f"{one.path}: {one.text}" for one in ifc.problems]
    content = result.get("content")
    items = content if isinstance(content, list) else []
    for at, item in enumerate(items[:MAX_ITEMS]):
        gathered.item(at, item, vocabulary)
    if len(items) > MAX_ITEMS:
        gathered.open_world = True
        gathered.problems.append(TOO_MANY)
    return gathered.done(own, trusted_words=ifc is not None and ifc.untrusted is False)


_SILENT: Final = Told()


def _is_bare(result: Mapping[str, Any]) -> bool:
    """Whether nothing in here can hold a label: most results."""
    if "_meta" in result:
        return False
    content = result.get("content")
    if not isinstance(content, list):
        return True
    if len(content) > MAX_ITEMS:
        return False
    for item in content:
        if (type(item) is dict or isinstance(item, Mapping)) and not _MARKS.isdisjoint(item):
            return False
    return True


def of_result(
    tool: ToolLabel,
    said: Told,
    *,
    trusted: bool,
    found: Iterable[str] = (),
    tainted: bool = False,
    secrets: Iterable[str] = (),
) -> DataLabel:
    """The label of a result of this tool. `found` has warnings of our own scan, `tainted` says that it holds an object
    that was written with a stranger's words, `secrets` are the words for each key, token and password in it."""
    if said is _SILENT and not found and not tainted:
        made = _unlabelled(tool)
    else:
        made = _of_result(tool, said, trusted=trusted, found=found, tainted=tainted)
    if secrets:
        made = msgspec.structs.replace(made, secrets=tuple(sorted(set(secrets))))
    return made


def tainted(label: DataLabel) -> DataLabel:
    """The same label for a result of which it shows later that it holds what a stranger wrote."""
    return msgspec.structs.replace(label, open_world=True, sources=label.sources | {UNTRUSTED})


def _unlabelled(tool: ToolLabel) -> DataLabel:
    """Most results say nothing of themselves, so all those of a tool have one label."""
    known = _known.get(id(tool))
    # The tool's label is kept beside it, so its id cannot come to mean another.
    if known is not None and known[0] is tool:
        return known[1]
    made = _of_result(tool, _SILENT, trusted=False, found=(), tainted=False)
    if len(_known) >= _KNOWN:
        _known.clear()
    _known[id(tool)] = tool, made
    return made


_KNOWN: Final = 1_024
_known: Final[dict[int, tuple[ToolLabel, DataLabel]]] = {}


def _of_result(tool: ToolLabel, said: Told, *, trusted: bool, found: Iterable[str], tainted: bool) -> DataLabel:
    sources, sensitivity = _relaxed(tool, said) if trusted else (tool.sources, tool.returns)
    sources |= said.sources
    sensitivity |= said.sensitivity
    if said.restricted:
        sensitivity |= {RESTRICTED}
    suspicious = said.open_world or tainted or not sources or not sources <= _TRUSTED
    if suspicious:
        sources |= {UNTRUSTED}
    warnings = tuple(dict.fromkeys((*said.warnings, *found)))[:MAX_WARNINGS]
    named = [attribution.taken(one, tool.server, tool.tool) for one in (*tool.attribution, *said.attribution)]
    return DataLabel(
        open_world=suspicious,
        malicious=bool(warnings),
        sources=sources,
        sensitivity=_without_none(sensitivity),
        attribution=attribution.united(named or [attribution.of_tool(tool.server, tool.tool)], limit=MAX_ATTRIBUTION),
        warnings=warnings,
    )


def combined(labels: Iterable[DataLabel]) -> DataLabel:
    """One label for data made of several: the worst of each."""
    every = list(labels)
    return DataLabel(
        open_world=any(one.open_world for one in every),
        malicious=any(one.malicious for one in every),
        sources=frozenset().union(*(one.sources for one in every)),
        sensitivity=_without_none(frozenset().union(*(one.sensitivity for one in every))),
        attribution=attribution.united(*(one.attribution for one in every), limit=MAX_ATTRIBUTION),
        warnings=tuple(dict.fromkeys(text for one in every for text in one.warnings))[:MAX_WARNINGS],
        secrets=tuple(sorted({what for one in every for what in one.secrets})),
        masked=sum(one.masked for one in every),
    )


def annotations_of(label: DataLabel, *, share: str = "share") -> dict[str, Any]:
    """Our own `_meta.annotations` of a result: one concrete value for each field."""
    made: dict[str, Any] = {"openWorldHint": label.open_world}
    if label.malicious:
        made["maliciousActivityHint"] = True
    sources = attribution.minimised(label.attribution) if share == "minimise" else label.attribution
    if sources and share != "withhold":
        made["attribution"] = [one for one in sources if attribution.is_attribution(one)]
    source = strictest("source", label.sources)
    made["returnMetadata"] = {
        "source": UNTRUSTED if label.open_world else source,
        "sensitivity": one_class(label.sensitivity),
    }
    return made


class _Gathered:
    """Labels of a result and of its items, being united."""

    def __init__(self) -> None:
        self.open_world = False
        self.restricted = False
        self.sources: frozenset[str] = _NOTHING
        self.sensitivity: frozenset[str] = _NOTHING
        self.attribution: dict[str, None] = {}
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self.kinds: set[str] = set()
        self._labelled = 0

    def add(self, label: Annotations, warning: str) -> None:
        self.open_world |= label.open_world is True
        if label.malicious and len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(warning)
        if label.returns is not None:
            self.sources |= label.returns.source
            self.sensitivity |= label.returns.sensitivity
        if len(self.attribution) < MAX_ATTRIBUTION:
            self.attribution |= dict.fromkeys(label.attribution)
        # Who labels badly has said something that nobody can read: it is not taken for the best.
        self.open_world |= any("Metadata" in one.path for one in label.problems)
        if len(self.problems) < MAX_WARNINGS:
            self.problems += [f"{one.path}: {one.text}" for one in label.problems]

    def item(self, at: int, item: object, vocabulary: Vocabulary) -> None:
        for holder, path in _labelled(item, f"content[{at}]"):
            meta = holder.get("_meta")
            beside = meta if isinstance(meta, Mapping) else {}
            for said, place in (
                (_trusts_own(holder.get("annotations")), f"{path}.annotations"),
                (beside.get(ANNOTATIONS_META), f"{path}._meta.{ANNOTATIONS_META}"),
            ):
                if said is not None:
                    self._count()
                    self.add(vocabulary.annotations(self._affordable(said), place), ITEM_FLAGGED.format(at=at + 1))
            ifc = vocabulary.ifc_of_meta(meta, f"{path}._meta")
            if ifc is not None:
                self.kinds.add("items")
                self.open_world |= ifc.untrusted is True
                self.restricted |= ifc.restricted is True

    def _count(self) -> None:
        self.kinds.add("items")
        self._labelled += 1
        if self._labelled == MAX_LABELLED + 1:
            self.open_world = True
            self.sensitivity |= {UNKNOWN}
            self.problems.insert(0, TOO_MANY_LABELLED)

    def _affordable(self, said: object) -> object:
        if self._labelled <= MAX_LABELLED or not isinstance(said, Mapping):
            return said
        return {name: said[name] for name in ("openWorldHint", "maliciousActivityHint") if name in said}

    def done(self, own: Annotations | None, *, trusted_words: bool) -> Told:
        return Told(
            annotations=own,
            open_world=self.open_world,
            restricted=self.restricted,
            trusted_words=trusted_words and not self.open_world,
            sources=self.sources,
            sensitivity=self.sensitivity,
            attribution=tuple(self.attribution)[:MAX_ATTRIBUTION],
            warnings=tuple(self.warnings),
            kinds=frozenset(self.kinds),
            problems=tuple(self.problems[:MAX_WARNINGS]),
        )


def _labelled(item: object, path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    if isinstance(item, Mapping):
        yield item, path
        if isinstance(resource := item.get("resource"), Mapping):
            yield resource, f"{path}.resource"


def _trusts_own(said: object) -> dict[str, Any] | None:
    """Items have `annotations` of their own (audience, priority); only trust's words there are ours."""
    if not isinstance(said, Mapping):
        return None
    return {name: said[name] for name in _ITEM_WORDS if name in said} or None


def _relaxed(tool: ToolLabel, said: Told) -> tuple[frozenset[str], frozenset[str]]:
    """What a trusted server's words leave of a tool's possible values: a choice among the operator's, or their own."""
    sources, sensitivity = tool.sources, tool.returns
    own = said.annotations
    # Labels that could not be read choose nothing.
    if own is not None and own.problems:
        return sources, sensitivity
    if own is not None and own.returns is not None:
        sources = _chosen(tool, "source", sources, own.returns.source)
        sensitivity = _chosen(tool, "sensitivity", sensitivity, own.returns.sensitivity)
    elif (own is not None and own.open_world is False) or said.trusted_words:
        # Nothing of the open world is in here: what is left of the possible, or the server's own systems.
        sources = _chosen(tool, "source", sources, (sources & _TRUSTED) or frozenset({"internal"}))
    return sources, sensitivity


def _chosen(tool: ToolLabel, name: str, base: frozenset[str], words: frozenset[str]) -> frozenset[str]:
    if UNKNOWN in words:
        return base | words
    if tool.origins.get(name) != "operator":
        return words
    return (base & words) or (base | words)


def _without_none(classes: frozenset[str]) -> frozenset[str]:
    return classes - {"none"} if len(classes) > 1 else classes
