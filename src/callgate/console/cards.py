"""A tool as the review draws it: its whole text, its schema, what was found in it and what is new about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from callgate.approval.display import escape
from callgate.console.marking import Branch, Run, Runs, TextMarks, changed_runs, outline, plain
from callgate.console.rendering import EscapedText, exact
from callgate.pinning.judging import beside_of, named_members
from callgate.pinning.review.views import SchemaEdit, ToolView

# The approval covers these; what an entry has beside them the model may see all the same.
_COVERED: Final = ("name", "description", "inputSchema")
# Beside it, by the names of the specification; the last part of `seen_of` is for all others together.
_BESIDE: Final = ("title", "annotations", "outputSchema", "_meta", "icons", "execution")
_WHOLE: Final = 64
_PART: Final = 8
_IN_A_LINE: Final = 72
_BEGINNINGS: Final = {"description": "the description", "name": "the name", "title": "the title"}


def key_of(text: str) -> str:
    """A name for an address: what servers call themselves and their tools could be anything."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def mark_of(view: ToolView) -> str:
    """Another one for each text of each tool and what was found in it, so that a page can tell what it has shown."""
    found = "\0".join(f"{one.rule} {one.where} {one.span} {one.what}" for one in view.findings)
    text = f"{view.approval_hash}\0{view.entry_digest}"
    return key_of(f"{view.server_id}\0{view.tool}\0{text}\0{view.state}\0{found}")[:12]


def seen_of(view: ToolView) -> str:
    """What an approval sends back of what was on the page: the whole entry, what the tool does, and what an override
    would overrule.

    All digits, unlike a mark: servers write the entries. The beginnings that follow only help to say what changed.
    """
    shown = json.dumps([view.entry_digest, view.label, [msgspec.to_builtins(one) for one in view.hard]])
    return hashlib.sha256(shown.encode()).hexdigest() + "".join(_parts(view))


def changed_since(seen: str, view: ToolView) -> str:
    """Which members beside the text are others than on the page that sent this; empty where that cannot be told."""
    before = [seen[at : at + _PART] for at in range(_WHOLE, len(seen), _PART)]
    now = _parts(view)
    if len(before) != len(now):
        return ""
    names = (*_BESIDE, "")
    return named_members([name for name, old, new in zip(names, before, now, strict=True) if old != new])


def _parts(view: ToolView) -> list[str]:
    beside = beside_of(view.raw) if view.entry_digest else {}
    others = json.dumps(sorted((name, value) for name, value in beside.items() if name not in _BESIDE))
    return [key_of(text)[:_PART] for text in (*(beside.get(name, "") for name in _BESIDE), others)]


@dataclass(frozen=True)
class Card:
    """A view of a tool and everything that the template needs of it; parts are made when they are drawn."""

    view: ToolView

    @cached_property
    def id(self) -> str:
        return mark_of(self.view)

    @cached_property
    def seen(self) -> str:
        return seen_of(self.view)

    @cached_property
    def server_key(self) -> str:
        return key_of(self.view.server_id)

    @cached_property
    def tool_key(self) -> str:
        return key_of(self.view.tool)

    @cached_property
    def marks(self) -> TextMarks:
        return TextMarks(self.view.findings)

    @cached_property
    def name(self) -> Runs:
        return self.marks.runs("name", self.view.tool)

    @cached_property
    def plain_name(self) -> EscapedText:
        return EscapedText(escape(self.view.tool))

    @cached_property
    def summary(self) -> Runs:
        return plain(" ".join(self.view.summary.split()))

    @cached_property
    def description(self) -> list[Runs]:
        return self.marks.lines("description", self.view.description)

    @cached_property
    def found(self) -> list[dict[str, Any]]:
        """The hard ones first, each with the number that it has in the text, and its place in words."""
        numbered = sorted(enumerate(self.view.findings, 1), key=lambda one: one[1].tier != "hard")
        return [{"number": number, "finding": one, "place": _place(one.where)} for number, one in numbered]

    @cached_property
    def schema(self) -> list[Branch] | None:
        return outline(self.view.input_schema, "inputSchema", self.marks)

    @cached_property
    def beside(self) -> list[list[Branch] | None]:
        """What the entry has beside what the approval covers, each member a tree."""
        entry = _entry(self.view.raw)
        rest = ((name, value) for name, value in entry.items() if name not in _COVERED)
        return [outline(value, name, self.marks, schema=name == "outputSchema") for name, value in rest]

    @cached_property
    def raw(self) -> EscapedText:
        return exact(self.view.raw.encode("utf-8", "surrogatepass"))

    @cached_property
    def words(self) -> list[tuple[str, Sequence[Run]]]:
        """The description's difference: what stayed, went and came."""
        pieces = self.view.difference.description if self.view.difference else ()
        if all(piece.op == "same" for piece in pieces):
            return []
        return [(piece.op, changed_runs(piece.text, spelt=piece.op != "same")) for piece in pieces]

    @cached_property
    def schema_edits(self) -> list[dict[str, Any]]:
        return [_edit(one) for one in (self.view.difference.schema if self.view.difference else ())]

    @cached_property
    def beside_edits(self) -> list[dict[str, Any]]:
        return [_edit(one) for one in (self.view.difference.beside if self.view.difference else ())]


def _edit(edit: SchemaEdit) -> dict[str, Any]:
    """One difference of a schema, its texts ready to be drawn; `short` where both fit into a line."""
    texts = {name: plain(getattr(edit, name)) for name in ("path", "before", "after")}
    return {"edit": edit, **texts, "short": len(edit.before) + len(edit.after) < _IN_A_LINE}


def _place(where: str) -> str:
    if not where:
        return "Not in this text"
    if where in _BEGINNINGS:
        return f"In {_BEGINNINGS[where]}"
    inside = where.removeprefix("inputSchema.")
    return f"In the schema, at {inside}" if inside != where else f"At {where}"


def _entry(raw: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
