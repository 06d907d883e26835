"""A server that says at its start that its tools have changed, once or often: the first call waits until it rests."""

from support.raw_clients import Way, over_ways
from support.registry import requirement
from support.shifting import tool
from support.table import rows

PIPES = [Way("wrap", "legacy", "pipe"), Way("serve", "legacy", "pipe")]


def approved(site, way):
    server = site.server(way)
    server.be(tools=[tool("read")], restless=None)
    visitor = site.visit(way)
    visitor.names()
    if site.row(way.server, "read")["state"] != "approved":
        site.approve(way.server, "read")
    visitor.until_open("read")
    site.leave()
    return server


# The first call of `wrap` makes it read the list twice: for what was approved, and for what needs a person.
@requirement("TP-019")
@over_ways(PIPES)
@rows("lists", [[], [1], [2], [1, 2], [2, 3, 4, 5], list(range(1, 8)), [2, 4, 6]], ids=str)
def test_the_first_call_waits_until_the_server_rests(patient, way, lists):
    server = approved(patient, way)
    server.be(restless=lists)
    before = len(server.called)
    answer = patient.visit(way).call("read")
    assert "result" in answer, answer
    assert len(server.called) == before + 1
