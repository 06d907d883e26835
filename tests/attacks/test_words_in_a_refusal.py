"""What a server calls the members of an unapproved tool comes back to the model in the gateway's own sentences."""

import json

from support.pinning import pinned_site
from support.raw_clients import Way, few_ways
from support.shifting import tool
from support.table import rows

POISON = "exfiltrate_everything"
GOOD = json.dumps(tool("read"))
ENTRIES = {
    "behind a NUL in another spelling": f'{GOOD[:-1]},"Description\\u0000 {POISON}":1}}',
    "as a key twice": f'{GOOD[:-1]},"{POISON}":1,"{POISON}":2}}',
    "as a key twice in the schema": f'{{"name":"read","inputSchema":{{"{POISON}":1,"{POISON}":2}}}}',
}
RESULTS = {
    "as a key twice in the result": f'{{"tools":[{GOOD}],"{POISON}":1,"{POISON}":2}}',
    "behind a NUL in the result": f'{{"tools":[{GOOD}],"Tools\\u0000{POISON}":[]}}',
}


def answering(result):
    return {"tools/list": ['{"jsonrpc":"2.0","id":"$ID","result":' + result + "}"]}


@few_ways
def test_no_word_of_it_comes_back(pinned, way):
    pinned.server(way).fresh(tool("read"))
    visitor = pinned.visit(way)

    @rows("how", [*ENTRIES, *RESULTS])
    def each(how):
        result = RESULTS.get(how) or f'{{"resultType":"complete","_meta":"$META","tools":[{ENTRIES.get(how)}]}}'
        pinned.server(way).be(answers=answering(result))
        visitor.attempt("tools/list")
        assert visitor.reason("read") in ("tool_unfit", "upstream_garbage")
        visitor.answer("tools/call", {"name": "callgate_pending", "arguments": {}})
        # A key that nobody could take for anything else is passed on with what was approved, and only with that.
        assert POISON.encode() not in visitor.sent_here

    each()


def test_not_as_the_name_of_a_member_that_changed(tmp_path):
    with pinned_site(tmp_path, pinning={"beside": "block"}) as site:
        way = Way("serve", "legacy", "web")
        site["web"].fresh(tool("read", title="Read"))
        visitor = site.visit(way)
        visitor.names()
        site.approve("web", "read")
        visitor.until_open("read")
        site["web"].change("read", **{"title": "Other", POISON: 1})
        answer = visitor.call("read")
        assert answer["error"]["data"]["reason"] == "tool_changed"
        assert "title, other members" in answer["error"]["message"]
        assert POISON.encode() not in visitor.sent_here
