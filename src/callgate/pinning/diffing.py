"""What is different from the definition that was approved: the text word by word, the schema place by place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from callgate.canonical import canonical
from callgate.errors import MessageError
from callgate.pinning.meanings import meaning
from callgate.pinning.model import Listed, Pin
from callgate.pinning.views import Difference, SchemaEdit
from callgate.pinning.words import Effort, pieces

# What a value is in a schema: a schema, a mapping of names to schemas, a list of schemas, or plain data.
Kind: TypeAlias = Literal["schema", "fields", "schemas", "data"]

_FIELDS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMA: Final = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "unevaluatedProperties",
        "unevaluatedItems",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    }
)
# Lists in which the order says nothing to a validator.
_SETS: Final = frozenset({"required", "enum", "type"})
_HASHED: Final = frozenset({"name", "description", "inputSchema"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_$-]{1,60}")
# Deeper than any definition that is taken.
_DEPTH: Final = 120


def difference(pin: Pin, listed: Listed, *, other_identity: bool = False, effort: Effort | None = None) -> Difference:
    """From what was decided on to what is listed now. `effort` bounds the cost of many differences together."""
    before = _entry(pin.raw)
    after = listed.entry
    effort = effort or Effort()
    schema = [*_missing("description", before, after), *_schema_edits(before, after, effort)]
    names = sorted((before.keys() | after.keys()) - _HASHED)
    beside = [
        edit
        for name in names
        for edit in _member(name, before, after, "schema" if name == "outputSchema" else "data", effort)
    ]
    return Difference(
        description=pieces(_text(before), _text(after), effort),
        schema=tuple(schema),
        beside=tuple(beside),
        since=pin,
        other_identity=other_identity,
    )


def schema_edits(before: Any, after: Any, where: str = "inputSchema") -> tuple[SchemaEdit, ...]:
    """Every place in which two schemas differ, in the order of the places; nothing is left out."""
    return tuple(_edits(_Place(where, "", "schema"), before, after))


def _schema_edits(before: Mapping[str, Any], after: Mapping[str, Any], effort: Effort) -> list[SchemaEdit]:
    return _member("inputSchema", before, after, "schema", effort)


def _member(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], kind: Kind, effort: Effort
) -> list[SchemaEdit]:
    if name in before and name in after:
        made = list(_edits(_Place(_part(name), name, kind), before[name], after[name]))
        effort.left -= len(made)
        return made
    return list(_missing(name, before, after))


def _missing(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SchemaEdit]:
    """A member that is there on one side only; an empty description is not the same as none."""
    if name == "description" and before.get(name) and after.get(name):
        return
    if (name in before) == (name in after):
        if name == "description" and (before.get(name) is None) != (after.get(name) is None):
            yield SchemaEdit(name, "changed", _json(before.get(name)), _json(after.get(name)))
        return
    if name in after:
        yield SchemaEdit(_part(name), "new", after=_json(after[name]), meaning=_whole(name, "new"))
    else:
        yield SchemaEdit(_part(name), "gone", before=_json(before[name]), meaning=_whole(name, "gone"))


def _whole(name: str, op: str) -> str:
    if name == "inputSchema":
        return "it says now what it takes" if op == "new" else "it no longer says what it takes"
    if name == "outputSchema":
        return "it says now what it answers" if op == "new" else "it no longer says what it answers"
    return ""


class _Place:
    """Where in a definition: the path, the last key of it, and what stands there."""

    __slots__ = ("depth", "holder", "key", "kind", "path")

    def __init__(self, path: str, key: str, kind: Kind, holder: str = "", depth: int = 0) -> None:
        self.path, self.key, self.kind, self.holder, self.depth = path, key, kind, holder, depth

    def under(self, key: str) -> _Place:
        return _Place(f"{self.path}.{_part(key)}", key, _inner(self, key), self._holder(), self.depth + 1)

    def at(self, number: int) -> _Place:
        kind: Kind = "schema" if self.kind == "schemas" else "data"
        return _Place(f"{self.path}[{number}]", str(number), kind, self.key, self.depth + 1)

    def _holder(self) -> str:
        # The keyword that a named schema stands under: a property called "maxLength" is no bound.
        return self.key if self.kind == "fields" else ("" if self.kind == "schema" else "data")


def _inner(place: _Place, key: str) -> Kind:
    if place.kind == "fields":
        return "schema"
    if place.kind != "schema":
        return "data"
    if key in _FIELDS:
        return "fields"
    if key in _SCHEMAS:
        return "schemas"
    return "schema" if key in _SCHEMA else "data"


def _edits(place: _Place, before: Any, after: Any) -> Iterator[SchemaEdit]:
    if place.depth < _DEPTH:
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            for key in sorted(before.keys() | after.keys()):
                yield from _keyed(place.under(key), key, before, after)
            return
        if isinstance(before, list) and isinstance(after, list) and place.key not in _SETS:
            yield from _lists(place, before, after)
            return
    old, new = _json(before), _json(after)
    if old != new:
        yield SchemaEdit(place.path, "changed", old, new, meaning(place.key, place.holder, before, after))


def _keyed(place: _Place, key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SchemaEdit]:
    if key not in before:
        told = meaning(key, place.holder, None, after[key], op="new")
        yield SchemaEdit(place.path, "new", after=_json(after[key]), meaning=told)
    elif key not in after:
        told = meaning(key, place.holder, before[key], None, op="gone")
        yield SchemaEdit(place.path, "gone", before=_json(before[key]), meaning=told)
    else:
        yield from _edits(place, before[key], after[key])


def _lists(place: _Place, before: Sequence[Any], after: Sequence[Any]) -> Iterator[SchemaEdit]:
    """One by one; where their number differs, what is the same at both ends is passed over first."""
    start, end = 0, 0
    if len(before) != len(after):
        old, new = [_json(item) for item in before], [_json(item) for item in after]
        least = min(len(old), len(new))
        while start < least and old[start] == new[start]:
            start += 1
        while end < least - start and old[-1 - end] == new[-1 - end]:
            end += 1
    left, right = before[start : len(before) - end], after[start : len(after) - end]
    for number, (one, other) in enumerate(zip(left, right, strict=False), start):
        yield from _edits(place.at(number), one, other)
    for number in range(len(right), len(left)):
        spot = place.at(start + number)
        told = meaning(spot.key, spot.holder, left[number], None, op="gone")
        yield SchemaEdit(spot.path, "gone", before=_json(left[number]), meaning=told)
    for number in range(len(left), len(right)):
        spot = place.at(start + number)
        told = meaning(spot.key, spot.holder, None, right[number], op="new")
        yield SchemaEdit(spot.path, "new", after=_json(right[number]), meaning=told)


def _entry(raw: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(raw.decode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("description")
    return text if isinstance(text, str) else ""


def _part(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _json(value: Any) -> str:
    try:
        return canonical(value).decode()
    except MessageError:
        return json.dumps(value, sort_keys=True, default=str)
