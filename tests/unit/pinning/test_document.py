"""What the approval hash is made of."""

import hashlib
import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import MessageError, Reason
from callgate.pinning.document import approval_hash, beside
from support.registry import requirement
from support.table import rows

SCHEMA = {"type": "object", "properties": {"n": {"type": "number", "maximum": 10}}}
TEXT = "Reads a note.\r\n  Trailing blanks stay.  \t"


def by_hand(server_id, tool_name, description, input_schema):
    document = {
        "server_id": server_id,
        "tool_name": tool_name,
        "description": description,
        "input_schema": input_schema,
    }
    return "sha256:" + hashlib.sha256(rfc8785.dumps(document)).hexdigest()


@requirement("TP-011", "TP-012", "TP-067")
def test_it_is_sha256_over_the_canonical_form_of_the_four():
    assert approval_hash("npm:a@1", "read", TEXT, SCHEMA) == by_hand("npm:a@1", "read", TEXT, SCHEMA)
    assert approval_hash("npm:a@1", "read", None, None) == by_hand("npm:a@1", "read", None, None)


@requirement("TP-011", "TP-067")
@rows(
    "other",
    [
        ("npm:a@2", "read", TEXT, SCHEMA),
        ("npm:a@1", "Read", TEXT, SCHEMA),
        ("npm:a@1", "read", TEXT + " ", SCHEMA),
        ("npm:a@1", "read", TEXT.replace("\r\n", "\n"), SCHEMA),
        ("npm:a@1", "read", TEXT.strip(), SCHEMA),
        ("npm:a@1", "read", None, SCHEMA),
        ("npm:a@1", "read", "", SCHEMA),
        ("npm:a@1", "read", TEXT, None),
        ("npm:a@1", "read", TEXT, {}),
        ("npm:a@1", "read", TEXT, {**SCHEMA, "$defs": {}}),
        ("npm:a@1", "read", TEXT, {"type": "object", "properties": {"n": {"type": "number", "maximum": 11}}}),
    ],
)
def test_a_change_of_any_of_the_four_changes_it(other):
    assert approval_hash(*other) != approval_hash("npm:a@1", "read", TEXT, SCHEMA)


def test_two_normal_forms_of_a_letter_are_two_texts():
    assert approval_hash("s", "t", "caf\u00e9", {}) != approval_hash("s", "t", "cafe\u0301", {})


@requirement("TP-012")
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e300, 1e300) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_order_of_keys_and_spelling_of_numbers_do_not_count(value):
    try:
        expected = by_hand("s", "t", "d", {"x": value})
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return
    turned = json.loads(json.dumps({"x": value}), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert approval_hash("s", "t", "d", turned) == expected


@rows("value", [2**53, float("nan"), float("inf"), "\ud800"])
def test_what_has_no_canonical_form_has_no_hash(value):
    with pytest.raises(MessageError) as refused:
        approval_hash("s", "t", "d", {"x": value})
    assert refused.value.reason in (Reason.NUMBER_OUT_OF_RANGE, Reason.LONE_SURROGATE)


@requirement("TP-015")
def test_everything_else_has_a_digest_of_its_own():
    entry = {"name": "t", "description": "d", "inputSchema": {}, "title": "T", "_meta": {"a": 1}, "new": [1]}
    assert set(beside(entry)) == {"title", "_meta", "new"}
    assert beside({**entry, "_meta": {"a": 2}})["_meta"] != beside(entry)["_meta"]
    assert beside({**entry, "_meta": {"a": 2}})["title"] == beside(entry)["title"]
