"""Whatever passes the strict reader, every other reader sees the same call in it."""

import json

import msgspec
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.jsonrpc import BadMessage, Limits, Message, parse, replace_member, tool_call

LIMITS = Limits(bytes=1_000_000, depth=50, batch=10)

keys = st.sampled_from(["a", "b", "name", "arguments", "A", "method", "params"]) | st.text(max_size=4)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(keys, inner), max_size=4), max_leaves=12
)


def spell(value, space):
    """JSON text that may repeat keys: a list of pairs is an object."""
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return "{" + f",{space}".join(f"{json.dumps(k)}:{spell(v, space)}" for k, v in value) + "}"
        return "[" + f",{space}".join(spell(item, space) for item in value) + "]"
    return json.dumps(value)


@settings(max_examples=100)
@given(st.lists(st.tuples(keys, trees), max_size=4), st.sampled_from(["", " ", "\n\t"]))
def test_first_and_last_wins_readers_agree_on_what_passes(arguments, space):
    text = spell(arguments, space) if arguments else "{}"
    raw = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{text}}}}}'.encode()
    try:
        message = parse(raw, LIMITS)
        assert isinstance(message, Message)
        call = tool_call(message)
    except BadMessage:
        return
    first_wins = json.loads(raw, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert first_wins["params"]["arguments"] == call.arguments
    assert msgspec.json.decode(raw)["params"]["arguments"] == call.arguments
    assert json.loads(call.canonical, parse_int=float) == json.loads(orjson.dumps(call.arguments), parse_int=float)


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw):
    code = 0
    try:
        parse(raw, LIMITS)
    except BadMessage as error:
        code = error.code
    assert code in (0, -32700, -32600, -32602)


json_values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=10
)


@given(st.dictionaries(keys, json_values, max_size=5), st.sampled_from([None, 1, 3]), json_values)
def test_splicing_changes_one_value_only(fields, indent, new):
    raw = json.dumps({**fields, "id": 1}, indent=indent).encode()
    changed = replace_member(raw, ("id",), json.dumps(new).encode())
    assert json.loads(changed) == {**fields, "id": new}
    assert replace_member(changed, ("id",), b"1") == raw
