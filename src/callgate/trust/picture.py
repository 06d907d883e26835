"""A session as a picture: its calls and results in order, and what flowed from one to the other.

Everything in it may be a peer's own text. Texts are bounded here; who draws them makes them harmless for where they
are drawn, HTML or a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callgate.trust.keeping import DECLASSIFIED
from callgate.trust.model import UNTRUSTED, DataLabel, Found, Session, SessionLabel, Step, Traced, class_rank, highest
from callgate.trust.words import Because, because, met

# So many steps are drawn, the newest; those before are one node. More helps nobody, and stalls a browser.
STEPS: Final = 60
# Of one call: values that are drawn, and the results that one value is drawn from. The list of steps has all of them.
FLOWS: Final = 8
SOURCES: Final = 4
# Lines that run side by side; more of them share the last.
LANES: Final = 12
TEXT: Final = 400
WHY: Final = 1000
_NAMES: Final = 64
_ENTRIES: Final = 16

USER: Final = "user"
EARLIER: Final = "earlier"

# How bad something is, for whoever gives it a colour.
Tone: TypeAlias = Literal["good", "plain", "wait", "bad"]
NodeKind: TypeAlias = Literal["user", "earlier", "call", "result", "act"]

_TONES: Final[Mapping[str, Tone]] = {
    "endorsed": "good",
    "prompt": "good",
    "clean": "good",
    "trusted": "good",
    "linked": "good",
    "own": "plain",
    "nowhere": "wait",
    "untrusted": "bad",
}
_USERS: Final = frozenset({"endorsed", "prompt", "clean"})
VERDICTS: Final[Mapping[str, tuple[str, Tone]]] = {
    "allow": ("allowed", "good"),
    "ask": ("approved by a person", "wait"),
    "refuse": ("refused", "bad"),
    DECLASSIFIED: ("declassified", "wait"),
}


class Tag(msgspec.Struct, frozen=True):
    """A label in a word or two."""

    text: str
    tone: Tone = "plain"


class Flow(msgspec.Struct, frozen=True):
    """One value of a call, where it was met, and the drawn nodes that it came from."""

    path: str
    shown: str
    found: Found
    where: str
    tone: Tone
    critical: bool = False
    # Node ids, for the lines; and the steps by number, also those that are no longer drawn.
    sources: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()


class Node(msgspec.Struct, frozen=True):
    """Something drawn. `row` counts from the top; a call and its result share one."""

    id: str
    kind: NodeKind
    row: int
    title: str
    about: str = ""
    tone: Tone = "plain"
    tags: tuple[Tag, ...] = ()
    flows: tuple[Flow, ...] = ()
    # Values that are not drawn.
    more: int = 0
    seq: int = 0
    at: int = 0
    verdict: str = ""
    rule: str = ""
    # In a sentence; `reason` is the machine-readable one of a call that was refused.
    why: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True):
    """What flows from one node to another. `port` is the value of the call that it ends at, None between a call and
    its own result; `lane` is the line in which it runs down from its result."""

    source: str
    target: str
    label: str = ""
    tone: Tone = "plain"
    port: int | None = None
    lane: int | None = None


class Picture(msgspec.Struct, frozen=True):
    """All of it. `folded` counts the steps that stand behind the one node for what was before."""

    session: Session
    # What it has taken in, every class by its name.
    tags: tuple[Tag, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    rows: int
    lanes: int
    folded: int = 0
    # Every value of every drawn step, by number.
    values: Mapping[int, tuple[Flow, ...]] = {}

    @property
    def calls(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.kind in ("call", "act"))

    def result(self, seq: int) -> Node | None:
        """What came back of a step, if anything did."""
        return next((node for node in self.nodes if node.kind == "result" and node.seq == seq), None)


def picture(session: Session, steps: Sequence[Step], *, most: int = STEPS) -> Picture:
    """The picture of a session from its newest steps."""
    drawn = sorted(steps, key=lambda step: step.seq)[-max(1, most) :]
    folded = max(session.steps - len(drawn), 0) if drawn else session.steps
    known = {step.seq for step in drawn if step.label is not None}
    said = {step.seq: _because(step) for step in drawn}
    values = {
        step.seq: tuple(_flow(traced, known, folded > 0) for traced in (*step.provenance, *said[step.seq].links))
        for step in drawn
    }
    nodes: list[Node] = []
    if any(flow.found in _USERS for flows in values.values() for flow in flows):
        nodes.append(Node(USER, "user", 0, "The user's own words", tone="good"))
    if folded:
        about = f"{folded} earlier {'step' if folded == 1 else 'steps'}"
        nodes.append(Node(EARLIER, "earlier", 0, about, tags=session_tags(session.label)))
    top = 1 if nodes else 0
    for row, step in enumerate(drawn, top):
        nodes += _nodes(step, said[step.seq], values[step.seq], row)
    edges, lanes = _lanes(list(_edges(nodes)), {node.id: node.row for node in nodes})
    return Picture(
        session=session,
        tags=every_tag(session.label),
        nodes=tuple(nodes),
        edges=tuple(edges),
        rows=top + len(drawn),
        lanes=lanes,
        folded=folded,
        values=values,
    )


# -- labels --------------------------------------------------------------------------------------------------------


def session_tags(label: SessionLabel) -> tuple[Tag, ...]:
    """What a session has taken in, in short: the most sensitive class, and how many more there are."""
    return tuple(_tags(open_world=label.open_world, malicious=label.malicious, sensitivity=label.sensitivity))


def every_tag(label: SessionLabel) -> tuple[Tag, ...]:
    """The same with every class by its name, the most sensitive first: who declassifies has to know them."""
    known = label.sensitivity - {"none"}
    short = _tags(open_world=label.open_world, malicious=label.malicious, sensitivity=frozenset())
    classes = sorted(known, key=lambda one: (-class_rank(one), one))
    more = len(classes) - _ENTRIES
    named = [Tag(_cut(one, _NAMES), "wait") for one in classes[:_ENTRIES]]
    return (*short, *named, *([Tag(f"{more} more", "wait")] if more > 0 else []))


def data_tags(label: DataLabel) -> tuple[Tag, ...]:
    """What a result is."""
    tags = tuple(_tags(open_world=label.open_world, malicious=label.malicious, sensitivity=label.sensitivity))
    if not label.secrets:
        return tags
    held = f"{label.masked} secret{'s' if label.masked > 1 else ''} masked" if label.masked else "secrets"
    return (*tags, Tag(f"{held}: {', '.join(_cut(one, _NAMES) for one in label.secrets[:_ENTRIES])}", "wait"))


def tool_tags(label: Mapping[str, Any]) -> tuple[Tag, ...]:
    """Where a call's input goes and what comes of it, as far as the step says."""
    words = (*_words(label.get("destination")), *_words(label.get("outcome", label.get("outcomes"))))
    strong = {"public", "irreversible"}
    return tuple(Tag(word, "wait" if word in strong else "plain") for word in dict.fromkeys(words))


def _tags(*, open_world: bool, malicious: bool, sensitivity: frozenset[str]) -> Iterator[Tag]:
    if malicious:
        yield Tag("malicious", "bad")
    if open_world:
        yield Tag("open world", "bad")
    top = highest(sensitivity)
    if top != "none":
        more = len(sensitivity - {top, "none"})
        yield Tag(f"{_cut(top, _NAMES)}{f' +{more}' if more else ''}", "wait")


def _words(value: object) -> tuple[str, ...]:
    some: Iterable[object] = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    return tuple(_cut(one, _NAMES) for one in some if isinstance(one, str))[:_ENTRIES]


def _result_tone(label: DataLabel) -> Tone:
    if label.malicious or label.open_world or UNTRUSTED in label.sources:
        return "bad"
    return "good" if label.sources else "wait"


# -- nodes ---------------------------------------------------------------------------------------------------------


def _because(step: Step) -> Because:
    return because(step.why, step.rule) if step.verdict == "refuse" else Because(step.why)


def _nodes(step: Step, said: Because, flows: tuple[Flow, ...], row: int) -> Iterator[Node]:
    words, tone = VERDICTS.get(step.verdict, (_cut(step.verdict, _NAMES) or "undecided", "bad"))
    if step.verdict == DECLASSIFIED:
        yield Node(
            id=f"act-{step.seq}",
            kind="act",
            row=row,
            title=f"Declassified by {_cut(step.rule)}",
            tone=tone,
            seq=step.seq,
            at=step.at,
            verdict=words,
            why=_cut(step.why, WHY),
        )
        return
    # What may be a stranger's first: of many values, the last are the ones not drawn.
    ordered = sorted(flows, key=lambda flow: (flow.tone != "bad", flow.tone != "wait", not flow.critical))
    yield Node(
        id=f"call-{step.seq}",
        kind="call",
        row=row,
        title=_cut(step.tool),
        about=_cut(step.server),
        tone=tone,
        tags=tool_tags(step.tool_label),
        flows=tuple(ordered[:FLOWS]),
        more=max(len(flows) - FLOWS, 0),
        seq=step.seq,
        at=step.at,
        verdict=words,
        rule=_cut(step.rule, _NAMES),
        why=_cut(said.sentence, WHY),
        reason=said.reason,
    )
    if step.label is not None:
        yield Node(
            id=f"result-{step.seq}",
            kind="result",
            row=row,
            title=", ".join(sorted(_cut(one, _NAMES) for one in step.label.sources)[:_ENTRIES]) or "unknown source",
            about=", ".join(_cut(one) for one in step.label.attribution[:_ENTRIES]),
            tone=_result_tone(step.label),
            tags=data_tags(step.label),
            seq=step.seq,
            at=step.at,
            warnings=tuple(_cut(one) for one in step.label.warnings[:_ENTRIES]),
        )


def _flow(traced: Traced, known: set[int], folded: bool) -> Flow:
    if traced.found in _USERS:
        sources: list[str] = [USER]
    elif traced.found == "nowhere":
        sources = []
    else:
        drawn = sorted((seq for seq in set(traced.steps) if seq in known), reverse=True)
        sources = [f"result-{seq}" for seq in drawn[:SOURCES]]
        if not sources and folded and traced.steps:
            sources = [EARLIER]
    return Flow(
        path=_cut(traced.path, _NAMES),
        shown=_cut(traced.shown),
        found=traced.found,
        where=met(traced),
        tone=_TONES.get(traced.found, "bad"),
        critical=traced.critical,
        sources=tuple(sources),
        steps=tuple(sorted(set(traced.steps))[-_ENTRIES:]),
    )


def _cut(text: str, most: int = TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# -- lines ---------------------------------------------------------------------------------------------------------


def _edges(nodes: Sequence[Node]) -> Iterator[Edge]:
    there = {node.id: node for node in nodes}
    for node in nodes:
        if node.kind == "result":
            yield Edge(f"call-{node.seq}", node.id, tone=node.tone)
        for port, flow in enumerate(node.flows):
            for source in flow.sources:
                # A value cannot come from a result that was not there yet.
                if source in there and (there[source].row < node.row or source == USER):
                    yield Edge(source, node.id, flow.path, flow.tone, port)


def _lanes(edges: list[Edge], rows: Mapping[str, int]) -> tuple[list[Edge], int]:
    """A line of its own for each result that something flows from, from there down to where it ends."""
    ends: dict[str, int] = {}
    for edge in edges:
        if edge.port is not None and edge.source != USER:
            ends[edge.source] = max(ends.get(edge.source, 0), rows[edge.target])
    taken: list[int] = []
    lane_of: dict[str, int] = {}
    for source in sorted(ends, key=lambda one: (rows[one], one)):
        free = next((lane for lane, until in enumerate(taken) if until < rows[source]), None)
        if free is None and len(taken) < LANES:
            free = len(taken)
            taken.append(0)
        lane_of[source] = LANES - 1 if free is None else free
        taken[lane_of[source]] = max(taken[lane_of[source]], ends[source])
    placed = [
        msgspec.structs.replace(edge, lane=lane_of[edge.source])
        if edge.port is not None and edge.source in lane_of
        else edge
        for edge in edges
    ]
    return placed, len(taken)
