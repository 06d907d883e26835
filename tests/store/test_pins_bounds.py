"""However much a server shows, a bounded part of it is kept; what was decided on is never pushed out."""

import pytest

from callgate.errors import Reason, Refused
from callgate.pinning.storage import PinBounds
from support.pin_store import NOW, SERVER, decide, pin, server, tool


async def hashes(pins, name="read"):
    return [found.approval_hash for found in await pins.texts(SERVER, name)]


async def test_the_oldest_texts_go_first(pins):
    texts = [tool(description=f"Text {number}.") for number in range(8)]
    for number, text in enumerate(texts):
        (change,) = await pins.saw(server(last_seen=NOW + number), [text], whole=True, bounds=PinBounds(texts=3))
        assert change.changes == number
    assert await hashes(pins) == [text.approval_hash for text in reversed(texts[-3:])]


async def test_a_text_that_came_back_counts_as_young(pins):
    a, b, c, d = (tool(description=text) for text in "abcd")
    for text in (a, b, c, a, d):
        await pins.saw(server(), [text], whole=True, bounds=PinBounds(texts=3))
    assert await hashes(pins) == [d.approval_hash, a.approval_hash, c.approval_hash]


async def test_texts_that_were_decided_on_stay(pins):
    approved, blocked = tool(description="Approved."), tool(description="Blocked.")
    for text, action in ((approved, "approve"), (blocked, "block")):
        await pins.saw(server(), [text], whole=True)
        await decide(pins, pin(text, action=action))
    for number in range(6):
        newest = tool(description=f"Text {number}.")
        await pins.saw(server(), [newest], whole=True, bounds=PinBounds(texts=2))
    assert await hashes(pins) == [newest.approval_hash, blocked.approval_hash, approved.approval_hash]


async def test_a_decision_on_one_tool_keeps_no_texts_of_another(pins):
    await pins.saw(server(), [tool("read"), tool("write")], whole=True)
    await decide(pins, pin(tool("read")))
    for number in range(3):
        both = [tool("read", f"Text {number}."), tool("write", f"Text {number}.")]
        await pins.saw(server(), both, whole=True, bounds=PinBounds(texts=2))
    assert tool("read").approval_hash in await hashes(pins, "read")
    assert tool("write").approval_hash not in await hashes(pins, "write")
    assert [len(await hashes(pins, name)) for name in ("read", "write")] == [2, 2]


async def test_a_list_beyond_the_bound_is_refused_and_nothing_of_it_is_kept(pins):
    await pins.saw(server(), [tool("kept")], whole=True)
    many = [tool(f"tool-{number}") for number in range(4)]
    with pytest.raises(Refused) as refused:
        await pins.saw(server(last_seen=NOW + 1), many, whole=True, bounds=PinBounds(tools=3))
    assert refused.value.reason is Reason.TOOLSET_TOO_LARGE
    assert [(found.tool, found.gone) for found in await pins.tools()] == [("kept", False)]
    assert [found.last_seen for found in await pins.servers()] == [NOW]


async def test_a_list_that_was_within_the_bound_is_refused_once_it_is_not(pins):
    tools = [tool("one"), tool("two")]
    await pins.saw(server(), tools, whole=True, bounds=PinBounds(tools=2))
    with pytest.raises(Refused) as refused:
        await pins.saw(server(), tools, whole=True, bounds=PinBounds(tools=1))
    assert refused.value.reason is Reason.TOOLSET_TOO_LARGE


async def test_tools_that_are_gone_make_room_for_new_ones(pins):
    for number in range(6):
        at, name = NOW + number, f"tool-{number}"
        changes = await pins.saw(server(last_seen=at), [tool(name)], whole=True, bounds=PinBounds(tools=3))
        # What is gone is told, whether or not it is kept.
        assert [change.what for change in changes] == (["new", "gone"] if number else ["new"])
    assert [(found.tool, found.gone) for found in await pins.tools()] == [
        ("tool-3", True),
        ("tool-4", True),
        ("tool-5", False),
    ]
    assert await pins.texts(SERVER, "tool-0") == []


async def test_tools_that_were_decided_on_make_no_room(pins):
    await pins.saw(server(), [tool("decided")], whole=True)
    await decide(pins, pin(tool("decided")))
    await pins.saw(server(), [tool("other")], whole=True)
    bounds = PinBounds(tools=2)
    await pins.saw(server(), [tool("third")], whole=True, bounds=bounds)
    assert [found.tool for found in await pins.tools()] == ["decided", "third"]
    with pytest.raises(Refused) as refused:
        await pins.saw(server(), [tool("third"), tool("fourth")], whole=True, bounds=bounds)
    assert refused.value.reason is Reason.TOOLSET_TOO_LARGE


async def test_pages_of_a_list_are_counted_together(pins):
    bounds = PinBounds(tools=2)
    await pins.saw(server(), [tool("one"), tool("two")], whole=False, bounds=bounds)
    with pytest.raises(Refused) as refused:
        await pins.saw(server(), [tool("three")], whole=False, bounds=bounds)
    assert refused.value.reason is Reason.TOOLSET_TOO_LARGE


async def test_the_identity_that_was_met_longest_ago_makes_room(pins):
    for number in range(4):
        name = f"npm:pkg-{number}@1"
        at = NOW + number
        seen = server(name, lineage=f"npm:pkg-{number}", last_seen=at)
        await pins.saw(seen, [tool(server_id=name)], whole=True, bounds=PinBounds(servers=3))
    assert [found.server_id for found in await pins.servers()] == ["npm:pkg-3@1", "npm:pkg-2@1", "npm:pkg-1@1"]
    assert await pins.tools("npm:pkg-0@1") == []
    assert await pins.texts("npm:pkg-0@1", "read") == []


async def test_identities_with_decisions_stay(pins):
    bounds = PinBounds(servers=2)
    for name in ("a", "b"):
        await pins.saw(server(name, lineage=name), [tool(server_id=name)], whole=True, bounds=bounds)
    await decide(pins, pin(tool(server_id="a")))
    await pins.saw(server("c", lineage="c", last_seen=NOW + 1), [tool(server_id="c")], whole=True, bounds=bounds)
    assert [found.server_id for found in await pins.servers()] == ["c", "a"]
    await decide(pins, pin(tool(server_id="c")))
    with pytest.raises(Refused) as refused:
        await pins.saw(server("d", lineage="d"), [tool(server_id="d")], whole=True, bounds=bounds)
    assert refused.value.reason is Reason.SERVER_LIMIT
    assert "`callgate tools servers`" in refused.value.advice
    # Those on record are met as before.
    assert await pins.saw(server("a", lineage="a"), [tool(server_id="a")], whole=True, bounds=bounds) == ()


async def test_a_server_that_renames_itself_all_the_time_pushes_out_nobody_else(pins):
    bounds = PinBounds(servers=4)
    await pins.saw(server("quiet", lineage="quiet"), [tool(server_id="quiet")], whole=True, bounds=bounds)
    for number in range(12):
        name = f"loud {number}"
        seen = server(name, lineage="loud", last_seen=NOW + 1 + number)
        await pins.saw(seen, [tool(server_id=name)], whole=True, bounds=bounds)
    assert [found.server_id for found in await pins.servers()] == ["loud 11", "loud 10", "loud 9", "quiet"]


@pytest.mark.verify
async def test_five_thousand_tools_of_one_server(pins):
    tools = [tool(f"tool-{number:04}") for number in range(5000)]
    changes = await pins.saw(server(), tools, whole=True)
    assert [change.what for change in changes] == ["new"] * 5000
    assert await pins.saw(server(), tools, whole=True) == ()
    tools[2500] = tool("tool-2500", "Reads every file.")
    (change,) = await pins.saw(server(), tools, whole=True)
    assert (change.tool, change.what) == ("tool-2500", "text")
    other = [tool(f"tool-{number:04}", "Reads another file.") for number in range(5000)]
    assert [change.what for change in await pins.saw(server(), other, whole=True)] == ["text"] * 5000
    assert len(await pins.saw(server(), [], whole=True)) == 5000
    assert sum(found.gone for found in await pins.tools(SERVER)) == 5000
