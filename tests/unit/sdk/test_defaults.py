"""Defaults that the caller writes out."""

from callgate.sdk.client import fill_defaults
from support.table import rows

NESTED = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "force": {"type": "boolean", "default": False},
        "nothing": {"default": None},
        "options": {"$ref": "#/$defs/Options"},
        "list": {"type": "array", "items": {"properties": {"unit": {"default": "EUR"}}}},
        "made": {"type": "object", "default": {}, "properties": {"deep": {"default": 1}}},
    },
    "$defs": {"Options": {"type": "object", "properties": {"depth": {"default": 3}}, "default": {"depth": 9}}},
}


def test_what_is_missing_is_filled_in_and_what_is_there_stays():
    assert fill_defaults(NESTED, {"id": "x", "force": True}) == {
        "id": "x",
        "force": True,
        "nothing": None,
        "options": {"depth": 9},
        "made": {"deep": 1},
    }


def test_values_inside_are_filled_in_too():
    filled = fill_defaults(NESTED, {"options": {}, "list": [{}, {"unit": "USD"}, 5], "made": {"deep": 2}})
    assert filled["options"] == {"depth": 3}
    assert filled["list"] == [{"unit": "EUR"}, {"unit": "USD"}, 5]
    assert filled["made"] == {"deep": 2}


def test_neither_the_arguments_nor_the_schema_change():
    arguments = {"options": {}}
    schema = {"properties": {"made": {"default": {"list": []}}}}
    fill_defaults(NESTED, arguments)
    assert arguments == {"options": {}}
    fill_defaults(schema, {})["made"]["list"].append(1)
    assert schema == {"properties": {"made": {"default": {"list": []}}}}


@rows(
    "schema",
    [
        None,
        True,
        [],
        {"properties": []},
        {"properties": {"a": True}},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"$ref": "https://evil.example/schema"},
        {"$ref": "#/properties/a/b/c"},
        {"properties": {"x": {"$ref": "#/properties/x"}}},
    ],
)
def test_a_schema_that_helps_with_nothing_changes_nothing(schema):
    assert fill_defaults(schema, {"x": {"y": 1}}) == {"x": {"y": 1}}


def test_a_schema_without_an_end_ends():
    schema = {
        "properties": {"more": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"default": {}, "properties": {"more": {"$ref": "#/$defs/Node"}}}},
    }
    depth, value = 0, fill_defaults(schema, {})
    while "more" in value:
        depth, value = depth + 1, value["more"]
    assert 1 < depth < 100
