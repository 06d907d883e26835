"""Schemas that take anything: what a server can use to collect more than its tool needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

# A free string is bound by any of these.
_BOUNDS: Final = ("enum", "const", "pattern", "format", "maxLength")
# What such a schema takes is said in another place.
_ELSEWHERE: Final = frozenset({"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf"})
_DEPTH: Final = 32
_MOST: Final = 10_000
_TOO_MUCH: Final = "(and more)"
_SAYS_SOMETHING: Final = frozenset(
    {"type", "enum", "const", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "properties", "items"}
)


# The property a schema belongs to, the schema, and whether it alone says what that property takes.
Part: TypeAlias = tuple[str, Any, bool]


def is_catch_all(schema: Any) -> str:
    """Why an input schema takes whatever a model puts in; empty if it does not.

    It does if it is no object schema, if it or something in it is open (`additionalProperties` true or without a type),
    if it names no properties but does not forbid them either, if a property has no type, or if its only property is a
    string without any bound.
    """
    if not isinstance(schema, Mapping):
        return "it is not a JSON Schema object"
    return _bare(schema) or _lonely(schema) or next(filter(None, map(_taking_all, _parts(schema))), "")


def _bare(schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        return ""
    if (
        schema.get("additionalProperties") is False
        or schema.get("maxProperties") == 0
        or not _ELSEWHERE.isdisjoint(schema)
    ):
        return ""
    return _open(schema) or "it names no properties and does not forbid them, so it takes any"


def _lonely(schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and len(properties) == 1:
        ((name, only),) = properties.items()
        if is_free_string(only):
            return f"its only property, {_name(name)}, is a string without enum, pattern, format or maxLength"
    return ""


def _parts(schema: Any) -> Iterator[Part]:
    """Every schema inside a schema, itself first; depth and number bounded."""
    stack: list[tuple[Part, int]] = [(("", schema, False), 0)]
    for _ in range(_MOST):
        if not stack:
            return
        (name, part, whole), depth = stack.pop()
        yield name, part, whole
        if not isinstance(part, Mapping):
            continue
        if depth >= _DEPTH:
            break
        for key in ("properties", "$defs", "definitions", "patternProperties"):
            inner = part.get(key)
            if isinstance(inner, Mapping):
                kept = key in {"properties", "patternProperties"}
                stack.extend(((str(one) if kept else name, each, kept), depth + 1) for one, each in inner.items())
        for key in ("items", "not", "if", "then", "else", "anyOf", "oneOf", "allOf", "prefixItems"):
            inner = part.get(key)
            several = inner if isinstance(inner, list) else [inner]
            # Beside a type these only narrow what it says.
            alone = whole and "type" not in part and key in {"anyOf", "oneOf"}
            stack.extend(((name, each, alone), depth + 1) for each in several if isinstance(each, Mapping))
    yield _TOO_MUCH, None, False


def _taking_all(part: Part) -> str:
    name, schema, whole = part
    if name is _TOO_MUCH:
        return "it is too deep or too large to be looked through"
    where = f"in its property {_name(name)}: " if name else ""
    if whole and is_untyped(schema):
        return f"its property {_name(name)} has no type, so it takes anything"
    why = _open(schema) if isinstance(schema, Mapping) else ""
    return f"{where}{why}" if why else ""


def _name(name: Any) -> str:
    return ascii(str(name)[:60])


def _open(schema: Mapping[str, Any]) -> str:
    for key in ("additionalProperties", "unevaluatedProperties"):
        more = schema.get(key)
        if more is True:
            return f"{key} is true, so it takes properties that nobody reviewed"
        if isinstance(more, Mapping) and is_untyped(more):
            return f"{key} has no type, so it takes properties that nobody reviewed"
    if "patternProperties" in schema and isinstance(schema["patternProperties"], Mapping):
        for pattern in schema["patternProperties"]:
            if pattern in {"", ".*", "^.*$", ".+", "^.+$", "^.*", ".*$"}:
                return "patternProperties matches every name, so it takes properties that nobody reviewed"
    return ""


def is_free_string(schema: Any) -> bool:
    """A string, or something that may be one, without any bound."""
    if not isinstance(schema, Mapping):
        return schema is True
    kinds = schema.get("type")
    stringy = kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    return (stringy or is_untyped(schema)) and not any(bound in schema for bound in _BOUNDS)


def is_untyped(schema: Any) -> bool:
    """A schema that says nothing of what it takes."""
    if not isinstance(schema, Mapping):
        return schema is not False
    return not _SAYS_SOMETHING.intersection(schema)
