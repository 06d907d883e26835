"""Two names that look alike, or that some readers take for one: NUL, case, homoglyphs, normal forms, blanks."""

import json
import unicodedata

from support.raw_clients import Way, served_ways
from support.registry import requirement
from support.shifting import tool
from support.table import rows

SERVED = Way("serve", "legacy", "web")
NAME = "café_read"
ALIKE = {
    "capital": "Café_read",
    "homoglyph": "саfé_read",
    "normal form": unicodedata.normalize("NFD", NAME),
    "full width": "ｃafé_read",
}
INVISIBLE = {
    "NUL at the end": NAME + "\0",
    "NUL and more": NAME + "\0x",
    "zero width": "caf\u200bé_read",
    "right to left": "\u202ecafé_read",
    "soft hyphen": "café\u00ad_read",
    "tag": "café_read\U000e0041",
    "line end": NAME + "\n",
}


def approved(pinned, way):
    """A client of a server whose one tool is approved."""
    pinned.server(way).fresh(tool(NAME))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, NAME)
    visitor.until_open(NAME)
    return visitor


@requirement("TP-025")
@served_ways
def test_an_approval_of_one_is_none_of_the_other(pinned, way):
    visitor = approved(pinned, way)

    @rows("other", [*ALIKE.values(), *INVISIBLE.values(), NAME + " ", " " + NAME, ""])
    def each(other):
        assert "error" in visitor.call(other)
        assert other not in pinned.server(way).called

    each()


def test_a_look_alike_beside_an_approved_tool_is_a_tool_of_its_own(pinned):
    visitor, server = approved(pinned, SERVED), pinned.server(SERVED)

    @rows("other", ALIKE.values(), ids=ALIKE)
    def each(other):
        server.be(tools=[tool(NAME), tool(other, "Something else.")])
        assert visitor.reason(other) == "tool_not_approved"
        assert visitor.reason(NAME) == ""
        assert visitor.names() == [NAME]
        assert other not in server.called

    each()


def test_a_name_that_cannot_be_seen_is_nobodys(pinned):
    """Nobody could tell which tool is approved, so nobody can approve it."""
    visitor, server = approved(pinned, SERVED), pinned.server(SERVED)

    @rows("other", INVISIBLE.values(), ids=INVISIBLE)
    def each(other):
        server.be(tools=[tool(NAME), tool(other, "Something else.")])
        assert visitor.names() == [NAME]
        assert "error" in visitor.call(other)
        assert other not in server.called
        assert "Something else." not in json.dumps(visitor.listed())

    each()
