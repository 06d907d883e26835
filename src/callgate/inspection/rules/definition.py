"""How a tool is built: schemas that take anything, sizes, growth. Advice, except where a text could not be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from callgate.inspection.engine import Hit, rule
from callgate.inspection.model import NO_CONTEXT, ToolDefinition
from callgate.inspection.text import quoted, tokens
from callgate.inspection.tool_texts import ToolTexts, names

_MANY_TOKENS: Final = 2_000
# The members of a definition in a sentence. Others are the server's own words, which are not repeated.
_PLACES: Final = {
    "name": "the name",
    "title": "the title",
    "description": "the description",
    "inputSchema": "the input schema",
    "annotations": "the annotations",
    "outputSchema": "the output schema",
    "_meta": "_meta",
}
_MEMBER: Final = re.compile(r"[A-Za-z0-9_$-]{1,60}")
# A free string is bound by any of these.
_BOUNDS: Final = ("enum", "const", "pattern", "format", "maxLength")
# What such a schema takes is said in another place.
_ELSEWHERE: Final = frozenset({"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf"})
_SCHEMA_DEPTH: Final = 32
_SCHEMA_PARTS: Final = 10_000
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
        if _is_free_string(only):
            return f"its only property, {_name(name)}, is a string without enum, pattern, format or maxLength"
    return ""


def _parts(schema: Any) -> Iterator[Part]:
    """Every schema inside a schema, itself first; depth and number bounded."""
    stack: list[tuple[Part, int]] = [(("", schema, False), 0)]
    for _ in range(_SCHEMA_PARTS):
        if not stack:
            return
        (name, part, whole), depth = stack.pop()
        yield name, part, whole
        if not isinstance(part, Mapping):
            continue
        if depth >= _SCHEMA_DEPTH:
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
    if whole and _is_untyped(schema):
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
        if isinstance(more, Mapping) and _is_untyped(more):
            return f"{key} has no type, so it takes properties that nobody reviewed"
    if "patternProperties" in schema and isinstance(schema["patternProperties"], Mapping):
        for pattern in schema["patternProperties"]:
            if pattern in {"", ".*", "^.*$", ".+", "^.+$", "^.*", ".*$"}:
                return "patternProperties matches every name, so it takes properties that nobody reviewed"
    return ""


def _is_free_string(schema: Any) -> bool:
    """A string, or something that may be one, without any bound."""
    if not isinstance(schema, Mapping):
        return schema is True
    kinds = schema.get("type")
    stringy = kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    return (stringy or _is_untyped(schema)) and not any(bound in schema for bound in _BOUNDS)


def _is_untyped(schema: Any) -> bool:
    """A schema that says nothing of what it takes."""
    if not isinstance(schema, Mapping):
        return schema is not False
    return not _SAYS_SOMETHING.intersection(schema)


@rule("schema.catch-all")
def catch_all(tool: ToolTexts) -> Iterator[Hit]:
    why = is_catch_all(tool.definition.input_schema)
    if why:
        yield Hit("inputSchema", f"The input schema takes anything: {why}.")


@rule("schema.free-text-sink")
def sink(tool: ToolTexts) -> Iterator[Hit]:
    for where, name, schema in _properties(tool.definition.input_schema):
        if name.lower() in names("sinks") and _is_free_string(schema):
            yield Hit(where, f"{quoted(name)} is a free text that takes anything.")


@rule("schema.untyped")
def untyped(tool: ToolTexts) -> Iterator[Hit]:
    for where, name, schema in _properties(tool.definition.input_schema):
        if _is_untyped(schema):
            yield Hit(where, f"{quoted(name)} has no type.")


def _properties(schema: Any) -> Iterator[tuple[str, str, Any]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if isinstance(properties, Mapping):
        for name, each in properties.items():
            yield f"inputSchema.properties.{name if str(name).isidentifier() else quoted(str(name))}", str(name), each


@rule("size.long")
def long(tool: ToolTexts) -> Iterator[Hit]:
    # A character takes two at most.
    if sum(len(text.raw) for text in tool.texts) <= _MANY_TOKENS / 2:
        return
    counts = [(tokens(text.raw), text.where) for text in tool.texts]
    count = sum(size for size, _ in counts)
    if count > _MANY_TOKENS:
        most, where = max(counts, key=lambda one: one[0])
        yield Hit(where, f"The definition takes about {count:,} tokens, {most:,} of them here.")


@rule("size.unread")
def unread(tool: ToolTexts) -> Iterator[Hit]:
    for where, rest in tool.unread:
        yield Hit(where, f"It is too large to be inspected: {rest} was not read.")


@rule("size.growth")
def growth(tool: ToolTexts) -> Iterator[Hit]:
    before = tool.context.before
    if before is None:
        return
    was, now = _sizes(ToolTexts(ToolDefinition.of(before), NO_CONTEXT)), _sizes(tool)
    old, new = sum(was.values()), sum(now.values())
    if new > old * (1 + tool.context.growth_percent / 100) and new > old:
        more = f"by {100 * (new - old) / old:.0f} %" if old else "from nothing"
        grown = sorted((was.get(place, 0) - size, place) for place, size in now.items() if size > was.get(place, 0))
        named = list(dict.fromkeys(_PLACES.get(place, "other members") for _, place in grown))
        told = " and ".join([", ".join(named[:-1]), named[-1]] if named[1:] else named)
        text = f"The definition grew {more} since it was approved, to {new:,} characters; it grew in {told}."
        yield Hit(grown[0][1], text)


def _sizes(tool: ToolTexts) -> dict[str, int]:
    """How much is said in each member; what is called by no plain name stands by itself, by its whole path."""
    sizes: dict[str, int] = {}
    for text in tool.texts:
        plain = _MEMBER.match(text.where)
        place = plain[0] if plain else text.where
        sizes[place] = sizes.get(place, 0) + len(text.raw)
    return sizes
