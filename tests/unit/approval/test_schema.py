"""Arguments against an inputSchema that a stranger wrote."""

import pytest

from callgate.approval.schema import check_arguments, defaults_in
from callgate.errors import Reason, Refused
from support.table import rows


def refusal(schema, arguments):
    with pytest.raises(Refused) as refused:
        check_arguments(schema, arguments)
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
    return refused.value.message


@rows("schema", [None, {}, True, {"type": "object"}])
def test_a_schema_that_asks_for_nothing_takes_any(schema):
    check_arguments(schema, {"a": [1, {"b": None}]})


def test_the_message_names_the_place():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    assert refusal(schema, {"a": [1, "x"]}).startswith("arguments/a/1: ")
    assert refusal({"required": ["b"]}, {}).startswith("arguments: ")


def test_the_message_stays_short():
    assert len(refusal({"properties": {"a": {"maxLength": 1}}}, {"a": "x" * 100_000})) < 500


@rows(
    "schema",
    [
        False,
        [],
        "object",
        5,
        {"type": "objekt"},
        {"$ref": "#/nowhere"},
        {"$defs": {"a": True}, "$ref": "#/$defs/a", "unevaluatedProperties": False},
        {"$ref": "file:///etc/hostname"},
        {"$ref": "http://127.0.0.1:1/schema"},
        {"$schema": "http://127.0.0.1:1/dialect"},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}},
        {"title": "\ud800"},
    ],
    ids=lambda schema: repr(schema)[:40],
)
def test_a_schema_that_cannot_be_used_lets_nothing_through(schema):
    refusal(schema, {"a": "x"})


def test_patterns_take_no_longer_than_the_text():
    refusal({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 50_000 + "b"})


def test_numbers_are_compared_by_value():
    for schema in ({"const": 1}, {"enum": [1]}, {"type": "integer"}):
        check_arguments({"properties": {"a": schema}}, {"a": 1.0})
    refusal({"properties": {"a": {"type": "integer"}}}, {"a": 1.5})
    refusal({"properties": {"a": {"const": 1}}}, {"a": True})


@rows(
    ("schema", "found"),
    [
        (None, []),
        ({}, []),
        ({"default": {}}, []),
        ({"properties": {"a": {"default": 1}, "b": {}}}, ["a"]),
        ({"properties": {"a": {"properties": {"b": {"default": None}}}}}, ["a.b"]),
        ({"properties": {"a": {"items": {"properties": {"b": {"default": 0}}}}}}, ["a[].b"]),
        (
            {"$defs": {"In": {"properties": {"b": {"default": 0}}}}, "properties": {"a": {"$ref": "#/$defs/In"}}},
            ["$defs.In.b"],
        ),
        ({"definitions": {"Flag": {"default": False}}}, ["definitions.Flag"]),
        ({"allOf": [{"properties": {"a": {"default": 1}}}]}, ["a"]),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"default": 1}]}}}, ["a"]),
        ({"additionalProperties": {"properties": {"a": {"default": 1}}}}, ["a"]),
        ({"patternProperties": {"^x": {"default": 1}}}, ["^x"]),
        ({"properties": {"a": {"prefixItems": [{}, {"default": 1}]}}}, ["a[]"]),
        ({"properties": {"default": {"type": "string"}}}, []),
        ({"properties": {"a": {"enum": [{"default": 1}]}}}, []),
        ({"properties": []}, []),
        ({"properties": {"a": True}}, []),
    ],
)
def test_defaults_are_found(schema, found):
    assert list(defaults_in(schema)) == found


def test_defaults_are_looked_for_only_so_deep():
    schema = {"default": 1}
    for _ in range(10_000):
        schema = {"properties": {"a": schema}}
    assert list(defaults_in(schema)) == []
