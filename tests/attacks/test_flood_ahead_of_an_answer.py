"""A server sends thousands of notifications ahead of its answer, faster than anybody can pass them on."""

import json

from support.raw_clients import Way, over_ways
from support.shifting import tool

NOTICE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d"}}'
# A pipe brings many lines at once; the flood is routed to the only request that is under way.
WAYS = [Way("serve", "legacy", "pipe"), Way("serve", "modern", "pipe"), Way("serve", "legacy", "web")]


@over_ways(WAYS)
def test_the_call_ends_in_an_answer_or_an_error_never_in_a_cut_body(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    server.be(asides={"tools/call": [NOTICE % number for number in range(3000)]}, events=True)
    # An answer that breaks off would raise here: http.client wants the end of the body.
    answer = visitor.call("read")
    assert answer["id"] == 1, json.dumps(answer)[:200]
    if "error" in answer:
        assert answer["error"]["data"]["reason"] == "overloaded"
    else:
        assert answer["result"]["content"][0]["text"] == "ran read"
    server.be(asides=None)
    visitor.until_open("read")
