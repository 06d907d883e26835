"""RFC 8785: the vectors that others wrote, and agreement with the reference package."""

import json
import struct
from pathlib import Path

import pytest
import rfc8785

from callgate.canonical import MAX_SAFE_INTEGER, canonical
from callgate.errors import MessageError, Reason
from support.registry import requirement
from support.table import rows

JCS = Path(__file__).parent.parent / "data" / "jcs"
NAMES = sorted(path.stem for path in (JCS / "input").glob("*.json"))


@rows("name", NAMES)
def test_published_vectors(name):
    value = json.loads((JCS / "input" / f"{name}.json").read_text("utf-8"))
    assert canonical(value) == (JCS / "output" / f"{name}.json").read_bytes()
    assert canonical(value) == bytes.fromhex((JCS / "outhex" / f"{name}.txt").read_text().replace("\n", " "))


def test_all_six_vectors_are_there():
    assert NAMES == ["arrays", "french", "structures", "unicode", "values", "weird"]


def test_two_thousand_numbers():
    rows = (JCS / "numbers.txt").read_text().splitlines()
    assert len(rows) >= 2000
    for row in rows:
        bits, expected = row.split(",")
        (value,) = struct.unpack(">d", bytes.fromhex(bits))
        assert canonical(value).decode() == expected, bits


def test_key_order_of_the_sender_does_not_matter():
    assert canonical({"a": 1, "b": {"x": [1, 2], "y": None}}) == canonical({"b": {"y": None, "x": [1, 2]}, "a": 1})


@requirement("VA-078")
def test_keys_sort_by_utf16_code_units():
    # U+FB33 is one unit above the surrogates; U+1F600 starts with one (RFC 8785 §3.2.3).
    assert canonical({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


def test_composed_and_decomposed_text_stay_apart():
    assert canonical({"k": "\u00e9"}) != canonical({"k": "e\u0301"})


@rows(
    ("value", "reason"),
    [
        (MAX_SAFE_INTEGER + 1, Reason.NUMBER_OUT_OF_RANGE),
        (-MAX_SAFE_INTEGER - 1, Reason.NUMBER_OUT_OF_RANGE),
        (10**400, Reason.NUMBER_OUT_OF_RANGE),
        (float("nan"), Reason.NUMBER_OUT_OF_RANGE),
        (float("inf"), Reason.NUMBER_OUT_OF_RANGE),
        ("\ud800", Reason.LONE_SURROGATE),
        ({"\udfff": 1}, Reason.LONE_SURROGATE),
        ({1: 2}, Reason.INVALID_PARAMS),
        ({"a": {1, 2}}, Reason.INVALID_PARAMS),
    ],
)
@rows("nest", [lambda value: value, lambda value: {"deep": [value]}], ids=["bare", "nested"])
def test_what_has_no_canonical_form_is_refused(value, reason, nest):
    with pytest.raises(MessageError) as caught:
        canonical(nest(value))
    assert caught.value.reason is reason
    assert caught.value.code == -32602


def test_the_edges_of_the_safe_integers_pass():
    assert canonical([MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER]) == b"[9007199254740991,-9007199254740991]"


def test_very_deep_values_are_refused_not_a_crash():
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(MessageError) as caught:
        canonical(value)
    assert caught.value.reason is Reason.TOO_DEEP


class Shouting(str):
    __slots__ = ()


def test_subclasses_are_judged_by_the_reference():
    assert canonical({"a": Shouting("x")}) == rfc8785.dumps({"a": "x"})
