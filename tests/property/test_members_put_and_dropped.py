"""Adding or taking away one member of an object leaves every other one as it is."""

from __future__ import annotations

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from callgate.jsonrpc import drop_member, put_member

BLANK = st.sampled_from(["", " ", "\t", "\r\n", "  \n"])
KEY = st.sampled_from(["id", "a", "params", "_meta", "x y", "ü", "\\u0062", '\\"', "}", ","])
VALUE = st.sampled_from(
    [
        "1",
        "1.0",
        "1e2",
        "-0",
        "null",
        '"id"',
        '"}"',
        '"\\""',
        "[]",
        "{}",
        '{"id":[1, {"a":2}]}',
        '"é\U0001f511"',
        "true",
    ]
)
PAIR = st.tuples(BLANK, KEY, BLANK, BLANK, VALUE, BLANK)


def spelt(pairs: list[tuple[str, ...]], blank: str = "") -> str:
    return "{" + (",".join(f'{a}"{key}"{b}:{c}{value}{d}' for a, key, b, c, value, d in pairs) or blank) + "}"


def names(pairs: list[tuple[str, ...]]) -> list[str]:
    return [json.loads(f'"{pair[1]}"') for pair in pairs]


@given(BLANK, st.lists(PAIR, max_size=5), BLANK, BLANK)
def test_a_dropped_member_is_gone_and_the_others_stay(before, pairs, after, blank):
    assume(len(set(names(pairs))) == len(pairs))
    inner = spelt(pairs, blank)
    text = (before + '{"x":' + inner + ',"id":0}' + after).encode()
    dropped = drop_member(text, ("x", "id"))
    if "id" not in names(pairs):
        assert dropped is text
        return
    expected = json.loads(inner)
    del expected["id"]
    assert json.loads(dropped) == {"x": expected, "id": 0}
    # What is left stands as it was spelt.
    for pair, name in zip(pairs, names(pairs), strict=True):
        if name != "id":
            assert f'"{pair[1]}"{pair[2]}:{pair[3]}{pair[4]}'.encode() in dropped


@given(BLANK, st.lists(PAIR, max_size=5), BLANK, BLANK, st.sampled_from(["id", "new", "ü", '"']))
def test_a_put_member_is_there_and_the_others_stay(before, pairs, after, blank, name):
    assume(len(set(names(pairs))) == len(pairs))
    text = before + spelt(pairs, blank) + after
    put = put_member(text.encode(), name, b'{"n": 1.50}')
    assert json.loads(put) == json.loads(text) | {name: {"n": 1.5}}
    assert list(json.loads(put)) == list(json.loads(text) | {name: 0})
    assert b'{"n": 1.50}' in put
    for pair, other in zip(pairs, names(pairs), strict=True):
        if other != name:
            assert f'"{pair[1]}"{pair[2]}:{pair[3]}{pair[4]}'.encode() in put


@given(st.sampled_from([b"{}", b'{"x":7}', b'{"x":[]}', b'{"x":{"y":1}}', b'{"y":{"id":1}}']))
def test_nothing_to_drop_changes_nothing(text):
    assert drop_member(text, ("x", "id")) is text
