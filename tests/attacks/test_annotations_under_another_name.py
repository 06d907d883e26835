"""A tool's annotations change places with another member of its entry: that is a change, and somebody is told."""

from callgate.pinning.listing import EntryReader, ToolListing
from callgate.pinning.model import PinningSettings
from support.raw_clients import few_ways, until
from support.registry import requirement
from support.shifting import tool

HARMLESS, HARMFUL = {"readOnlyHint": True}, {"destructiveHint": True}
BEFORE = {"annotations": HARMFUL, "x-old": HARMLESS}
AFTER = {"annotations": HARMLESS, "x-old": HARMFUL}


@requirement("TP-015")
@few_ways
def test_it_is_on_record(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("wipe", **BEFORE))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "wipe")
    visitor.until_open("wipe")
    server.be(tools=[tool("wipe", **AFTER)])
    visitor.names()
    server_id = pinned.identity(way.server).server_id
    (alert,) = until(lambda: pinned.deeds("pinning.changed", server_id=server_id, tool="wipe"), "it is on record")
    assert alert["detail"]["what"] == "beside"
    assert set(alert["detail"]["members"]) == {"annotations", "x-old"}


def test_no_two_lists_have_one_digest():
    entries = [
        b'{"name":"x","annotations":{"a":1},"zz":{"b":1}}',
        b'{"name":"x","annotations":{"b":1},"zz":{"a":1}}',
        b'{"name":"x","annotations":{"a":1},"yy":{"b":1}}',
        b'{"name":"x","title":{"a":1},"zz":{"b":1}}',
    ]
    reader = EntryReader("somebody", PinningSettings())
    assert len({ToolListing([reader.read(entry)]).digest for entry in entries}) == len(entries)
    other_order = b'{"zz":{"b":1},"name":"x","annotations":{"a":1}}'
    assert ToolListing([reader.read(other_order)]).digest == ToolListing([reader.read(entries[0])]).digest
