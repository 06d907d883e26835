"""One tool before its reviewer, as lines: identity, what changed, findings, the whole text, the schema, the entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from callgate.cli.people import moment
from callgate.cli.pinned import shown
from callgate.cli.tools_diff import difference_lines
from callgate.cli.tools_lines import GUTTER, POINTED, Line, fact, heading, marked, quoted, said, with_hidden
from callgate.cli.tools_marks import spelt
from callgate.cli.tools_schema import schema_tree

if TYPE_CHECKING:
    from rich.text import Text

    from callgate.inspection import ToolFinding
    from callgate.pinning.model import Pin
    from callgate.pinning.review.views import ToolView

STATES: Final = {
    "approved": "green",
    "new": "yellow",
    "changed": "bold yellow",
    "blocked": "red",
    "retired": "yellow",
    "unfit": "red",
    "gone": "dim",
}
_AROUND: Final = 24
_OPENED: Final = "»"
_CLOSED: Final = "«"
_POINTED_MOST: Final = 200


def tool_lines(view: ToolView, *, raw: bool = True) -> Iterator[Line]:
    """Everything there is to know of a tool. Without `raw`, all but the entry as it was received."""
    yield from facts(view)
    if view.difference is not None and view.difference.since is not None:
        yield from difference_lines(view.difference)
    if view.findings:
        yield from heading(f"Findings ({_count(view)})")
        entry = _entry(view.raw)
        for finding in view.findings:
            yield from finding_lines(finding, entry)
    yield from heading("Description, as the model gets it")
    spans = [found.span for found in view.findings if found.where == "description" and found.span]
    yield from quoted(view.description, spans=spans) if view.description else [said("  (none)", "dim")]
    yield from heading("Input schema")
    yield from schema_tree(view.input_schema)
    yield from _beside(view.raw)
    if raw:
        yield from raw_lines(view)


def facts(view: ToolView) -> Iterator[Line]:
    yield fact("tool", shown(view.tool), "bold")
    yield fact("server", f"{shown(view.server)}  {shown(view.server_id)}")
    yield fact("state", view.state, STATES.get(view.state, ""))
    yield fact("hash", view.approval_hash or "none")
    yield fact("size", f"{view.size:,} bytes, about {view.tokens:,} tokens")
    yield fact("met", f"first {moment(view.first_seen)}, last {moment(view.last_seen)}")
    if view.does:
        approved = view.pin is not None and bool(view.pin.label)
        yield fact("does", f"{shown(view.does)}{'' if approved else ', as proposed'}", "bold")
    if view.summary:
        yield fact("summary", shown(view.summary))
    if view.pin is not None:
        yield fact("decision", decided(view.pin))
    if view.problem:
        yield fact("problem", shown(view.problem), "red")
    elif view.refusal:
        yield fact("calls", f"refused: {shown(view.refusal)}")
    for hint in view.hints:
        yield fact("note", shown(hint), "cyan")


def decided(pin: Pin) -> str:
    """A decision in a sentence."""
    did = {"approve": "approved", "block": "blocked", "withdraw": "withdrawn"}[pin.action]
    note = f": {shown(pin.note)}" if pin.note else ""
    over = f", overruling {', '.join(map(shown, pin.overrides))}" if pin.overrides else ""
    return f"{did} {moment(pin.approved_at)} by {shown(pin.approved_by)}{over}{note}"


def finding_lines(finding: ToolFinding, entry: Any = None) -> Iterator[Line]:
    """What was found, where and why it matters, with the place itself."""
    style = "bold red" if finding.tier == "hard" else "yellow"
    where = f"  {shown(finding.where)}{_characters(finding.span)}" if finding.where else ""
    yield said(f"{finding.tier.upper():<5} {shown(finding.rule)}{where}", style, lead="  ", rest="        ")
    yield said(f"{shown(finding.what)} {shown(finding.why)}", lead=" " * 8)
    text = at(entry, finding.where)
    if finding.span is not None and isinstance(text, str):
        yield Line(_excerpt(text, finding.span), "      │ ")


def _characters(span: tuple[int, int] | None) -> str:
    if span is None:
        return ""
    first, last = span[0] + 1, span[1]
    return f", character {first}" if last <= first else f", characters {first}–{last}"


def _excerpt(text: str, span: tuple[int, int]) -> Text:
    """The words around a span, which is put between marks; a long one by its beginning, it is marked below whole."""
    from rich.text import Text

    start, end = max(0, span[0]), min(len(text), span[1], span[0] + _POINTED_MOST)
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    return Text.assemble(
        "…" if first else "",
        _around(text[first:start]),
        (_OPENED, POINTED),
        _around(text[start:end], POINTED),
        ("…" if end < min(len(text), span[1]) else "") + _CLOSED,
        _around(text[end:last]),
        "…" if last < len(text) else "",
    )


def _around(text: str, style: str = "") -> Text:
    """Words of an excerpt; our marks are spelt out in them, for where there is no colour to tell them by."""
    from rich.text import Text

    from callgate.approval.display import escape

    seen = escape(text).replace(_OPENED, spelt(_OPENED)).replace(_CLOSED, spelt(_CLOSED))
    return with_hidden(Text(seen, style=style))


def raw_lines(view: ToolView) -> Iterator[Line]:
    """The entry byte for byte; what JSON leaves invisible is spelt the way JSON could have spelt it."""
    from rich.text import Text

    from callgate.approval.display import escape_rest

    yield from heading("The whole entry, as it was received")
    for line in escape_rest(view.raw).split("\n"):
        yield Line(with_hidden(Text(line)), GUTTER, GUTTER)


def _beside(raw: str) -> Iterator[Line]:
    """Members that the approval does not cover."""
    entry = _entry(raw)
    others = {name: value for name, value in entry.items() if name not in ("name", "description", "inputSchema")}
    if others:
        yield from heading("Beside it (a change here is reported, and asks for no new approval by default)")
        for name, value in others.items():
            if name == "outputSchema" and isinstance(value, dict):
                yield said("outputSchema:", lead="  ")
                yield from schema_tree(value, "    ")
                continue
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield Line(marked(f"{name}: {text}", keep_lines=False), "  ", "    ")


def at(entry: Any, where: str) -> Any:
    """What stands at a path of a finding; None where the path leads nowhere. Keys may have dots in them."""
    if not where:
        return entry
    parts = where.split(".")
    if isinstance(entry, Mapping):
        for count in range(len(parts), 0, -1):
            key = ".".join(parts[:count])
            if key in entry:
                return at(entry[key], ".".join(parts[count:]))
    if isinstance(entry, list):
        index = parts[0].strip("[]")
        if index.isdecimal() and int(index) < len(entry):
            return at(entry[int(index)], ".".join(parts[1:]))
    return None


def _entry(raw: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _count(view: ToolView) -> str:
    hard = len(view.hard)
    soft = len(view.findings) - hard
    return ", ".join(f"{number} {tier}" for number, tier in ((hard, "hard"), (soft, "soft")) if number)
