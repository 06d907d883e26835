"""One tool as its reviewer sees it: identity, changes, findings, the whole text, the schema as a tree, the entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from callgate.approval.display import escape, escape_rest
from callgate.cli.printing import (
    GUTTER,
    POINTED,
    Line,
    blank,
    escaped,
    fact,
    heading,
    highlight_escapes,
    mark_spans,
    moment,
    quote_lines,
    text_line,
)
from callgate.cli.tools.diff import difference_lines, spell_out
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
_STEP: Final = "  "
# Keywords whose value is one schema, and those with several of them.
_ONE: Final = frozenset(
    {
        "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
        "unevaluatedItems", "unevaluatedProperties", "contentSchema",
    }
)  # fmt: skip
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
# Say by themselves what is taken.
_ELSEWHERE: Final = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum", "const"})
_LISTED: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


def tool_lines(view: ToolView, *, raw: bool = True) -> Iterator[Line]:
    """Everything there is to know of a tool. Without `raw`, all but the entry as it was received."""
    yield from facts(view)
    if view.difference is not None and view.difference.since is not None:
        yield from difference_lines(view.difference)
    if view.findings:
        yield from heading(f"Findings ({count_findings(view)})")
        entry = _entry(view.raw)
        for finding in view.findings:
            yield from finding_lines(finding, entry)
    yield from heading(view.text_heading)
    spans = [found.span for found in view.findings if found.where == "description" and found.span]
    yield from quote_lines(view.description, spans=spans) if view.description else [text_line("  (none)", "dim")]
    if view.schema_heading:
        yield from heading(view.schema_heading)
        yield from schema_tree(view.input_schema)
    yield from _unhashed_lines(view.raw)
    if raw:
        yield from raw_lines(view)


def brief_lines(view: ToolView) -> Iterator[Line]:
    """All that a model reads of an item, in few lines: for a person who reads many of them one after the other."""
    yield blank()
    told = {"tool": view.does, "prompt": "a prompt that people can choose"}.get(view.kind, view.text_heading)
    yield text_line(f"{escaped(view.tool)}: {escaped(told)}", "bold", rest="  ")
    for hint in view.hints:
        yield text_line(escaped(hint), "cyan", lead="  ", rest="    ")
    if view.difference is not None and view.difference.since is not None:
        yield from difference_lines(view.difference)
    for finding in view.findings:
        yield text_line(f"{escaped(finding.what)}", "yellow", lead="  ", rest="    ")
    if view.description:
        yield from quote_lines(view.description)
    if view.schema_heading and not _is_empty(view.input_schema):
        yield from schema_tree(view.input_schema)
    yield from _unhashed_lines(view.raw, brief=True)


def _is_empty(schema: Any) -> bool:
    """Whether a schema says no more than that there is nothing to give."""
    if schema is None:
        return True
    known = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    return isinstance(schema, dict) and all(name in known and value == known[name] for name, value in schema.items())


def facts(view: ToolView) -> Iterator[Line]:
    yield fact("tool", escaped(view.tool), "bold")
    yield fact("server", f"{escaped(view.server)}  {escaped(view.server_id)}")
    yield fact("state", view.state, STATES.get(view.state, ""))
    yield fact("hash", view.approval_hash or "none")
    yield fact("size", f"{view.size:,} bytes, about {view.tokens:,} tokens")
    yield fact("met", f"first {moment(view.first_seen)}, last {moment(view.last_seen)}")
    if view.does:
        approved = view.pin is not None and bool(view.pin.label)
        yield fact("does", f"{escaped(view.does)}{'' if approved else ', as proposed'}", "bold")
    if view.summary:
        yield fact("summary", escaped(view.summary))
    if view.pin is not None:
        yield fact("decision", decision_text(view.pin))
    if view.problem:
        yield fact("problem", escaped(view.problem), "red")
    elif view.refusal:
        yield fact("calls", f"refused: {escaped(view.refusal)}")
    for hint in view.hints:
        yield fact("note", escaped(hint), "cyan")


def decision_text(pin: Pin) -> str:
    """A decision in a sentence."""
    did = {"approve": "approved", "block": "blocked", "withdraw": "withdrawn"}[pin.action]
    note = f": {escaped(pin.note)}" if pin.note else ""
    over = f", overruling {', '.join(map(escaped, pin.overrides))}" if pin.overrides else ""
    return f"{did} {moment(pin.approved_at)} by {escaped(pin.approved_by)}{over}{note}"


def finding_lines(finding: ToolFinding, entry: Any = None) -> Iterator[Line]:
    """What was found, where and why it matters, with the place itself."""
    style = "bold red" if finding.tier == "hard" else "yellow"
    where = f"  {escaped(finding.where)}{_characters(finding.span)}" if finding.where else ""
    yield text_line(f"{finding.tier.upper():<5} {escaped(finding.rule)}{where}", style, lead="  ", rest="        ")
    yield text_line(f"{escaped(finding.what)} {escaped(finding.why)}", lead=" " * 8)
    text = value_at(entry, finding.where)
    if finding.span is not None and isinstance(text, str):
        yield Line(_excerpt(text, finding.span), "      │ ")


def _characters(span: tuple[int, int] | None) -> str:
    if span is None:
        return ""
    first, last = span[0] + 1, span[1]
    return f", character {first}" if last <= first else f", characters {first}–{last}"


def _excerpt(text: str, span: tuple[int, int]) -> Text:
    """The words around a span, which is put between marks; a long one by its beginning, it is marked below whole."""
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
    seen = escape(text).replace(_OPENED, spell_out(_OPENED)).replace(_CLOSED, spell_out(_CLOSED))
    return highlight_escapes(Text(seen, style=style))


def raw_lines(view: ToolView) -> Iterator[Line]:
    """The entry byte for byte; what JSON leaves invisible is spelt the way JSON could have spelt it."""
    yield from heading("The whole entry, as it was received")
    for line in escape_rest(view.raw).split("\n"):
        yield Line(highlight_escapes(Text(line)), GUTTER, GUTTER)


def _unhashed_lines(raw: str, *, brief: bool = False) -> Iterator[Line]:
    """Members that the approval does not cover."""
    entry = _entry(raw)
    others = {name: value for name, value in entry.items() if name not in ("name", "description", "inputSchema")}
    if others and not brief:
        yield from heading("Beside it (a change here asks for a new review; one of _meta or icons is only reported)")
    for name, value in others.items():
        if name == "outputSchema" and isinstance(value, dict):
            yield text_line("outputSchema:", lead="  ")
            yield from schema_tree(value, "    ")
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield Line(mark_spans(f"{name}: {text}", keep_lines=False), "  ", "    ")


def value_at(entry: Any, where: str) -> Any:
    """What stands at a path of a finding; None where the path leads nowhere. Keys may have dots in them."""
    if not where:
        return entry
    parts = where.split(".")
    if isinstance(entry, Mapping):
        for count in range(len(parts), 0, -1):
            key = ".".join(parts[:count])
            if key in entry:
                return value_at(entry[key], ".".join(parts[count:]))
    if isinstance(entry, list):
        index = parts[0].strip("[]")
        if index.isdecimal() and int(index) < len(entry):
            return value_at(entry[int(index)], ".".join(parts[1:]))
    return None


def _entry(raw: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def count_findings(view: ToolView) -> str:
    hard = len(view.hard)
    soft = len(view.findings) - hard
    return ", ".join(f"{number} {tier}" for number, tier in ((hard, "hard"), (soft, "soft")) if number)


def schema_tree(schema: Any, indent: str = _STEP) -> Iterator[Line]:
    """The lines of a schema and of those within it."""
    if not isinstance(schema, dict):
        yield _line(indent, _json(schema))
        return
    yield _line(indent, _kind(schema), "cyan")
    yield from _members(schema, indent)


def _members(schema: dict[str, Any], indent: str) -> Iterator[Line]:
    known = schema.get("properties")
    names = set(known) if isinstance(known, dict) else set()
    for keyword, value in schema.items():
        if keyword == "type" and _type(value):
            continue
        if keyword == "required" and _all_in(value, names):
            continue
        yield from _member(keyword, value, indent, _required_names(schema))


def _member(keyword: str, value: Any, indent: str, required: set[str]) -> Iterator[Line]:
    deeper = indent + _STEP
    if keyword in _NAMED and isinstance(value, dict) and value:
        if keyword != "properties":
            yield _line(indent, f"{keyword}:", "bold")
        for name, within in value.items():
            must = keyword == "properties" and name in required
            # A mark of its own, or a property called `maxLength` could pass for the keyword.
            yield from _named_schema(name, within, indent if keyword == "properties" else deeper, must=must, mark="• ")
    elif keyword in _ONE and isinstance(value, dict):
        yield from _named_schema(keyword, value, indent)
    elif keyword in _LISTED and isinstance(value, list) and value:
        yield _line(indent, f"{keyword}:", "bold")
        for at, within in enumerate(value):
            yield from _named_schema(f"[{at}]", within, deeper)
    elif isinstance(value, str) and "\n" in value:
        yield Line(mark_spans(f"{keyword}:", keep_lines=False), indent, deeper)
        yield from quote_lines(value, f"{deeper}│ ")
    else:
        yield from _plain(keyword, value, indent)


def _named_schema(name: str, schema: Any, indent: str, *, must: bool = False, mark: str = "") -> Iterator[Line]:
    kind = _kind(schema) if isinstance(schema, dict) else _json(schema)
    told = ", ".join(word for word in (kind, "required" if must else "") if word)
    text = Text.assemble(mark_spans(mark + name, keep_lines=False, style="bold"), "  ", (told, "cyan"))
    if not isinstance(schema, dict):
        yield Line(text, indent, indent + _STEP)
        return
    # What is short stands on the line of its name: a page holds twice as many parameters.
    short = [keyword for keyword, value in schema.items() if _is_short(keyword, value)]
    for keyword in short:
        text.append_text(Text.assemble("  ", mark_spans(f"{keyword}: {_json(schema[keyword])}", keep_lines=False)))
    yield Line(text, indent, indent + _STEP)
    yield from _members({keyword: value for keyword, value in schema.items() if keyword not in short}, indent + _STEP)


def _is_short(keyword: str, value: Any) -> bool:
    if keyword in ("type", "required") or isinstance(value, dict) or (isinstance(value, str) and "\n" in value):
        return False
    return not isinstance(value, list) or not any(isinstance(one, (dict, list)) for one in value)


def _plain(keyword: str, value: Any, indent: str) -> Iterator[Line]:
    """A value that is no schema: short ones on a line, others member by member."""
    if isinstance(value, dict) and value:
        yield Line(mark_spans(f"{keyword}:", keep_lines=False), indent, indent + _STEP)
        for name, item in value.items():
            yield from _plain(name, item, indent + _STEP)
    else:
        yield Line(mark_spans(f"{keyword}: {_json(value)}", keep_lines=False), indent, indent + _STEP)


def _line(indent: str, text: str, style: str = "") -> Line:
    return text_line(escape(text), style, lead=indent, rest=indent + _STEP)


def _kind(schema: dict[str, Any]) -> str:
    if not schema:
        return "anything"
    return _type(schema.get("type")) or ("" if _ELSEWHERE & set(schema) else "of any type")


def _type(value: Any) -> str:
    """The types that are named; empty where that is not what stands there."""
    types = value if isinstance(value, list) else [value]
    return " or ".join(types) if types and all(isinstance(one, str) and one.isalpha() for one in types) else ""


def _required_names(schema: dict[str, Any]) -> set[str]:
    found = schema.get("required")
    return {one for one in found if isinstance(one, str)} if isinstance(found, list) else set()


def _all_in(value: Any, names: set[str]) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one in names for one in value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
