"""A tool whose name, or the name of a member, is drawn as nothing, or differs from another in nothing that is drawn."""

import json

from callgate.pinning.listing import EntryReader
from callgate.pinning.model import PinningSettings
from support.raw_clients import FEW_SERVED, over_ways
from support.shifting import tool
from support.table import rows

POISON = "Something else."
NAMES = {
    "a blank": " ",
    "a blank Braille cell": "\u2800",
    "three of them": "\u2800\u2800\u2800",
    "a selector": "\ufe0f",
    "another selector": "\U000e0100",
    "a joiner of graphemes": "\u034f",
    "a filler": "\u3164",
    "a narrow filler": "\uffa0",
    "a selector behind a name": "read\ufe0f",
    "a filler within a name": "re\u1160ad",
}


@over_ways(FEW_SERVED)
def test_it_is_neither_shown_nor_called(pinned, way):
    server = pinned.server(way)
    server.fresh(*(tool(name, POISON) for name in NAMES.values()), tool("read"))
    visitor = pinned.visit(way)
    assert visitor.names() == []
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    reasons = {how: visitor.reason(name) for how, name in NAMES.items()}
    assert set(reasons.values()) <= {"tool_unfit", "tool_unknown"}, reasons
    assert visitor.names() == ["read"]
    assert POISON.encode() not in visitor.sent_here
    assert set(server.called) == {"read"}
    # Nobody is asked to approve what nobody can see.
    assert [one.tool for one in pinned.tools_seen(pinned.identity(way.server).server_id)] == ["read"]


def test_half_a_character_as_the_name_of_a_member():
    """It has no canonical form, so no digest of the list could tell it from another."""
    entry = json.dumps(tool("read"))[:-1] + ',"\\ud800":1}'
    assert EntryReader("somebody", PinningSettings()).read(entry.encode()).problem != ""


@rows("name", ["naïve", "読む", "e\u0301te\u0301", "a b", "🙂", "읽기"])
def test_a_name_in_any_script_is_a_name(name):
    assert EntryReader("somebody", PinningSettings()).read(json.dumps({"name": name}).encode()).problem == ""
