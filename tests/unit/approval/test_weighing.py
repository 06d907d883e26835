"""Schemas whose references make work without end: weighed before a validator sees them, which would not come back."""

import pytest

from callgate.approval.schema import TooHeavy, check_arguments, check_weight, has_references
from callgate.errors import Reason, Refused
from support.table import rows


def doubling(levels, word="allOf"):
    """Each definition asks for the one before twice."""
    twice = {f"a{at}": {word: [{"$ref": f"#/$defs/a{at - 1}"}] * 2} for at in range(1, levels)}
    return {"$defs": {"a0": {"type": "object"}, **twice}, "$ref": f"#/$defs/a{levels - 1}"}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return {"a": value}


# Each level of the value is looked at twice as often as the one above.
BY_VALUE = {
    "properties": {"a": {"$ref": "#/$defs/x"}},
    "$defs": {"x": {"allOf": [{"items": {"$ref": "#/$defs/x"}}, {"items": {"$ref": "#/$defs/x"}}]}},
}
MESH = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{to}"} for to in range(8)]} for at in range(8)}


@rows(
    ("schema", "arguments"),
    [
        pytest.param(doubling(40), {}, id="all-of"),
        pytest.param(doubling(40, "anyOf"), {}, id="any-of"),
        pytest.param(doubling(40, "oneOf"), {}, id="one-of"),
        pytest.param(BY_VALUE, nested(60), id="by-the-value"),
        pytest.param({"$ref": "#"}, {}, id="itself"),
        pytest.param({"allOf": [{"$ref": "#"}]}, {}, id="itself-inside"),
        pytest.param({"$defs": MESH, "$ref": "#/$defs/a0"}, {}, id="mesh"),
        pytest.param({"$dynamicAnchor": "m", "$dynamicRef": "#m"}, {}, id="dynamic"),
        pytest.param({"$defs": {"x": {"$anchor": "n"}}, "$ref": "#n"}, {}, id="anchor"),
        pytest.param({"$defs": {"x": {"$id": "urn:x", "$ref": "#/y"}}, "$ref": "#/$defs/x"}, {}, id="renamed"),
        pytest.param(
            {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"items": {"$ref": "#/$defs/x"}}}},
            nested(5_000),
            id="deep",
        ),
        pytest.param(
            {"properties": {"a": {"items": {"$ref": "#/$defs/x"}}}, "$defs": {"x": {}}},
            {"a": [[0]] * 120_000},
            id="many",
        ),
    ],
)
def test_work_without_end_is_refused_before_it_begins(schema, arguments):
    with pytest.raises(Refused) as refused:
        check_arguments(schema, arguments)
    assert refused.value.reason is Reason.ARGUMENTS_INVALID


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "$defs": {
        "Node": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "left": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "right": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/a~1b%25"}},
            },
        },
        "a/b%": {"enum": ["x", {"$ref": "#/nowhere"}]},
    },
}


def tree(depth):
    return {"name": "n", "tags": ["x"], **({"left": tree(depth - 1), "right": None} if depth else {})}


def test_schemas_that_people_write_are_checked():
    check_arguments(TREE, {"root": tree(60)})
    with pytest.raises(Refused):
        check_arguments(TREE, {"root": tree(5) | {"left": {"tags": []}}})
    with pytest.raises(Refused):
        check_arguments(TREE, {"root": tree(0) | {"tags": ["y"]}})
    check_arguments(doubling(8), {})
    check_arguments(BY_VALUE, nested(10))
    check_arguments(
        {"properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}, {"a": {"type": "string"}}
    )


@rows(
    ("schema", "found"),
    [
        ({}, False),
        (True, False),
        ({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}, False),
        ({"enum": [{"$ref": "#", "$id": "x"}], "default": {"$dynamicRef": "#"}}, False),
        ({"$id": "urn:x", "properties": {"a": {"$id": "urn:y"}}}, False),
        ({"$id": "urn:x", "items": [{"$ref": "#"}]}, True),
    ],
)
def test_what_counts_as_a_reference(schema, found):
    assert has_references(schema) is found


IN_MEMBERS = [
    {"patternProperties": {"^a": {"$ref": "#"}}},
    {"additionalProperties": {"$ref": "#"}},
    {"unevaluatedProperties": {"$ref": "#"}},
    {"dependentSchemas": {"a": {"properties": {"a": {"$ref": "#"}}}}},
    {"if": {"properties": {"a": {"$ref": "#"}}}},
    {"then": {"properties": {"a": {"$ref": "#"}}}},
    {"not": {"properties": {"a": {"$ref": "#"}}}},
]
IN_ITEMS = [
    {"properties": {"a": {"prefixItems": [{"$ref": "#"}]}}},
    {"properties": {"a": {"items": [{"$ref": "#"}]}}},
    {"properties": {"a": {"contains": {"$ref": "#"}}}},
]


@rows(
    ("schema", "around"),
    [
        *((one, lambda value: {"a": value}) for one in IN_MEMBERS),
        *((one, lambda value: {"a": [value]}) for one in IN_ITEMS),
    ],
)
def test_every_way_down_is_followed(schema, around):
    """Once at each level is little, twice is more than anybody waits for, whatever the keyword."""
    value = {"a": 1}
    for _ in range(40):
        value = around(value)
    check_weight(schema, value)
    with pytest.raises(TooHeavy):
        check_weight({"allOf": [schema, schema | {"title": "again"}]}, value)
