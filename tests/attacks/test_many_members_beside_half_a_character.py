"""A list with half a character and thousands of members: where each stands is found in one go, not anew for each."""

import time

import pytest

from callgate.jsonrpc import member_spans
from callgate.pinning.listing import read_page
from support.raw_clients import few_ways
from support.shifting import tool
from support.table import rows

# Half a character keeps the fast reader from it; one that is no ASCII makes bytes and characters differ.
HEAD = '"\\ud800":1,"é":2,'
FEW_MEMBERS, TIMES = 2_500, 8


def members(number):
    return HEAD + ",".join(f'"ü{at}":"ö"' for at in range(number))


def reply(number):
    return ('{"jsonrpc":"2.0","id":1,"result":{"tools":[],' + members(number) + "}}").encode()


def spent(work):
    """The processor's time, the least of some tries: what else the machine does counts little in that."""
    tries = []
    for _ in range(5):
        start = time.process_time()
        work()
        tries.append(time.process_time() - start)
    return min(tries)


@pytest.mark.verify
@rows("read", [read_page, lambda raw: member_spans(raw[raw.index(b"result") + 8 : -1])])
def test_so_many_times_the_members_are_so_many_times_the_work(read):
    few, many = reply(FEW_MEMBERS), reply(FEW_MEMBERS * TIMES)
    assert read(few) is not None
    # Read anew for each of them it would be the square, which is 64 times as much.
    assert spent(lambda: read(many)) < 4 * TIMES * spent(lambda: read(few))


def test_each_of_them_is_where_it_says():
    text = ("{" + members(50) + ', "last" : "ÿ😀" }').encode()
    found = member_spans(text)
    assert text[slice(*found["\ud800"])] == b"1"
    assert {text[slice(*found[f"ü{at}"])].decode() for at in range(50)} == {'"ö"'}
    assert text[slice(*found["last"])].decode() == '"ÿ😀"'


@few_ways
def test_what_is_approved_passes_and_nothing_else(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    entry = '{"name":"read"}'
    result = '{"resultType":"complete","_meta":"$META","tools":[' + entry + "]," + members(20_000) + "}"
    server.be(answers={"tools/list": ['{"jsonrpc":"2.0","id":"$ID","result":' + result + "}"]})
    assert visitor.names() == []
    server.be(answers=None)
    assert visitor.names() == ["read"]
