"""Schemas that take anything: what a server can use to collect more than its tool needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# A free string is bound by any of these.
_BOUNDS: Final = ("enum", "const", "pattern", "format", "maxLength")
_SAYS_SOMETHING: Final = frozenset(
    {"type", "enum", "const", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "properties", "items"}
)


def is_catch_all(schema: Any) -> str:
    """Why an input schema takes whatever a model puts in; empty if it does not.

    It does if it is no object schema, if its object is open (`additionalProperties` true or a schema without a type), if it
    names no properties but does not forbid them either, or if its only property is a string without any bound.
    """
    if not isinstance(schema, Mapping):
        return "it is not a JSON Schema object"
    if not schema:
        return "it is empty, so it takes anything"
    open_part = _open(schema)
    if open_part:
        return open_part
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        if schema.get("additionalProperties") is False or schema.get("maxProperties") == 0:
            return ""
        if any(key in schema for key in ("$ref", "anyOf", "oneOf", "allOf", "$dynamicRef")):
            return ""
        return "it names no properties and does not forbid them, so it takes any"
    if len(properties) == 1:
        ((name, only),) = properties.items()
        if is_free_string(only):
            return f"its only property, {str(name)[:60]!r}, is a string without enum, pattern, format or maxLength"
    for name, property_schema in properties.items():
        if is_untyped(property_schema):
            return f"its property {str(name)[:60]!r} has no type, so it takes anything"
        inner = _open(property_schema) if isinstance(property_schema, Mapping) else ""
        if inner:
            return f"in its property {str(name)[:60]!r}: {inner}"
    return ""


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
