"""A session's picture for a terminal: its steps from top to bottom, and for each value where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from callgate.approval.display import escape
from callgate.cli.people import moment
from callgate.cli.tools_lines import Line, blank, fact, said

if TYPE_CHECKING:
    from rich.text import Text

    from callgate.trust.picture import Flow, Node, Picture, Tag

STYLES: Final = {"good": "green", "plain": "", "wait": "yellow", "bad": "bold red"}
_RAIL: Final = "   │    "
_BESIDE: Final = f"{_RAIL}       "
_MARKS: Final = {"good": "●", "wait": "◆", "bad": "✖", "plain": "○"}
_WIDTH: Final = 12


def session_lines(picture: Picture) -> Iterator[Line]:
    """All of it; every text of a peer is spelt out."""
    session = picture.session
    yield fact("session", session.key)
    yield fact("agent", escape(session.agent) or "-")
    yield fact("opened", f"{moment(session.opened_at)}, last seen {moment(session.seen_at)}")
    yield Line(tags(picture.tags), f"{'labels':<11} ", " " * 12)
    for source in session.label.attribution[:_WIDTH]:
        yield fact("source", escape(source))
    yield blank()
    if picture.folded:
        steps = "1 earlier step" if picture.folded == 1 else f"{picture.folded} earlier steps"
        yield said(f"   ⋮    {steps}, not shown; their labels still count", "dim")
    for node in picture.calls:
        yield from _step(node, picture)
    if not picture.calls:
        yield said("No call was made in it yet.", "dim")


def tags(found: tuple[Tag, ...]) -> Text:
    """Labels in their colours."""
    from rich.text import Text

    out = Text()
    for at, tag in enumerate(found):
        out.append(", " if at else "").append(escape(tag.text), STYLES[tag.tone])
    return out if found else Text("none", "dim")


def _step(node: Node, picture: Picture) -> Iterator[Line]:
    from rich.text import Text

    head = Text().append(_MARKS[node.tone], STYLES[node.tone]).append("  ")
    if node.kind == "act":
        yield Line(head.append(escape(node.title), "bold"), f"{node.seq:>3} ", _RAIL)
        yield from (said(escape(line), lead=_RAIL) for line in node.why.split("\n") if line)
        yield said(moment(node.at), "dim", lead=_RAIL)
        return
    head.append(escape(node.title), "bold").append(f" on {escape(node.about)}  ")
    head.append(node.verdict, STYLES[node.tone])
    head.append(f"  {escape(node.rule)}" if node.rule else "", "dim")
    yield Line(head, f"{node.seq:>3} ", _RAIL)
    if node.tags:
        yield Line(Text("does   ", "dim").append_text(tags(node.tags)), _RAIL, _BESIDE)
    yield from _why(node)
    for flow in picture.values.get(node.seq, ()):
        yield _value(flow)
    yield from _result(picture.result(node.seq))


def _why(node: Node) -> Iterator[Line]:
    from rich.text import Text

    lines = [line for line in node.why.split("\n") if line.strip()]
    for at, line in enumerate(lines):
        out = Text().append(escape(line), STYLES[node.tone])
        if node.reason and at == len(lines) - 1:
            out.append(f"  {node.reason}", "dim")
        yield Line(out, f"{_RAIL}{'' if at else 'why':<7}", _BESIDE)


def _value(flow: Flow) -> Line:
    from rich.text import Text

    out = Text().append(escape(flow.path), "bold" if flow.critical else "")
    if flow.shown:
        out.append(f" = {escape(flow.shown)}")
    out.append("  ").append(flow.where, STYLES[flow.tone])
    if flow.steps:
        numbers = ", ".join(map(str, flow.steps))
        out.append(f"  ← {numbers}", STYLES[flow.tone])
    return Line(out, f"{_RAIL}takes  ", _BESIDE)


def _result(node: Node | None) -> Iterator[Line]:
    from rich.text import Text

    if node is None:
        yield said("gave   nothing: the call was not made", "dim", lead=_RAIL)
        return
    out = Text().append(escape(node.title), STYLES[node.tone])
    if node.tags:
        out.append("  ").append_text(tags(node.tags))
    yield Line(out, f"{_RAIL}gave   ", _BESIDE)
    if node.about:
        yield said(f"from {escape(node.about)}", "dim", lead=_BESIDE)
    for warning in node.warnings:
        yield said(f"WARNING {escape(warning)}", "bold red", lead=_BESIDE)
