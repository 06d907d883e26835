"""Replies that are read at a glance say what they say at a closer look, however keys and quotes are written in them."""

import json

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from callgate.trust import results as reading
from callgate.trust.results import plain_texts

KEYS = ("jsonrpc", "id", "result", "content", "type", "text", "isError", "resultType", "_meta", "method", "x")
PIECES = (
    "a",
    "hello ",
    "\\n",
    '\\"',
    "\\\\",
    "\\u0022",
    "\\u0041",
    "\\ud83d",
    "é",
    "\\/",
    '\\",\\"text\\":\\"b',
    ":",
    " ",
)


def written(key, escaped):
    return f'"\\u{ord(key[0]):04x}{key[1:]}"' if escaped else f'"{key}"'


@st.composite
def members(draw, usual, values):
    """An object that is mostly the usual one, with members more, less, twice, or spelt with an escape."""
    pairs = list(usual)
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        at = draw(st.integers(0, len(pairs)))
        pairs.insert(at, (draw(st.sampled_from(KEYS)), draw(values)))
    if pairs and draw(st.integers(0, 9)) == 0:
        pairs.pop(draw(st.integers(0, len(pairs) - 1)))
    escapes = [draw(st.integers(0, 19)) == 0 for _ in pairs]
    inside = ",".join(f"{written(key, escaped)}:{value}" for (key, value), escaped in zip(pairs, escapes, strict=True))
    return "{" + inside + "}"


strings = st.lists(st.sampled_from(PIECES), max_size=4).map(lambda parts: f'"{"".join(parts)}"')
anything = strings | st.sampled_from(("1", "true", "false", "null", "[]", "{}", '"text"', '"complete"', '["a"]'))


@st.composite
def replies(draw):
    items = [
        draw(members([("type", '"text"'), ("text", draw(strings))], anything)) for _ in range(draw(st.integers(0, 3)))
    ]
    content = "[" + ",".join(items) + "]"
    more = draw(st.sampled_from(((), (("isError", "false"),), (("isError", "true"),), (("resultType", '"complete"'),))))
    result = draw(members([("content", content), *more], anything | st.just(content)))
    rpc_id = draw(st.sampled_from(("1", "1", "-7", '"a"', '"\\""', '"\\u0022"', "null", "1.5")))
    usual = [("jsonrpc", '"2.0"'), ("id", rpc_id), ("result", result)]
    return draw(members(usual, anything | st.just(result))).encode()


def closely(raw):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "plain_texts", lambda *_: None)
        return reading.read_result(raw)


def pairs_of(raw):
    """How often a key came twice, anywhere."""
    twice = []

    def met(pairs):
        twice.append(len(pairs) - len(dict(pairs)))
        return dict(pairs)

    json.loads(raw, object_pairs_hook=met)
    return sum(twice)


@given(replies())
@settings(max_examples=100, deadline=None)
def test_a_glance_and_a_closer_look_agree(raw):
    at_a_glance = reading.read_result(raw)
    assert at_a_glance == closely(raw)
    try:
        message = reading._decode(raw)
    except ValueError:
        return
    if plain_texts(raw, message) is not None:
        event("plain")
        assert pairs_of(raw) == 0
        assert not at_a_glance.ambiguous
