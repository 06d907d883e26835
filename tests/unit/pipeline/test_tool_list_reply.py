"""A reply to `tools/list` that is read once: what counts as one, and what changing it writes."""

import json

import pytest

from callgate.pinning.listing import page_of, read_page
from callgate.pipeline.replies import ToolListReply

TOOLS = [{"name": "a", "description": "eins, zwei: \u00e9\U0001f600", "inputSchema": {"type": "object"}}, {"name": "b"}]


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def reply(**result):
    return compact({"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS, **result}})


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"id": 1, "result": {"tools": TOOLS}}).encode(),
        b'{"id":1,"result":{"tools":[{"name":"a","name":"b"}]}}',
        b'{"id":1,"result":{"tools":[]},"result":{"tools":[]}}',
        b'{"id":1,"result":{"tools":[{"name":"\\u0061"}]}}',
        b'{"id":1,"result":{"tools":{"name":"a"}}}',
        b'{"id":1,"result":{"tools":[{"minimum":1E2}]}}',
        b'{"id":1,"result":{"tools":[{"name":"\\ud800"}]}}',
        b'{"id":1,"error":{"code":1}}',
        b'[{"id":1,"result":{"tools":[]}}]',
        b"",
        b"\xff",
    ],
)
def test_what_is_written_in_another_way_or_reads_in_two_is_none(raw):
    assert ToolListReply.read(raw) is None


def test_a_page_is_the_same_however_it_is_read():
    raw = reply(nextCursor="n", _meta={"x": 1})
    read, looked_at = page_of(ToolListReply.read(raw), 10_000), read_page(raw, 10_000)
    assert (read.entries, read.array, read.cursor, read.meta) == (
        looked_at.entries,
        looked_at.array,
        looked_at.cursor,
        looked_at.meta,
    )
    assert page_of(ToolListReply.read(raw), 10).entries == read_page(raw, 10).entries == ()


def test_changes_leave_every_other_byte_alone():
    raw = reply(_meta={"x": 1}, ttl=5)
    read = ToolListReply.read(raw)
    assert read.raw() == raw
    fewer = read.with_result(tools=TOOLS[1:]).with_result(new=True).raw()
    assert fewer == raw.replace(compact(TOOLS[0]) + b",", b"").replace(b'"ttl":5', b'"ttl":5,"new":true')
    assert read.raw() == raw
