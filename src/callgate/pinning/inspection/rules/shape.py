"""How a tool is built: schemas that take anything, sizes, growth. Advice, except where a text could not be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from callgate.pinning.inspection.reading import TEXT_CHARS, Reading, listed, shown
from callgate.pinning.inspection.rule import Case, Hit, rule
from callgate.pinning.inspection.schemas import is_catch_all, is_free_string, is_untyped
from callgate.pinning.inspection.subject import Inspected, Surroundings
from callgate.pinning.inspection.tokens import tokens

_MANY_TOKENS: Final = 2_000
_SINKS: Final = listed(
    "context notes note metadata extra data payload info comment comments details additional_info additional_context "
    "summary background misc other memo remarks debug trace sidenote reasoning justification purpose"
)
_ONE: Final = {
    "type": "object",
    "properties": {"q": {"type": "string", "maxLength": 100}},
    "additionalProperties": False,
}
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
_BEFORE: Final = Surroundings(before={"name": "x", "description": "Adds numbers."})


@rule(
    "schema.catch-all",
    "soft",
    why="What a schema does not bound, a model may fill with anything it knows.",
    bad=(
        {"name": "x", "inputSchema": {"type": "object", "additionalProperties": True}},
        {"name": "x", "inputSchema": {"type": "object", "properties": {"blob": {"type": "string"}}}},
        {"name": "x", "inputSchema": {}},
    ),
    good=(
        {"name": "x", "inputSchema": _ONE},
        {"name": "x", "inputSchema": {"type": "object", "additionalProperties": False}},
    ),
)
def catch_all(tool: Reading) -> Iterator[Hit]:
    why = is_catch_all(tool.tool.input_schema)
    if why:
        yield Hit("inputSchema", f"The input schema takes anything: {why}.")


@rule(
    "schema.free-text-sink",
    "soft",
    why="A free text with such a name invites the model to put in what it knows besides the task.",
    bad=({"name": "x", "inputSchema": {"properties": {"id": {"type": "integer"}, "context": {"type": "string"}}}},),
    good=({"name": "x", "inputSchema": {"properties": {"context": {"type": "string", "enum": ["a", "b"]}}}},),
)
def sink(tool: Reading) -> Iterator[Hit]:
    for where, name, schema in _properties(tool.tool.input_schema):
        if name.lower() in _SINKS and is_free_string(schema):
            yield Hit(where, f"{shown(name)} is a free text that takes anything.")


@rule(
    "schema.untyped",
    "soft",
    why="A parameter without a type can be filled with anything, of any size.",
    bad=({"name": "x", "inputSchema": {"properties": {"a": {"description": "A thing."}}}},),
    good=({"name": "x", "inputSchema": {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/b"}}}},),
)
def untyped(tool: Reading) -> Iterator[Hit]:
    for where, name, schema in _properties(tool.tool.input_schema):
        if is_untyped(schema):
            yield Hit(where, f"{shown(name)} has no type.")


def _properties(schema: Any) -> Iterator[tuple[str, str, Any]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if isinstance(properties, Mapping):
        for name, each in properties.items():
            yield f"inputSchema.properties.{name if str(name).isidentifier() else shown(str(name))}", str(name), each


@rule(
    "size.long",
    "soft",
    why="Every token of a definition is read in every conversation, and long texts hide short instructions.",
    bad=("word " * 2_500,),
    good=("Adds numbers.",),
)
def long(tool: Reading) -> Iterator[Hit]:
    counts = [(tokens(text.raw), text.where) for text in tool.texts]
    count = sum(size for size, _ in counts)
    if count > _MANY_TOKENS:
        most, where = max(counts, key=lambda one: one[0])
        yield Hit(where, f"The definition takes about {count:,} tokens, {most:,} of them here.")


@rule(
    "size.unread",
    "hard",
    why="What could not be looked at may say anything.",
    bad=("a" * (TEXT_CHARS + 1),),
    good=("a" * 100,),
)
def unread(tool: Reading) -> Iterator[Hit]:
    for where, rest in tool.unread:
        yield Hit(where, f"It is too large to be inspected: {rest} was not read.")


@rule(
    "size.growth",
    "soft",
    why="A definition that grows after it was approved says something that nobody agreed to.",
    bad=(
        Case({"name": "x", "description": "Adds numbers. It also does many other things now."}, _BEFORE),
        Case({"name": "x", "description": "Adds numbers.", "inputSchema": {"title": "And does much more."}}, _BEFORE),
    ),
    good=(Case({"name": "x", "description": "Adds numbers!"}, _BEFORE), "Adds numbers."),
)
def growth(tool: Reading) -> Iterator[Hit]:
    before = tool.around.before
    if before is None:
        return
    was, now = _sizes(Reading(Inspected.of(before), Surroundings())), _sizes(tool)
    old, new = sum(was.values()), sum(now.values())
    if new > old * (1 + tool.around.growth_percent / 100) and new > old:
        more = f"by {100 * (new - old) / old:.0f} %" if old else "from nothing"
        grown = sorted((was.get(place, 0) - size, place) for place, size in now.items() if size > was.get(place, 0))
        named = list(dict.fromkeys(_PLACES.get(place, "other members") for _, place in grown))
        told = " and ".join([", ".join(named[:-1]), named[-1]] if named[1:] else named)
        text = f"The definition grew {more} since it was approved, to {new:,} characters; it grew in {told}."
        yield Hit(grown[0][1], text)


def _sizes(tool: Reading) -> dict[str, int]:
    """How much is said in each member; what is called by no plain name stands by itself, by its whole path."""
    sizes: dict[str, int] = {}
    for text in tool.texts:
        plain = _MEMBER.match(text.where)
        place = plain[0] if plain else text.where
        sizes[place] = sizes.get(place, 0) + len(text.raw)
    return sizes
