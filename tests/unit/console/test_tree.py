"""Arguments as a tree."""

import json

from callgate.canonical import canonical
from callgate.console.rendering import MOST_LINES, TreeLine, json_tree
from support.table import rows


def lines(value):
    return [tuple(line) for line in json_tree(canonical(value))]


def test_every_kind_of_value():
    assert lines({"b": [1, "x"], "a": {"t": True, "n": None}, "e": {}, "f": [], "g": 1.5}) == [
        ("open", "a", "object", "2 fields"),
        ("leaf", "n", "word", "null"),
        ("leaf", "t", "word", "true"),
        ("close", "", "", ""),
        ("open", "b", "array", "2 items"),
        ("leaf", "[0]", "number", "1"),
        ("leaf", "[1]", "text", '"x"'),
        ("close", "", "", ""),
        ("leaf", "e", "word", "{}"),
        ("leaf", "f", "word", "[]"),
        ("leaf", "g", "number", "1.5"),
    ]


def test_nothing_to_show():
    assert json_tree(b"{}") == []


@rows("text", ["1e+21", "-0.5", "1e-7", "9007199254740991", "0.1"])
def test_numbers_stand_as_they_are_signed(text):
    assert json_tree(b'{"n":%s}' % text.encode()) == [TreeLine("leaf", "n", "number", text)]


def test_quotes_and_backslashes_inside_a_text_are_told_from_its_end():
    assert lines({"a": 'x", "b": "y\\'}) == [("leaf", "a", "text", '"x\\", \\"b\\": \\"y\\\\"')]


def test_hidden_characters_are_spelt_out_in_keys_and_values():
    assert lines({"a\u202eb": "c\u200bd\ne"}) == [("leaf", "a\\u202eb", "text", '"c\\u200bd\\ne"')]


def test_a_number_in_quotes_stays_a_text():
    assert lines({"a": "1"}) == [("leaf", "a", "text", '"1"')]


def test_too_many_values_for_a_tree():
    assert len(json_tree(canonical({"a": [0] * (MOST_LINES - 2)}))) == MOST_LINES
    assert json_tree(canonical({"a": [0] * (MOST_LINES - 1)})) is None


@rows("depth", [300, 100_000])
def test_depth_costs_nothing(depth):
    text = b'{"a":' + b"[" * depth + b"1" + b"]" * depth + b"}"
    found = json_tree(text)
    assert found is None or len(found) == 2 * depth + 1


@rows("raw", [b"", b"[1]", b"{", b'"x"', b"\xff"])
def test_what_is_no_object_has_no_tree(raw):
    assert json_tree(raw) is None


def test_lines_nest():
    value = {"a": {"b": {"c": [[1], [2, {"d": 3}]]}}, "e": 1}
    depth = 0
    for line in json_tree(json.dumps(value).encode()):
        depth += {"open": 1, "close": -1, "leaf": 0}[line.what]
        assert depth >= 0
    assert depth == 0
