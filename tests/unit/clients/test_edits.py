import json

import pytest

from callgate.clients.jsonc import Edit, apply, difference, hunks, may_be_secret, scan
from callgate.errors import ConfigError
from support.table import rows


def test_edits_are_made_whatever_their_order_and_never_twice_in_one_place():
    assert apply("abcdef", [Edit(4, 5, "E"), Edit(0, 0, "<"), Edit(1, 3, "")]) == "<adEf"
    with pytest.raises(ConfigError, match="two changes of one place"):
        apply("abcdef", [Edit(0, 3, ""), Edit(2, 4, "")])


def test_changes_far_apart_are_shown_apart_and_near_ones_together():
    lines = [str(number) for number in range(30)]
    text = "[\n" + ",\n".join(lines) + "\n]"
    tree = scan(text)
    first, second, last = (Edit(node.start, node.end, "0") for node in (tree.items[5], tree.items[7], tree.items[25]))
    near, far = hunks(text, tree, [last, first, second])
    assert near.line == 5
    assert near.before == ["3,", "4,", "5,", "6,", "7,", "8,", "9,"]
    assert near.after == ["3,", "4,", "0,", "6,", "0,", "8,", "9,"]
    assert (far.line, far.before[2], far.after[2]) == (25, "25,", "0,")


def test_a_change_in_the_first_and_the_last_line():
    text = '\ufeff{"a": 1}'
    (hunk,) = hunks(text, scan(text), [Edit(7, 8, "2")])
    assert hunk == (1, ['{"a": 1}'], ['{"a": 2}'])


def test_secrets_are_not_shown_before_or_after():
    text = json.dumps({"s": {"env": {"T": "s3cret", "N": 1}, "headers": {"A": "s3cret"}, "x": "https://a?k=s3cret"}})
    tree = scan(text)
    new = Edit(1, 1, '"u": "s3cret", ', '"u": "***", ')
    assert "s3cret" not in str(hunks(text, tree, [new]))
    assert "s3cret" in apply(text, [new])


def test_all_that_differs_as_one_edit():
    before, after = '{\n "a": 1,\n "b": 2,\n "c": 3\n}\n', '{\n "a": 1,\n "env": {"b": "s3cret"},\n "c": 3\n}\n'
    edit = difference(before, after, scan(after))
    assert apply(before, [edit]) == after
    assert edit.new == ' "env": {"b": "s3cret"},\n'
    assert edit.shown == ' "env": {"b": "***"},\n'
    assert difference(after, after, scan(after)).new == ""


@rows(
    ("url", "expected"),
    [
        ("https://tools.example/mcp", False),
        ("http://localhost:8080/api/v1/mcp", False),
        ("just text?", False),
        ("https://tools.example/mcp?x", True),
        ("https://token@tools.example/mcp", True),
        ("https://tools.example/${KEY}", True),
        ("https://tools.example/u/0123456789abcdefghij/mcp", True),
    ],
)
def test_addresses_that_may_hold_a_secret(url, expected):
    assert may_be_secret(url) is expected
