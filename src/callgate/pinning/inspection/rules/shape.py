"""How a tool is built: schemas that take anything, sizes, growth. Advice, except where a text could not be read."""

from __future__ import annotations

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
    count = sum(tokens(text.raw) for text in tool.texts)
    if count > _MANY_TOKENS:
        yield Hit("description", f"The definition takes about {count:,} tokens.")


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
    bad=(Case({"name": "x", "description": "Adds numbers. It also does many other things now."}, _BEFORE),),
    good=(Case({"name": "x", "description": "Adds numbers!"}, _BEFORE), "Adds numbers."),
)
def growth(tool: Reading) -> Iterator[Hit]:
    before = tool.around.before
    if before is None:
        return
    old = sum(len(text.raw) for text in Reading(Inspected.of(before), Surroundings()).texts)
    new = sum(len(text.raw) for text in tool.texts)
    if new > old * (1 + tool.around.growth_percent / 100) and new > old:
        more = f"by {100 * (new - old) / old:.0f} %" if old else "from nothing"
        yield Hit("description", f"The definition grew {more} since it was approved, to {new:,} characters.")
