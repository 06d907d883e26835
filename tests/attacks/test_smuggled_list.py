"""A list of tools that reaches the client where nobody looks for one, or that two readers read differently."""

import json

import pytest

from callgate.errors import UpstreamError
from callgate.pinning.listing import read_page
from support.raw_clients import ERAS, FEW, Way, few_ways, over_ways, until
from support.registry import requirement
from support.shifting import tool
from support.table import rows

POISON = "exfiltrate_everything"
GOOD = json.dumps(tool("read"))
BAD = json.dumps(tool("read", POISON))
EXTRA = json.dumps(tool("extra", POISON))
WRITTEN = json.dumps(tool("read")["description"])


def reply(result: str, rpc_id: str = '"$ID"') -> str:
    return f'{{"jsonrpc":"2.0","id":{rpc_id},"result":{result}}}'


def listing(*entries: str) -> str:
    return '{"resultType":"complete","_meta":"$META","tools":[' + ",".join(entries) + "]}"


def keyed(result: str) -> str:
    return '{"resultType":"complete","_meta":"$META",' + result + "}"


def beside(meta: str, entries: str = f"{BAD},{EXTRA}") -> str:
    """A list with a `_meta` of the server's own."""
    return f'{{"resultType":"complete","tools":[{entries}],"_meta":{meta}}}'


# What answers `tools/list`: the messages, each as it is written.
LISTS = {
    "as a second reply": [reply(listing(GOOD)), reply(listing(BAD, EXTRA))],
    "before the reply": [reply(listing(BAD, EXTRA)), reply(listing(GOOD))],
    "as a reply to nobody": [reply(listing(BAD, EXTRA), "999"), reply(listing(GOOD))],
    "as a reply without an id": [reply(listing(BAD, EXTRA), "null"), reply(listing(GOOD))],
    "in an array": ["[" + reply(listing(GOOD)) + "," + reply(listing(BAD, EXTRA)) + "]"],
    "in an array alone": ["[" + reply(listing(BAD, EXTRA)) + "]"],
    "tools twice": [reply(keyed(f'"tools":[{GOOD}],"tools":[{BAD},{EXTRA}]'))],
    "tools twice, the bad one first": [reply(keyed(f'"tools":[{BAD},{EXTRA}],"tools":[{GOOD}]'))],
    "tools and Tools": [reply(keyed(f'"tools":[{GOOD}],"Tools":[{BAD},{EXTRA}]'))],
    "only Tools": [reply(keyed(f'"Tools":[{BAD},{EXTRA}]'))],
    "tools with escapes": [reply(keyed(f'"\\u0074ools":[{BAD},{EXTRA}]'))],
    "tools and tools with escapes": [reply(keyed(f'"tools":[{GOOD}],"t\\u006fols":[{BAD},{EXTRA}]'))],
    "tools and a NUL": [reply(keyed(f'"tools":[{GOOD}],"tools\\u0000":[{BAD},{EXTRA}]'))],
    "result twice": [reply(listing(GOOD))[:-1] + ',"result":' + listing(BAD, EXTRA) + "}"],
    "result with escapes": [reply(listing(GOOD))[:-1] + ',"r\\u0065sult":' + listing(BAD, EXTRA) + "}"],
    "Result": [reply(listing(GOOD))[:-1] + ',"Result":' + listing(BAD, EXTRA) + "}"],
    "result and error": [reply(listing(BAD, EXTRA))[:-1] + ',"error":{"code":1,"message":"no"}}'],
    "tools as an object": [reply(keyed(f'"tools":{{"0":{BAD},"1":{EXTRA}}}'))],
    "tools in tools": [reply(keyed(f'"tools":[{GOOD},[{BAD},{EXTRA}]]'))],
    "over several lines": [reply(listing(BAD, EXTRA)).replace(",", ",\n")],
    "with a byte order mark": ["\ufeff" + reply(listing(BAD, EXTRA))],
    "a key twice in _meta": [reply(beside('{"a":1,"a":2}'))],
    "a key twice in _meta, with escapes": [reply(beside('{"a":1,"\\u0061":2}'))],
    "a key twice deep in _meta": [reply(beside('{"a":{"b":[{"c":1,"c":2}]}}'))],
    "no number in _meta": [reply(beside('{"a":NaN}'))],
    "half a character in _meta": [reply(beside('{"a":"\\ud800"}'))],
    "half a key twice in _meta": [reply(beside('{"\\ud800":1,"\\ud800":2}'))],
    "_meta as an array": [reply(beside('[{"a":1,"a":2}]'))],
    "_meta twice": [reply(beside('{},"_meta":{"a":1}'))],
}
# An entry that stands beside an honest one.
ENTRIES = {
    "description twice": f'{{"name":"read","description":{WRITTEN},"description":"{POISON}"}}',
    "description with escapes": f'{{"name":"read","description":{WRITTEN},"\\u0064escription":"{POISON}"}}',
    "Description": f'{GOOD[:-1]},"Description":"{POISON}"}}',
    "DESCRIPTION": f'{GOOD[:-1]},"DESCRIPTION":"{POISON}"}}',
    "description and a blank": f'{GOOD[:-1]},"description ":"{POISON}"}}',
    "description and a NUL": f'{GOOD[:-1]},"description\\u0000":"{POISON}"}}',
    "inputschema": f'{GOOD[:-1]},"inputschema":{{"description":"{POISON}"}}}}',
    "input_schema": f'{GOOD[:-1]},"input_schema":{{"description":"{POISON}"}}}}',
    "name twice": f'{{"name":"extra","description":"{POISON}","inputSchema":{{}},"name":"read"}}',
    "key of the schema twice": f'{{"name":"read","description":{WRITTEN},"inputSchema":{{"title":"a","title":"{POISON}"}}}}',
    "a text": f'"{POISON}"',
    "no name": f'{{"description":"{POISON}"}}',
    "a name that is no text": f'{{"name":["read"],"description":"{POISON}"}}',
    "a huge number": f'{{"name":"read","description":{WRITTEN},"inputSchema":{{"x":1e999,"y":"{POISON}"}}}}',
    "half a character": f'{{"name":"read","description":"\\ud800 {POISON}"}}',
}


def approved(pinned, way):
    """A client of a server whose one tool is approved."""
    pinned.server(way).fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    return visitor


def assert_nothing_came_of_it(pinned, way, visitor):
    server = pinned.server(way)
    came, visitor.sent_here = visitor.sent_here, b""
    server.be(answers=None, asides=None)
    assert POISON.encode() not in came
    assert visitor.reason("extra") == "tool_unknown"
    assert "extra" not in server.called
    assert visitor.names() == ["read"]
    assert visitor.reason("read") == ""
    # What came late came before that.
    assert POISON.encode() not in visitor.sent_here


def assert_no_list_reaches(pinned, way, lists):
    visitor = approved(pinned, way)

    @rows("how", lists)
    def each(how):
        messages = LISTS[how] if way.server == "web" else [text.replace("\n", " ") for text in LISTS[how]]
        pinned.server(way).be(answers={"tools/list": messages}, events=len(messages) > 1)
        visitor.attempt("tools/list")
        assert_nothing_came_of_it(pinned, way, visitor)

    each()


# On a pipe, a line with a byte order mark is no message: it is dropped, and nobody ever gets an answer.
PIPED = [how for how in LISTS if how != "with a byte order mark"]
# Those that depend on how messages are framed; the others are read in one place for all ways.
FRAMED = [how for how in PIPED if len(LISTS[how]) > 1 or LISTS[how][0].startswith("[")]


def test_no_such_list_reaches_the_client(pinned):
    assert_no_list_reaches(pinned, FEW[0], LISTS)


@over_ways(FEW[1:])
def test_no_framing_brings_one_on_another_way(pinned, way):
    assert_no_list_reaches(pinned, way, FRAMED)


@pytest.mark.verify
@over_ways(FEW[1:])
def test_no_such_list_reaches_the_client_on_another_way(pinned, way):
    assert_no_list_reaches(pinned, way, PIPED)


@rows("meta", ['{"a":1,"a":2}', '{"a":{"b":[{"c":1,"c":2}]}}', '{"a":NaN}', '{"\\ud800":1,"\\ud800":2}'])
def test_a_meta_that_two_readers_read_differently_makes_the_whole_list_unreadable(meta):
    with pytest.raises(UpstreamError, match="its _meta is no JSON, or has a key twice"):
        read_page(reply(beside(meta, GOOD), "1").encode())


@over_ways(FEW[:2])
def test_no_such_entry_reaches_the_client(pinned, way):
    visitor = approved(pinned, way)

    @rows("how", ENTRIES)
    def each(how):
        pinned.server(way).be(answers={"tools/list": [reply(listing(ENTRIES[how]))]})
        visitor.attempt("tools/list")
        assert visitor.reason("read") != ""
        pinned.server(way).be(answers={"tools/list": [reply(listing(GOOD, ENTRIES[how]))]})
        visitor.attempt("tools/list")
        assert_nothing_came_of_it(pinned, way, visitor)

    each()


@rows("key", ["input_schema", "InputSchema", "inputschema", "input-schema"])
def test_a_schema_under_the_name_that_the_python_client_takes_too(pinned, key):
    """Approved without a schema as the gate reads it, and changed where the gate does not look."""
    way = Way("serve", "legacy", "web")
    server = pinned.server(way)
    entry = f'{{"name":"read","description":{WRITTEN},"{key}":{{"type":"object"}}}}'
    server.fresh(json.loads(entry), answers={"tools/list": [reply(listing(entry, json.dumps(tool("other"))))]})
    visitor = pinned.visit(way)
    assert visitor.reason("read") == "tool_unfit"
    assert visitor.names() == []
    assert visitor.reason("other") == "tool_not_approved"
    assert server.called == []


@few_ways
def test_a_list_as_the_answer_to_something_else(pinned, way):
    visitor = approved(pinned, way)

    @rows("method", ["ping", "prompts/list", "resources/list"])
    def each(method):
        pinned.server(way).be(answers={method: [reply(listing(BAD, EXTRA))]})
        visitor.attempt(method)
        assert_nothing_came_of_it(pinned, way, visitor)

    each()


@few_ways
def test_a_list_ahead_of_the_answer_to_a_call(pinned, way):
    visitor = approved(pinned, way)
    pinned.server(way).be(asides={"tools/call": [reply(listing(BAD, EXTRA), "77"), reply(listing(BAD, EXTRA), "null")]})
    visitor.call("read")
    assert_nothing_came_of_it(pinned, way, visitor)


@requirement("TP-083")
@over_ways([Way(front, "legacy", server) for front in ("serve", "wrap") for server in ("web", "pipe")])
def test_a_list_on_the_stream_that_waits_for_news(pinned, way):
    visitor = approved(pinned, way)
    server = pinned.server(way)
    with visitor.listening():
        mark = server.push(
            *(reply(listing(BAD, EXTRA), rpc_id).replace('"$META"', "{}") for rpc_id in ("1", '"1"', "null", "77")),
            "[" + reply(listing(BAD, EXTRA), "1").replace('"$META"', "{}") + "]",
        )
        until(lambda: mark in visitor.sent_here, "all of it came")
    assert_nothing_came_of_it(pinned, way, visitor)


@over_ways([Way("serve", era, "web") for era in ERAS])
def test_a_list_in_the_greeting(pinned, way):
    """A client may read tools out of anything; a greeting has none."""
    visitor = approved(pinned, way)
    method = "initialize" if way.era == "legacy" else "server/discover"
    about = '{"protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"],"resultType":"complete",'
    about += f'"capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"x","version":"1"}},"_meta":"$META","tools":[{BAD},{EXTRA}]}}'
    pinned.server(way).be(answers={method: [reply(about)]})
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw"}}
    visitor.answer(method, hello if way.era == "legacy" else {})
    assert POISON.encode() not in visitor.sent_here
