"""What checking a value against a schema costs, before it is done.

With references the work can double at every level of the schema or of the value, and a validator neither gives up nor
lets anything else run meanwhile: forty lines of a hostile server's schema would hold the gate up for hours. Without
references a schema is a tree, and its size bounds the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

_MOST: Final = 200_000
_PAIRS: Final = 100_000
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")
# What holds values, not schemas.
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
_HERE: Final = ("allOf", "anyOf", "oneOf")
_HERE_ONE: Final = ("not", "if", "then", "else")
_HERE_NAMED: Final = ("dependentSchemas", "dependencies")
_EACH_MEMBER: Final = ("additionalProperties", "unevaluatedProperties")
_EACH_ITEM: Final = ("items", "additionalItems", "contains", "unevaluatedItems")
# With references, what these look for is worked out when the schema is read, before any value could be weighed.
_LEFTOVER: Final = ("unevaluatedProperties", "unevaluatedItems")
# Known to every validator, and harmless.
_DIALECTS: Final = ("https://json-schema.org/", "http://json-schema.org/")


class TooHeavy(ValueError):
    """Nobody should check this value against this schema."""


def has_references(schema: Any) -> bool:
    """Whether it is more than a tree; TooHeavy where nobody can tell what its references lead to."""
    found, renamed, leftover = False, False, False
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if any(isinstance(node.get(name), str) for name in _ELSEWHERE):
                raise TooHeavy("a reference whose target changes with the value")
            found = found or isinstance(node.get("$ref"), str)
            renamed = renamed or (node is not schema and any(isinstance(node.get(name), str) for name in ("$id", "id")))
            leftover = leftover or any(isinstance(node.get(name), (dict, bool)) for name in _LEFTOVER)
            waiting.extend(inner for name, inner in node.items() if name not in _VALUES)
        elif isinstance(node, list):
            waiting.extend(node)
    if found and renamed:
        raise TooHeavy("references into a part of the schema that has a name of its own")
    if found and leftover:
        raise TooHeavy("references beside unevaluatedProperties or unevaluatedItems")
    return found


def check_weight(schema: Any, value: Any) -> None:
    """Raise TooHeavy if checking the value would take more than so many steps, or no end of them."""
    try:
        _Scale(schema).weigh(schema, value)
    except RecursionError:
        raise TooHeavy("too deep") from None


class _Scale:
    """Counts each pair of a schema and a value once, however often a validator would come by."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._weights: dict[tuple[int, int], int] = {}
        self._targets: dict[str, Any] = {}

    def weigh(self, schema: Any, value: Any) -> int:
        if not isinstance(schema, dict):
            return 1
        pair = id(schema), id(value)
        known = self._weights.get(pair)
        if known is None:
            if len(self._weights) >= _PAIRS:
                raise TooHeavy("too many values")
            self._weights[pair] = 0
            known = 1
            for inner, part in self._parts(schema, value):
                known += self.weigh(inner, part)
                if known > _MOST:
                    raise TooHeavy("too many steps")
            self._weights[pair] = known
        elif not known:
            raise TooHeavy("a reference that leads back to itself")
        return known

    def _parts(self, schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
        """Every schema inside, with the value that it would be asked about; at most too many, never too few."""
        if isinstance(reference := schema.get("$ref"), str):
            yield self._target(reference), value
        for name in _HERE:
            if isinstance(inner := schema.get(name), list):
                yield from ((one, value) for one in inner)
        yield from ((schema[name], value) for name in _HERE_ONE if name in schema)
        for name in _HERE_NAMED:
            if isinstance(inner := schema.get(name), dict):
                yield from ((one, value) for one in inner.values())
        if isinstance(value, dict):
            yield from _of_members(schema, value)
        elif isinstance(value, list):
            yield from _of_items(schema, value)

    def _target(self, reference: str) -> Any:
        if reference not in self._targets:
            self._targets[reference] = self._found(reference)
        return self._targets[reference]

    def _found(self, reference: str) -> Any:
        """RFC 6901, from the root of the schema."""
        if reference.startswith(_DIALECTS):
            return True
        if reference != "#" and not reference.startswith("#/"):
            raise TooHeavy("a reference that is no pointer into the schema")
        node = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(name)] if isinstance(node, list) else node[name]
            except (LookupError, TypeError, ValueError):
                raise TooHeavy("a reference that leads nowhere") from None
        return node


def _of_members(schema: dict[str, Any], value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    if isinstance(inner := schema.get("properties"), dict):
        yield from ((one, value[name]) for name, one in inner.items() if name in value)
    if isinstance(inner := schema.get("patternProperties"), dict):
        yield from ((one, part) for one in inner.values() for part in value.values())
    for keyword in _EACH_MEMBER:
        if isinstance(schema.get(keyword), dict):
            yield from ((schema[keyword], part) for part in value.values())
    if isinstance(schema.get("propertyNames"), dict):
        yield from ((schema["propertyNames"], name) for name in value)


def _of_items(schema: dict[str, Any], value: list[Any]) -> Iterator[tuple[Any, Any]]:
    for keyword in _EACH_ITEM:
        inner = schema.get(keyword)
        if isinstance(inner, list):
            yield from zip(inner, value, strict=False)
        elif isinstance(inner, dict):
            yield from ((inner, part) for part in value)
    if isinstance(inner := schema.get("prefixItems"), list):
        yield from zip(inner, value, strict=False)
