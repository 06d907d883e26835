"""A tool's input schema as a tree. Each of its words is there: what the tree has no place for stands as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from callgate.cli.tools_lines import Line, marked, quoted, said

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
        yield from _member(keyword, value, indent, _required(schema))


def _member(keyword: str, value: Any, indent: str, required: set[str]) -> Iterator[Line]:
    deeper = indent + _STEP
    if keyword in _NAMED and isinstance(value, dict) and value:
        if keyword != "properties":
            yield _line(indent, f"{keyword}:", "bold")
        for name, within in value.items():
            must = keyword == "properties" and name in required
            # A mark of its own, or a property called `maxLength` could pass for the keyword.
            yield from _named(name, within, indent if keyword == "properties" else deeper, must=must, mark="• ")
    elif keyword in _ONE and isinstance(value, dict):
        yield from _named(keyword, value, indent)
    elif keyword in _LISTED and isinstance(value, list) and value:
        yield _line(indent, f"{keyword}:", "bold")
        for at, within in enumerate(value):
            yield from _named(f"[{at}]", within, deeper)
    elif isinstance(value, str) and "\n" in value:
        yield Line(marked(f"{keyword}:", keep_lines=False), indent, deeper)
        yield from quoted(value, f"{deeper}│ ")
    else:
        yield from _plain(keyword, value, indent)


def _named(name: str, schema: Any, indent: str, *, must: bool = False, mark: str = "") -> Iterator[Line]:
    from rich.text import Text

    kind = _kind(schema) if isinstance(schema, dict) else _json(schema)
    told = ", ".join(word for word in (kind, "required" if must else "") if word)
    text = Text.assemble(marked(mark + name, keep_lines=False, style="bold"), "  ", (told, "cyan"))
    yield Line(text, indent, indent + _STEP)
    if isinstance(schema, dict):
        yield from _members(schema, indent + _STEP)


def _plain(keyword: str, value: Any, indent: str) -> Iterator[Line]:
    """A value that is no schema: short ones on a line, others member by member."""
    if isinstance(value, dict) and value:
        yield Line(marked(f"{keyword}:", keep_lines=False), indent, indent + _STEP)
        for name, item in value.items():
            yield from _plain(name, item, indent + _STEP)
    else:
        yield Line(marked(f"{keyword}: {_json(value)}", keep_lines=False), indent, indent + _STEP)


def _line(indent: str, text: str, style: str = "") -> Line:
    from callgate.approval.display import escape

    return said(escape(text), style, lead=indent, rest=indent + _STEP)


def _kind(schema: dict[str, Any]) -> str:
    if not schema:
        return "anything"
    return _type(schema.get("type")) or ("" if _ELSEWHERE & set(schema) else "of any type")


def _type(value: Any) -> str:
    """The types that are named; empty where that is not what stands there."""
    types = value if isinstance(value, list) else [value]
    return " or ".join(types) if types and all(isinstance(one, str) and one.isalpha() for one in types) else ""


def _required(schema: dict[str, Any]) -> set[str]:
    found = schema.get("required")
    return {one for one in found if isinstance(one, str)} if isinstance(found, list) else set()


def _all_in(value: Any, names: set[str]) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one in names for one in value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
