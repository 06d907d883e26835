"""Changing one member of a message changes that member alone, or is refused."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import MessageError
from callgate.jsonrpc import member_span, replace_member

BLANK = st.sampled_from(["", " ", "\t", "\r\n", "  \n"])
KEY = st.sampled_from(["id", "a", "params", "i\\u0064", "_meta", "x y", "ü"])
VALUE = st.recursive(
    st.sampled_from(["1", "1.0", "1e2", "-0", "null", '"id"', '"}"', '"\\""', "[]", "{}", "true"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + " , ".join(items) + "]"),
        st.lists(st.tuples(KEY, inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f'"{k}": {v}' for k, v in pairs) + "}"
        ),
    ),
    max_leaves=6,
)
PAIR = st.tuples(BLANK, KEY, BLANK, BLANK, VALUE, BLANK)


def spelt(pairs: list[tuple[str, ...]]) -> str:
    return "{" + ",".join(f'{a}"{key}"{b}:{c}{value}{d}' for a, key, b, c, value, d in pairs) + "}"


@given(BLANK, st.lists(PAIR, max_size=5), BLANK)
def test_one_member_changes_or_the_message_is_refused(before, pairs, after):
    text = (before + spelt(pairs) + after).encode()
    keys = [json.loads(f'"{pair[1]}"') for pair in pairs]
    try:
        changed = replace_member(text, ("id",), b'"NEW"')
    except MessageError:
        assert len(set(keys)) < len(keys)
        return
    assert len(set(keys)) == len(keys)
    at = keys.index("id") if "id" in keys else None
    expected = [(*pair[:4], '"NEW"', pair[5]) if number == at else pair for number, pair in enumerate(pairs)]
    assert changed == (before + spelt(expected) + after).encode()


@given(st.lists(PAIR, max_size=3), st.lists(PAIR, max_size=3))
def test_a_member_inside_a_member_is_found_where_it_stands(outer, inner):
    whole = [pair for pair in outer if json.loads(f'"{pair[1]}"') != "params"]
    text = spelt([*whole, ("", "params", "", " ", spelt(inner), "\n")]).encode()
    try:
        span = member_span(text, ("params", "id"))
    except MessageError:
        return
    values = [pair[4] for pair in inner if json.loads(f'"{pair[1]}"') == "id"]
    assert values == ([] if span is None else [text[span[0] : span[1]].decode()])
