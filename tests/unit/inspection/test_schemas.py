from callgate.inspection import is_catch_all
from support.registry import requirement
from support.table import rows

NUMBER = {"type": "integer"}
NAME = {"type": "string", "maxLength": 40}


def nested(depth):
    schema = NUMBER
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema, "b": NUMBER}}
    return schema


@requirement("TP-041")
@rows(
    ("schema", "words"),
    [
        (None, "not a JSON Schema object"),
        (True, "not a JSON Schema object"),
        ({}, "names no properties"),
        ({"type": "object"}, "names no properties"),
        ({"type": "object", "properties": {}}, "names no properties"),
        ({"type": "object", "additionalProperties": True}, "additionalProperties is true"),
        ({"type": "object", "properties": {"a": NUMBER}, "additionalProperties": True}, "additionalProperties is true"),
        ({"properties": {"a": NUMBER}, "additionalProperties": {}}, "has no type"),
        ({"properties": {"a": NUMBER}, "unevaluatedProperties": True}, "unevaluatedProperties is true"),
        ({"properties": {"a": NUMBER}, "patternProperties": {".*": {"type": "string"}}}, "matches every name"),
        ({"properties": {"blob": {"type": "string"}}}, "'blob', is a string without"),
        ({"properties": {"blob": {"type": ["string", "null"]}}}, "'blob', is a string without"),
        ({"properties": {"a": NUMBER, "b": {}}}, "'b' has no type"),
        ({"properties": {"a": NUMBER, "b": {"description": "Anything."}}}, "'b' has no type"),
        ({"properties": {"a": NUMBER, "b": {"type": "object", "additionalProperties": True}}}, "in its property 'b'"),
        ({"properties": {"a": {"items": {"properties": {"c": {}}}}, "b": NUMBER}}, "'c' has no type"),
        (
            {"properties": {"a": {"anyOf": [NUMBER, {"type": "object", "additionalProperties": True}]}, "b": NUMBER}},
            "in its property 'a'",
        ),
        ({"properties": {"a": {"anyOf": [NUMBER, {"title": "Any"}]}, "b": NUMBER}}, "'a' has no type"),
        (nested(40), "too deep"),
        ({"properties": {f"p{at}": NUMBER for at in range(10_001)}}, "too large"),
    ],
)
def test_a_schema_that_takes_anything_says_why(schema, words):
    assert words in is_catch_all(schema)


@requirement("TP-041")
@rows(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {"a": NUMBER}},
        {"type": "object", "properties": {"a": NAME}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        {"type": "object", "properties": {"a": NUMBER}, "additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": NUMBER}}}},
        {"anyOf": [{"properties": {"a": NUMBER}}]},
        {"properties": {"a": {"type": "object", "anyOf": [{"required": ["x"]}]}, "b": NUMBER}},
        nested(20),
    ],
)
def test_a_bounded_schema_is_let_be(schema):
    assert is_catch_all(schema) == ""


def test_a_hostile_name_is_spelt_out():
    assert "\\x1b" in is_catch_all({"properties": {"\x1b[8m": {"type": "string"}}})
