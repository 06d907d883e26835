"""A tool's schema as a tree: a flat list of lines that the template nests, every keyword of it there.

A property's type and whether it is required stand beside its name; everything else is written out below it, whatever
it is. Texts in it are shown as marking.py shows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from callgate.console.marking import Marks, Run, plain
from callgate.inspection.text import quoted

# Beyond this a tree helps nobody; then the exact text below it is what is read.
MOST_LINES: Final = 2_000
_IN_A_LINE: Final = 32
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# Keys that stand in a path as they are; others are quoted there, and cut.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_$-]{1,60}\Z")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS: Final = ("$defs", "definitions", "patternProperties", "dependentSchemas")
_ONE: Final = (
    *("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames"),
    *("not", "if", "then", "else", "contentSchema"),
)


class Branch(NamedTuple):
    """`open` and `close` stand around what is inside; `leaf` is a value.

    `keyword` is the word of JSON Schema that it stands under, where the key is the server's own.
    """

    what: Literal["open", "close", "leaf"]
    key: Sequence[Run] = ()
    keyword: str = ""
    tags: tuple[str, ...] = ()
    kind: str = ""
    text: Sequence[Run] = ()
    tier: str = ""
    numbers: str = ""


class _Item(NamedTuple):
    path: str
    key: str
    value: Any
    schema: bool
    keyword: str = ""
    required: bool = False


def outline(value: Any, where: str, marks: Marks, *, schema: bool = True) -> list[Branch] | None:
    """The lines of what stands at a path; None where a tree is no help: too deep, too many values."""
    lines: list[Branch] = []
    stack: list[Iterator[_Item]] = [iter([_Item(where, where, value, schema and isinstance(value, dict))])]
    while stack:
        item = next(stack[-1], None)
        if len(lines) == MOST_LINES:
            return None
        if item is None:
            stack.pop()
            if stack:
                lines.append(Branch("close"))
            continue
        inside = [] if _short(item, marks) else _inside(item)
        lines.append(_line(item, marks, leaf=not inside))
        if inside:
            stack.append(iter(inside))
    return lines


def _short(item: _Item, marks: Marks) -> bool:
    """A list of plain values, such as an enum, that fits into a line."""
    if not isinstance(item.value, list) or marks.under(item.path):
        return False
    if any(isinstance(one, (dict, list)) for one in item.value[:_IN_A_LINE]):
        return False
    return len(item.value) <= _IN_A_LINE and len(json.dumps(item.value)) <= 8 * _IN_A_LINE


def _line(item: _Item, marks: Marks, *, leaf: bool) -> Branch:
    tier, numbers = marks.on(item.path)
    # What was found at a path is in the text there, or, where there is none, in the name.
    key = plain(item.key) if isinstance(item.value, str) else marks.runs(item.path, item.key)
    made = Branch("leaf" if leaf else "open", key, item.keyword, _tags(item), "", (), tier, numbers)
    if not leaf:
        return made
    kind, text = _leaf(item, marks)
    return made._replace(kind=kind, text=text)


def _leaf(item: _Item, marks: Marks) -> tuple[str, Sequence[Run]]:
    value = item.value
    if isinstance(value, str):
        return "text", marks.runs(item.path, value)
    if item.schema and value:
        # Its type is all it says, and that stands beside its name.
        return "word", ()
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else "word", plain(json.dumps(value, ensure_ascii=False))


def _tags(item: _Item) -> tuple[str, ...]:
    tags = list(_types(item))
    if item.required:
        tags.append("required")
    if item.schema and not item.value:
        tags.append("takes anything")
    return tuple(tags)


def _types(item: _Item) -> list[str]:
    """The type of a schema, where it is written as types are."""
    kinds = item.value.get("type") if item.schema else None
    if isinstance(kinds, str):
        kinds = [kinds]
    known = isinstance(kinds, list) and all(isinstance(one, str) and one in _TYPES for one in kinds)
    return kinds if known and kinds else []


def _inside(item: _Item) -> list[_Item]:
    value = item.value
    if isinstance(value, list):
        return [_Item(f"{item.path}.{at}", f"[{at}]", one, schema=False) for at, one in enumerate(value)]
    if not isinstance(value, dict):
        return []
    if not item.schema:
        return [_Item(_path(item.path, key), key, one, schema=False) for key, one in value.items()]
    return [one for key, member in value.items() for one in _member(item, key, member)]


def _member(item: _Item, key: str, member: Any) -> Iterator[_Item]:
    """A keyword of a schema, as the lines it becomes."""
    path = _path(item.path, key)
    properties = item.value.get("properties")
    named = properties if isinstance(properties, dict) else {}
    required = item.value.get("required")
    needed = required if _all_named(required, named) else []
    if (key == "type" and _types(item)) or (key == "required" and needed):
        return
    if key == "properties" and named:
        for name, one in named.items():
            yield _Item(_path(path, name), name, one, isinstance(one, dict), "property", required=name in needed)
    elif key in _MAPS and isinstance(member, dict) and member:
        for name, one in member.items():
            yield _Item(_path(path, name), name, one, isinstance(one, dict), key)
    elif key in _LISTS and isinstance(member, list) and member:
        for at, one in enumerate(member):
            yield _Item(f"{path}.{at}", f"[{at}]", one, isinstance(one, dict), key)
    else:
        yield _Item(path, key, member, schema=key in _ONE and isinstance(member, dict))


def _path(before: str, key: str) -> str:
    """As the inspection writes it."""
    return f"{before}.{key if _PLAIN.match(key) else quoted(key)}"


def _all_named(required: Any, properties: Mapping[str, Any]) -> bool:
    """Whether a list of required names can be told by marking the properties, and by nothing else."""
    if not isinstance(required, list):
        return False
    return all(isinstance(name, str) and name in properties for name in required) and len(set(required)) == len(
        required
    )
