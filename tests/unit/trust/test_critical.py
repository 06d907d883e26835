"""Which arguments decide who or what a call affects."""

from callgate.trust.critical import covers, fixed_values, guess
from support.table import rows

SCHEMA = {
    "type": "object",
    "properties": {
        "recipientEmail": {"type": "string"},
        "body": {"type": "string"},
        "where": {"type": "string", "format": "uri"},
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "notify": {"anyOf": [{"type": "array", "items": {"type": "string", "format": "email"}}, {"type": "null"}]},
        "options": {"type": "object", "properties": {"path": {"type": "string"}, "note": {"type": "string"}}},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "valid": {"type": "boolean"},
    },
    "$defs": {"Item": {"type": "object", "properties": {"url": {"type": "string"}, "label": {"type": "string"}}}},
}


def test_names_and_formats_are_guessed_from_the_schema():
    assert guess(SCHEMA) == ("recipientEmail", "where", "notify[]", "options.path", "items[].url")


@rows("schema", [None, [], "x", {}, {"properties": 3}, {"properties": {"to": 3}}, {"$ref": "#/a/b"}])
def test_a_schema_that_says_nothing_has_none(schema):
    assert guess(schema) == ()


def test_a_schema_that_refers_to_itself_ends():
    schema = {"properties": {"next": {"$ref": "#"}, "to": {"type": "string"}}}
    assert "to" in guess(schema)


@rows(
    ("declared", "path", "within"),
    [
        ("to", "to", True),
        ("to", "to[3]", True),
        ("to", "to[0].address", True),
        ("to", "token", False),
        ("items[].url", "items[4].url", True),
        ("items.url", "items[4].url", True),
        ("items[].url", "items[4].label", False),
        ("options.path", "options.path", True),
        ("options", "options.path", True),
    ],
)
def test_a_value_lies_within_what_was_declared(declared, path, within):
    assert covers((declared,), path) is within


def test_values_of_a_definition_that_is_referred_to_are_the_schemas():
    schema = {
        "$defs": {"Right": {"enum": ["r", "rw"]}, "Self": {"properties": {"inner": {"$ref": "#/$defs/Self"}}}},
        "properties": {
            "permission": {"$ref": "#/$defs/Right", "default": "none"},
            "rights": {"type": "array", "items": {"$ref": "#/$defs/Right"}},
            "self": {"$ref": "#/$defs/Self"},
            "lost": {"$ref": "#/$defs/Nobody", "const": "x"},
        },
    }
    assert fixed_values(schema) == {
        "permission": frozenset({"r", "rw", "none"}),
        "rights[]": frozenset({"r", "rw"}),
        "lost": frozenset({"x"}),
    }
