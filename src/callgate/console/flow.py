"""The picture of a session in points and lines: where each box, text and line of the drawing is.

Calls stand on the left, results on the right, the newest at the bottom. What flows from a result to a later call runs
down a lane between them; what is the user's own comes from a line on the far left.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from callgate.approval.display import escape
from callgate.console.rendering import EscapedText
from callgate.trust.picture import EARLIER, USER, Edge, Flow, Node, Picture

LINE: Final = 19
PAD: Final = 12
GAP: Final = 18
_TRUNK: Final = 17
_CALL: Final = 44
_CALL_WIDTH: Final = 324
_RESULT_WIDTH: Final = 252
_LANE: Final = 12
_GUTTER: Final = 64
_ROUND: Final = 7
_MARGIN: Final = 2
# Of the fixed-width letters of the drawing.
_LETTER: Final = 7.6
_BAD_LAST: Final = {"plain": 0, "good": 1, "wait": 2, "bad": 3}


class Words(NamedTuple):
    """One line in a box; `whole` is said where the line had to be cut."""

    y: int
    text: EscapedText
    style: str = ""


class Stroke(NamedTuple):
    """A line with its arrow, and what flows there."""

    path: str
    arrow: str
    tone: str
    title: EscapedText
    source: str
    target: str


@dataclass(frozen=True)
class Box:
    """A node with its place."""

    node: Node
    x: int
    y: int
    width: int
    height: int
    words: list[Words]
    title: EscapedText
    # Where each value of a call is written, from the top of the drawing.
    ports: list[int] = field(default_factory=list)

    @property
    def right(self) -> int:
        return self.x + self.width


def draw(picture: Picture) -> dict[str, Any]:
    """Everything that the template draws of a picture; `trunk` is where the line of the user's own words begins and
    ends, None without them."""
    gutter = max(_GUTTER, _GUTTER - 2 * _LANE + picture.lanes * _LANE)
    result_x = _CALL + _CALL_WIDTH + gutter
    rows: dict[int, list[Node]] = {}
    for node in picture.nodes:
        rows.setdefault(node.row, []).append(node)
    boxes: dict[str, Box] = {}
    y = _MARGIN
    for row in sorted(rows):
        for node in rows[row]:
            boxes[node.id] = _box(node, y, result_x)
        y += max(boxes[node.id].height for node in rows[row]) + GAP
    lane_x = _CALL + _CALL_WIDTH + 32
    strokes = [_stroke(edge, boxes, lane_x) for edge in picture.edges]
    strokes.sort(key=lambda one: _BAD_LAST[one.tone])
    reached = [int(boxes[edge.target].ports[edge.port or 0]) for edge in picture.edges if edge.source == USER]
    trunk = (_TRUNK, boxes[USER].y + boxes[USER].height, max(reached)) if reached else None
    return {
        "width": result_x + _RESULT_WIDTH + _MARGIN,
        "height": y - GAP + _MARGIN,
        "boxes": list(boxes.values()),
        "strokes": strokes,
        "trunk": trunk,
    }


def fit(text: str, width: int) -> EscapedText:
    """Text that goes into so many points of fixed-width letters, what is invisible in it spelt out."""
    shown = escape(text)
    room = int(width / _LETTER)
    used = 0
    for at, char in enumerate(shown):
        used += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used > room:
            return EscapedText(f"{shown[: max(0, at - 1)]}…")
    return EscapedText(shown)


# -- boxes ---------------------------------------------------------------------------------------------------------


def _box(node: Node, y: int, result_x: int) -> Box:
    if node.kind in ("user", "earlier"):
        x, width = (_MARGIN, 200) if node.kind == "user" else (result_x, _RESULT_WIDTH)
        words = [Words(PAD + 13, EscapedText(node.title), "own"), *_tag_words(node, PAD + 13 + LINE)]
    elif node.kind == "result":
        x, width = result_x, _RESULT_WIDTH
        words = list(_result_words(node, width - 2 * PAD))
    else:
        x, width = _CALL, _CALL_WIDTH
        words = list(_call_words(node, width - 2 * PAD))
    height = words[-1].y + PAD
    ports = [y + one.y - 4 for one in words if one.style.startswith("port")]
    return Box(node, x, y, width, height, words, _box_text(node), ports)


def _call_words(node: Node, width: int) -> Iterator[Words]:
    y = PAD + 13
    if node.kind == "act":
        yield Words(y, fit(node.title, width), "name")
        yield Words(y + LINE, fit(node.why, width), "muted")
        return
    yield Words(y, fit(f"{node.seq}  {node.title} · {node.about}", width), "name")
    y += LINE
    decided = f"{node.verdict} · {node.rule}" if node.rule else node.verdict
    yield Words(y, fit(decided, width), f"tone {node.tone}")
    for one in _tag_words(node, y + LINE):
        y += LINE
        yield one
    for flow in node.flows:
        y += LINE
        yield Words(y, fit(_value(flow), width), f"port {flow.tone}{' critical' if flow.critical else ''}")
    if node.more:
        yield Words(y + LINE, EscapedText(f"and {node.more} more"), "muted")


def _result_words(node: Node, width: int) -> Iterator[Words]:
    y = PAD + 13
    yield Words(y, fit(node.title, width), f"tone {node.tone}")
    for one in _tag_words(node, y + LINE):
        y += LINE
        yield one
    if node.about:
        y += LINE
        yield Words(y, fit(node.about, width), "muted")
    if node.warnings:
        yield Words(y + LINE, fit(f"⚠ {node.warnings[0]}", width), "tone bad")


def _tag_words(node: Node, y: int) -> Iterator[Words]:
    if node.tags:
        width = (_CALL_WIDTH if node.kind == "call" else _RESULT_WIDTH) - 2 * PAD
        yield Words(y, fit(" · ".join(tag.text for tag in node.tags), width), f"tone {node.tags[0].tone}")


def _value(flow: Flow) -> str:
    return f"{flow.path} = {flow.shown}" if flow.shown else flow.path


def _box_text(node: Node) -> EscapedText:
    """A box in a sentence, for who hovers over it or has it read aloud."""
    if node.kind == "call":
        return EscapedText(escape(f"Step {node.seq}: {node.title} on {node.about}, {node.verdict}. {node.why}"))
    if node.kind == "result":
        warned = "".join(f" Warning: {one}." for one in node.warnings)
        tags = ", ".join(tag.text for tag in node.tags)
        return EscapedText(escape(f"Result of step {node.seq}: {node.title}{f', {tags}' if tags else ''}.{warned}"))
    return EscapedText(escape(f"{node.title}. {node.why}" if node.why else node.title))


# -- lines ---------------------------------------------------------------------------------------------------------


def _stroke(edge: Edge, boxes: dict[str, Box], lanes: int) -> Stroke:
    source, target = boxes[edge.source], boxes[edge.target]
    if edge.port is None:
        y = source.y + PAD + 9
        title = EscapedText(f"What step {target.node.seq} gave")
        return Stroke(
            f"M{source.right} {y}H{target.x - 6}", _point_right(target.x, y), "plain", title, edge.source, edge.target
        )
    flow = target.node.flows[edge.port]
    y = target.ports[edge.port]
    title = EscapedText(escape(f"{flow.path}: {flow.where}"))
    if edge.source == USER:
        return Stroke(
            f"M{_TRUNK} {y}H{target.x - 6}", _point_right(target.x, y), edge.tone, title, edge.source, edge.target
        )
    lane = lanes + (edge.lane or 0) * _LANE
    # Below the line that leads to the result.
    start = (
        source.y + min(PAD + 9 + LINE, source.height - 6) if edge.source != EARLIER else source.y + source.height // 2
    )
    path = (
        f"M{source.x} {start}H{lane + _ROUND}Q{lane} {start} {lane} {start + _ROUND}"
        f"V{y - _ROUND}Q{lane} {y} {lane - _ROUND} {y}H{target.right + 6}"
    )
    return Stroke(path, _point_left(target.right, y), edge.tone, title, edge.source, edge.target)


def _point_right(x: int, y: int) -> str:
    return f"M{x} {y}l-7 -4v8z"


def _point_left(x: int, y: int) -> str:
    return f"M{x} {y}l7 -4v8z"
