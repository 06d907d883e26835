"""The same tool, spelt otherwise: keys in another order, numbers and letters written in another way. No false alarm."""

import json

from hypothesis import given
from hypothesis import strategies as st

from callgate.pinning.listing import EntryReader
from callgate.pinning.model import PinningSettings
from support.raw_clients import few_ways
from support.registry import requirement
from support.shifting import tool

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "n": {"type": "number", "minimum": 1, "maximum": 100000}},
    "required": ["id"],
}
PLAIN = json.dumps(tool("read", "Reads it, naïvely.", inputSchema=SCHEMA), ensure_ascii=False)
RESPELT = (
    '{"inputSchema" : {"required":["id"],"type":"object","properties":{"n":{"maximum":1E+5,"minimum":1.0,'
    '"type":"number"},"id":{"type":"string"}}}, "description":"Reads\\u0020it, na\\u00efvely.", "n\\u0061me":"read"}'
)


def reply(entry: str) -> str:
    return '{"jsonrpc":"2.0","id":"$ID","result":{"resultType":"complete","_meta":"$META","tools":[' + entry + "]}}"


@requirement("TP-012")
@few_ways
def test_a_tool_respelt_stays_approved(pinned, way):
    server = pinned.server(way)
    server.fresh(json.loads(PLAIN), answers={"tools/list": [reply(PLAIN)]})
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    server.be(answers={"tools/list": [reply(RESPELT)]})
    visitor = pinned.again(visitor, way)
    assert visitor.names() == ["read"]
    assert visitor.reason("read") == ""
    server_id = pinned.identity(way.server).server_id
    assert [one.changes for one in pinned.tools_seen(server_id)] == [0]
    assert not pinned.deeds("pinning.changed", server_id=server_id, tool="read", what="text")


def spelt(value, draw):
    """JSON of a value: keys in any order, numbers and letters in any spelling."""
    blank = draw(st.sampled_from(["", " ", "\n\t"]))
    if isinstance(value, dict):
        keys = draw(st.permutations(sorted(value)))
        return "{" + ",".join(f"{blank}{spelt(key, draw)}{blank}:{spelt(value[key], draw)}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(blank + spelt(item, draw) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    if isinstance(value, int) and not isinstance(value, bool):
        return draw(st.sampled_from([str(value), f"{value}.0", f"{value}e0", f"{value}0E-1"]))
    return json.dumps(value)


leaf = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
schemas = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


@requirement("TP-012")
@given(
    st.dictionaries(words, schemas, max_size=4),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.data(),
)
def test_no_spelling_changes_the_hash(schema, description, data):
    entry = {"name": "read", "description": description, "inputSchema": schema}
    reader = EntryReader("server", PinningSettings())
    plain = reader.read(json.dumps(entry).encode())
    other = reader.read(spelt(entry, data.draw).encode())
    assert plain.problem == other.problem == ""
    assert plain.approval_hash == other.approval_hash
    assert plain.entry == other.entry
