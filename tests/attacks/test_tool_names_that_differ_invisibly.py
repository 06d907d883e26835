"""Two names that look alike, or that some readers take for one: NUL, case, homoglyphs, normal forms, blanks."""

import json
import unicodedata

import pytest

from support.registry import requirement
from support.shifting import tool
from support.visitors import Way, served_ways

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


@requirement("TP-025")
@pytest.mark.parametrize("other", [*ALIKE.values(), *INVISIBLE.values(), NAME + " ", " " + NAME, ""])
@served_ways
def test_an_approval_of_one_is_none_of_the_other(pinned, way, other):
    server = pinned.server(way)
    server.fresh(tool(NAME))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, NAME)
    visitor.until_open(NAME)
    answer = visitor.call(other)
    assert "error" in answer, answer
    assert other not in server.called


@pytest.mark.parametrize("kind", ALIKE)
def test_a_look_alike_beside_an_approved_tool_is_a_tool_of_its_own(pinned, kind):
    way = Way("serve", "legacy", "web")
    server = pinned.server(way)
    server.fresh(tool(NAME))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve("web", NAME)
    visitor.until_open(NAME)
    server.add(tool(ALIKE[kind], "Something else."))
    assert visitor.reason(ALIKE[kind]) == "tool_not_approved"
    assert visitor.reason(NAME) == ""
    assert visitor.names() == [NAME]
    assert ALIKE[kind] not in server.called


@pytest.mark.parametrize("kind", INVISIBLE)
def test_a_name_that_cannot_be_seen_is_nobodys(pinned, kind):
    """Nobody could tell which tool is approved, so nobody can approve it."""
    way = Way("serve", "legacy", "web")
    server = pinned.server(way)
    server.fresh(tool(NAME), tool(INVISIBLE[kind], "Something else."))
    visitor = pinned.visit(way)
    assert visitor.names() == []
    pinned.approve("web", NAME)
    visitor.until_open(NAME)
    assert visitor.names() == [NAME]
    assert "error" in visitor.call(INVISIBLE[kind])
    assert INVISIBLE[kind] not in server.called
    assert "Something else." not in json.dumps(visitor.listed())
