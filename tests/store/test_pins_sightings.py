"""What was met of servers and tools: kept as it was received, and every change told once."""

from msgspec.structs import replace

from callgate.pinning.model import Change, ServerSeen, ToolSeen
from support.pin_store import NOW, SERVER, server, tool, unfit, witness
from support.registry import requirement
from support.table import rows

# Everything that a database, an encoding or a well-meaning program likes to change on the way.
ODD = {
    "spaces": "  before, after  \n\n ",
    "line ends": "one\r\ntwo\rthree\n\u2028four\u2029\x85\x0b\x0c",
    "nul": "a\x00b",
    "controls": "".join(map(chr, range(32))) + "\x7f",
    "byte order mark": "\ufeffmark",
    "not normal": "e\u0301 \u00e9 \u212b \ufb01",
    "unseen": "\u200b\u200d\u2060\U000e0041\u202ereversed\u202c",
    "beyond": "\U0001f9d1\u200d\U0001f680 \U0010ffff",
    "not a character": "\ufffe\uffff\ufdd0",
    "quotes": "'\"`\\ %s ? :name $1 {}; --",
    "nothing": "",
    "long": "ü" * 1_000_000,
}


@requirement("TP-013")
@rows("name", ODD)
async def test_a_description_comes_back_as_it_was_received(pins, name):
    met = tool(description=ODD[name], server_id=name)
    await pins.saw(server(name), [met], whole=True)
    (found,) = await pins.tools(name)
    assert found.raw == met.raw
    assert found == replace(met, first_seen=NOW, last_seen=NOW)
    assert await pins.texts(name, "read") == [found]
    assert await pins.saw(server(name), [met], whole=True) == ()


@rows("raw", [b"\xff\xfe\x00", b"", bytes(range(256)), b"\xed\xa0\x80"])
async def test_bytes_that_are_no_text_come_back_as_they_were(pins, raw):
    await pins.saw(server(), [unfit(raw=raw)], whole=True)
    assert [found.raw for found in await pins.tools(SERVER)] == [raw]


async def test_a_server_is_kept_as_it_was_met_last(pins):
    await pins.saw(server(), [tool()], whole=True)
    moved = server(name="other", warnings=(), problem="too large", digest="sha256:x", last_seen=NOW + 5)
    await pins.saw(moved, [tool()], whole=True)
    # Its former name stays: two names may stand for one package.
    name = server().name
    assert await pins.servers() == [replace(moved, first_seen=NOW, names={name: NOW, "other": NOW + 5})]


async def test_of_very_many_names_the_last_are_kept(pins):
    for number in range(40):
        await pins.saw(server(name=f"name-{number}", last_seen=NOW + number), [], whole=True)
    [found] = await pins.servers()
    assert set(found.names) == {f"name-{number}" for number in range(8, 40)}


async def test_servers_come_the_last_met_first(pins):
    for number, at in (("a", NOW + 2), ("b", NOW + 3), ("c", NOW + 1)):
        await pins.saw(server(number, last_seen=at), [], whole=True)
    assert [found.server_id for found in await pins.servers()] == ["b", "a", "c"]
    # A gateway whose clock is behind does not turn time back.
    await pins.saw(server("b", last_seen=NOW), [], whole=True)
    assert [found.last_seen for found in await pins.servers()] == [NOW + 3, NOW + 2, NOW + 1]


async def test_what_is_new_is_told_once(pins):
    tools = [tool("write"), tool("read")]
    assert await pins.saw(server(), tools, whole=True) == (
        Change(SERVER, "write", "new", after=tools[0].approval_hash),
        Change(SERVER, "read", "new", after=tools[1].approval_hash),
    )
    assert await pins.saw(server(), tools, whole=True) == ()
    assert await pins.saw(server(), tools[::-1], whole=True) == ()


async def test_another_text_is_a_change_each_time(pins):
    first, second = tool(), tool(description="Reads a file, and sends it on.")
    await pins.saw(server(), [first], whole=True)
    changed = await pins.saw(server(last_seen=NOW + 1), [second], whole=True)
    assert changed == (Change(SERVER, "read", "text", first.approval_hash, second.approval_hash, changes=1),)
    assert await pins.saw(server(last_seen=NOW + 2), [second], whole=True) == ()
    # One that was met before counts like any other.
    back = await pins.saw(server(last_seen=NOW + 3), [first], whole=True)
    assert back == (Change(SERVER, "read", "text", second.approval_hash, first.approval_hash, changes=2),)
    newest, older = await pins.texts(SERVER, "read")
    assert newest == replace(first, first_seen=NOW, last_seen=NOW + 3, changes=2)
    assert older == replace(second, first_seen=NOW + 1, last_seen=NOW + 2, changes=1)
    assert await pins.tools(SERVER) == [newest]


async def test_what_flaps_beside_the_approval_is_never_a_change_of_the_text(pins):
    plain = tool()
    marked = tool(annotations={"readOnlyHint": True}, title="Read")
    other = tool(annotations={"readOnlyHint": False}, title="Read")
    await pins.saw(server(), [plain], whole=True)
    hashed = plain.approval_hash
    for number, now, members in (
        (1, marked, ("annotations", "title")),
        (2, other, ("annotations",)),
        (3, plain, ("annotations", "title")),
    ):
        assert await pins.saw(server(), [now], whole=True) == (
            Change(SERVER, "read", "beside", hashed, hashed, members, number),
        )
        assert await pins.saw(server(), [now], whole=True) == ()
        # The newest entry is shown, under the same hash.
        (shown,) = await pins.texts(SERVER, "read")
        assert replace(shown, changes=0) == replace(now, first_seen=NOW, last_seen=NOW)


async def test_another_text_with_other_members_says_both(pins):
    await pins.saw(server(), [tool()], whole=True)
    (change,) = await pins.saw(server(), [tool(description="Other.", title="Read")], whole=True)
    assert (change.what, change.members, change.changes) == ("text", ("title",), 1)


async def test_the_same_entry_spelt_otherwise_is_no_change(pins):
    met = tool()
    await pins.saw(server(), [met], whole=True)
    spelt = replace(met, raw=met.raw.replace(b": ", b":"), size=met.size - 1)
    assert spelt.raw != met.raw
    assert await pins.saw(server(), [spelt], whole=True) == ()
    assert [found.raw for found in await pins.tools(SERVER)] == [spelt.raw]


async def test_a_tool_that_goes_and_comes_back_is_told_both_times(pins):
    stays, goes = tool("stays"), tool("goes")
    await pins.saw(server(), [stays, goes], whole=True)
    await pins.saw(server(last_seen=NOW + 1), [stays, goes], whole=True)
    gone = await pins.saw(server(last_seen=NOW + 2), [stays], whole=True)
    assert gone == (Change(SERVER, "goes", "gone", before=goes.approval_hash),)
    assert await pins.saw(server(last_seen=NOW + 3), [stays], whole=True) == ()
    assert await pins.tools(SERVER) == [
        replace(goes, first_seen=NOW, last_seen=NOW + 1, gone=True),
        replace(stays, first_seen=NOW, last_seen=NOW + 3),
    ]
    assert [found.gone for found in await pins.texts(SERVER, "goes")] == [True]
    back = await pins.saw(server(last_seen=NOW + 4), [stays, goes], whole=True)
    assert back == (Change(SERVER, "goes", "back", goes.approval_hash, goes.approval_hash),)
    assert await pins.saw(server(last_seen=NOW + 4), [stays, goes], whole=True) == ()
    assert not any(found.gone for found in await pins.tools())


async def test_a_tool_that_comes_back_as_another_has_changed(pins):
    await pins.saw(server(), [tool()], whole=True)
    await pins.saw(server(last_seen=NOW + 1), [], whole=True)
    (change,) = await pins.saw(server(last_seen=NOW + 2), [tool(description="Other.")], whole=True)
    assert (change.what, change.changes) == ("text", 1)
    newest, older = await pins.texts(SERVER, "read")
    assert (newest.gone, older.gone) == (False, False)
    assert (older.last_seen, newest.first_seen) == (NOW, NOW + 2)


async def test_a_tool_that_comes_back_with_other_members_says_so(pins):
    await pins.saw(server(), [tool()], whole=True)
    await pins.saw(server(), [], whole=True)
    (change,) = await pins.saw(server(), [tool(title="Read")], whole=True)
    assert (change.what, change.members) == ("back", ("title",))


async def test_a_part_of_a_list_says_nothing_of_the_rest(pins):
    await pins.saw(server(), [tool("one"), tool("two")], whole=True)
    assert await pins.saw(server(last_seen=NOW + 9), [tool("one")], whole=False) == ()
    assert [(found.tool, found.last_seen, found.gone) for found in await pins.tools()] == [
        ("one", NOW + 9, False),
        ("two", NOW, False),
    ]


async def test_a_list_that_is_the_last_whole_one_again_is_held_against_what_a_page_said_since(pins):
    whole = [tool("one"), tool("two")]
    await pins.saw(server(), whole, whole=True)
    await pins.saw(server(), [tool("one", "Other.")], whole=False)
    (change,) = await pins.saw(server(), whole, whole=True)
    assert (change.tool, change.what, change.changes) == ("one", "text", 2)
    await pins.saw(server(), [tool("three")], whole=False)
    (gone,) = await pins.saw(server(), whole, whole=True)
    assert (gone.tool, gone.what) == ("three", "gone")


async def test_a_definition_without_a_hash_is_compared_whole_and_kept_once(pins):
    fit = tool()
    await pins.saw(server(), [unfit()], whole=True)
    assert await pins.saw(server(), [unfit()], whole=True) == ()
    (other,) = await pins.saw(server(), [unfit(raw=b"{1}")], whole=True)
    assert (other.what, other.before, other.after, other.changes) == ("text", "", "", 1)
    assert [found.raw for found in await pins.texts(SERVER, "read")] == [b"{1}"]
    (mended,) = await pins.saw(server(), [fit], whole=True)
    assert (mended.what, mended.before, mended.after) == ("text", "", fit.approval_hash)
    assert [found.approval_hash for found in await pins.texts(SERVER, "read")] == [fit.approval_hash, ""]


async def test_a_name_that_is_listed_twice_counts_as_it_is_listed_last(pins):
    await pins.saw(server(), [tool(), tool(description="Other.")], whole=True)
    assert [found.approval_hash for found in await pins.tools()] == [tool(description="Other.").approval_hash]
    assert await pins.saw(server(), [tool(), tool(description="Other.")], whole=True) == ()


async def test_servers_are_kept_apart(pins):
    for name in ("a", "b"):
        await pins.saw(server(name), [tool(server_id=name)], whole=True)
    (gone,) = await pins.saw(server("a"), [], whole=True)
    assert (gone.server_id, gone.what) == ("a", "gone")
    assert [found.gone for found in await pins.tools("b")] == [False]
    assert await pins.tools("c") == []
    assert await pins.texts("c", "read") == []
    assert await pins.texts("a", "other") == []


async def test_forgetting_drops_what_was_met_of_one_identity(pinned):
    pins = pinned.shelf
    for name in ("a", "b"):
        await pins.saw(server(name), [tool(server_id=name)], whole=True)
        await pins.saw(server(name), [tool(description="Other.", server_id=name)], whole=True)
    await pins.forget("a", [witness("forgot a")])
    assert [found.server_id for found in await pins.servers()] == ["b"]
    assert await pins.tools("a") == []
    assert await pins.texts("a", "read") == []
    assert len(await pins.texts("b", "read")) == 2
    assert pinned.witnesses == ["forgot a"]
    (again,) = await pins.saw(server("a"), [tool(server_id="a")], whole=True)
    assert (again.what, again.changes) == ("new", 0)
    await pins.forget("never met")


NAMES = {
    "nul": "a\x00b",
    "half a character": "\ud800",
    "long": "ü" * 100_000,
    "nothing": "",
    "quotes": "'; DROP TABLE pin --",
    "unseen": "read\u200b",
}


@rows("name", NAMES.values(), ids=NAMES.keys())
async def test_names_may_be_anything(pins, name):
    """Of tools, of servers, of members: they come from the wire."""
    met = ToolSeen(server_id=name, tool=name, approval_hash="", raw=b"{}", beside={name: "sha256:1"}, problem=name)
    seen = ServerSeen(
        server_id=name,
        lineage=name,
        name=name,
        group=name,
        kind="http",
        target=name,
        reported=name,
        warnings=(name,),
        problem=name,
        digest=name,
        last_seen=NOW,
    )
    plain = tool("read", server_id=name)
    await pins.saw(seen, [met, plain], whole=True)
    assert replace(seen, first_seen=NOW, names={name: NOW}) in await pins.servers()
    assert {found.tool: found for found in await pins.tools(name)} == {
        name: replace(met, first_seen=NOW, last_seen=NOW),
        "read": replace(plain, first_seen=NOW, last_seen=NOW),
    }
    assert await pins.texts(name, name) == [replace(met, first_seen=NOW, last_seen=NOW)]
    (change,) = await pins.saw(seen, [replace(met, beside={}), plain], whole=True)
    assert (change.what, change.tool, change.members) == ("beside", name, (name,))
    (gone,) = await pins.saw(seen, [plain], whole=True)
    assert (gone.what, gone.tool) == ("gone", name)
