"""Decisions on tools: added one after the other, all or none, and only to the text that was reviewed."""

import pytest
from msgspec.structs import replace
from sqlalchemy import insert, text

from callgate.errors import Reason, Refused
from callgate.pinning.chain import DecisionChain
from callgate.pinning.document import entry_digest
from callgate.pinning.model import MarkedArgument
from callgate.pinning.storage import ChainHead, ExpectedTool, Sealed
from callgate.store import SqlPins, Store
from callgate.store.schema import pin as pin_table
from support.pin_store import NOW, SERVER, decide, keys, pin, read, server, tool, unfit, wanted, witness
from support.registry import requirement
from support.table import rows


@pytest.fixture
async def met(pins):
    """Two tools that were met."""
    tools = [tool("read"), tool("write", "Writes a file.")]
    await pins.saw(server(), tools, whole=True)
    return tools


async def test_an_empty_shelf_has_no_decisions(pins):
    assert await pins.head() is None
    assert await pins.chain() == []
    assert await pins.since() == (None, [])


@requirement("TP-009")
async def test_a_record_says_which_text_of_which_tool_of_which_server_was_approved_when_and_by_whom(pins, met):
    await decide(pins, pin(met[0], approved_at=NOW + 7, approved_by="ada"))
    found = (await read(pins)).pin(SERVER, "read")
    assert found.server_id == SERVER
    assert found.tool == "read"
    assert found.approval_hash == met[0].approval_hash
    assert found.approved_at == NOW + 7
    assert found.approved_by == "ada"
    assert found == pin(met[0], seq=1, approved_at=NOW + 7)


@requirement("TP-014")
async def test_the_same_tool_of_two_servers_has_two_records(pins):
    other = "npm:@org/files@1.2.4"
    first, second = tool(), tool(server_id=other)
    await pins.saw(server(), [first], whole=True)
    await pins.saw(server(other), [second], whole=True)
    await decide(pins, pin(first))
    assert (await read(pins)).pin(other, "read") is None
    await decide(pins, pin(second, action="block"))
    book = await read(pins)
    assert book.pin(SERVER, "read").action == "approve"
    assert book.pin(other, "read").action == "block"
    assert book.pin(SERVER, "read").approval_hash != book.pin(other, "read").approval_hash
    assert [found.server_id for found in await pins.tools()] == [SERVER, other]


async def test_decisions_are_a_chain_in_order(pinned, met):
    pins = pinned.shelf
    await decide(pins, pin(met[0]), pin(met[1]), witnesses=[witness("first"), witness("second")])
    await decide(pins, pin(met[0], action="block"), witnesses=[witness("third")])
    linked = await pins.chain()
    assert [row.seq for row in linked] == [1, 2, 3]
    assert await pins.chain(1) == linked[1:]
    assert await pins.chain(1, 1) == linked[1:2]
    assert await pins.chain(3) == []
    head = await pins.head()
    assert (head.seq, head.mac) == (3, linked[-1].mac)
    assert await pins.since(2) == (head, linked[2:])
    assert [found.action for found in (await read(pins)).history(SERVER, "read")] == ["approve", "block"]
    assert pinned.witnesses == ["first", "second", "third"]


async def test_the_whole_entry_that_was_reviewed_must_still_be_the_newest(pinned):
    pins = pinned.shelf
    shown = tool(title="Delete everything", annotations={"destructiveHint": True})
    swapped = tool(title="Read")
    asked = ExpectedTool(SERVER, "read", shown.approval_hash, entry_digest(shown.approval_hash, shown.beside))
    assert shown.approval_hash == swapped.approval_hash
    for met, reason in ((swapped, Reason.TOOL_CHANGED), (tool(), Reason.TOOL_CHANGED), (shown, None)):
        await pins.saw(server(), [met], whole=True)
        if reason is None:
            await pins.decide([asked], DecisionChain(keys).link([pin(shown)]))
            break
        with pytest.raises(Refused) as refused:
            await pins.decide([asked], DecisionChain(keys).link([pin(shown)]), [witness("never")])
        assert refused.value.reason is reason
        assert refused.value.data["reviewed"] == asked.entry
        assert await pins.since() == (None, [])
    assert (await read(pins)).pin(SERVER, "read").beside == shown.beside
    assert pinned.witnesses == []


async def test_the_text_that_was_reviewed_must_still_be_the_newest(pinned, met):
    pins = pinned.shelf
    await pins.saw(server(), [met[0], tool("write", "Writes a file. And more.")], whole=True)
    with pytest.raises(Refused) as refused:
        await decide(pins, pin(met[0]), pin(met[1]), witnesses=[witness("never")])
    assert refused.value.reason is Reason.TOOL_CHANGED
    assert "'write'" in refused.value.message
    # All or none.
    assert await pins.since() == (None, [])
    assert pinned.witnesses == []
    await decide(pins, pin(met[0]))


async def test_a_text_that_came_back_can_be_decided_on_again(pins, met):
    await pins.saw(server(), [tool("read", "Another.")], whole=False)
    await pins.saw(server(), [met[0]], whole=False)
    await decide(pins, pin(met[0]))
    assert (await read(pins)).pin(SERVER, "read") is not None


async def test_an_older_text_that_is_still_kept_cannot_be_approved(pins, met):
    await pins.saw(server(), [tool("read", "Another.")], whole=False)
    assert met[0].approval_hash in [found.approval_hash for found in await pins.texts(SERVER, "read")]
    with pytest.raises(Refused) as refused:
        await decide(pins, pin(met[0]))
    assert refused.value.reason is Reason.TOOL_CHANGED


@rows("unknown", [ExpectedTool(SERVER, "never", ""), ExpectedTool("npm:other@1", "read", ""), ExpectedTool("", "", "")])
async def test_a_tool_that_was_never_met_cannot_be_decided_on(pins, met, unknown):
    with pytest.raises(Refused) as refused:
        await pins.decide([wanted(met[0]), unknown], DecisionChain(keys).link([pin(met[0])]))
    assert refused.value.reason is Reason.TOOL_UNKNOWN
    assert await pins.head() is None


async def test_a_tool_that_is_gone_can_be_blocked_but_not_approved(pins, met):
    await pins.saw(server(), [met[1]], whole=True)
    with pytest.raises(Refused) as refused:
        await decide(pins, pin(met[0]))
    assert refused.value.reason is Reason.TOOL_UNKNOWN
    await decide(pins, pin(met[0], action="block", approval_hash=""))
    assert (await read(pins)).pin(SERVER, "read").action == "block"


async def test_an_unfit_tool_can_be_blocked_but_not_approved_under_its_earlier_hash(pins, met):
    await pins.saw(server(), [unfit()], whole=False)
    with pytest.raises(Refused) as refused:
        await decide(pins, pin(met[0]))
    assert refused.value.reason is Reason.TOOL_CHANGED
    await decide(pins, pin(unfit(), action="block"))


def _shifted(pins):
    """A chain whose first row has another number than the next."""

    def link(head):
        linked, end = DecisionChain(keys).link(pins)(head)
        return [replace(row, seq=row.seq + 1) for row in linked], replace(end, seq=end.seq + 1)

    return link


def _foreign_head(pins):
    def link(head):
        linked, end = DecisionChain(keys).link(pins)(head)
        return linked, replace(end, mac=b"x" * 32)

    return link


def _nothing(pins):
    return lambda _: ((), ChainHead(0, b"", b""))


@rows("link", [_shifted, _foreign_head, _nothing])
async def test_rows_that_do_not_follow_are_not_written(pins, met, link):
    with pytest.raises(ValueError, match="do not follow"):
        await pins.decide([], link([pin(met[0]), pin(met[1])]))
    assert await pins.since() == (None, [])


async def test_a_row_that_is_no_decision_is_not_written(pins):
    sealed = [Sealed(1, b"\xc1", b"m")]
    with pytest.raises(Exception, match=r"[Mm]sg|malformed|truncated|Expected"):
        await pins.decide([], lambda _: (sealed, ChainHead(1, b"m", b"s")))
    assert await pins.since() == (None, [])


async def test_the_head_can_be_sealed_anew_without_a_decision(pins, met):
    await decide(pins, pin(met[0]))
    before = await pins.head()
    await pins.decide([], lambda head: ((), replace(head, seal=b"other")))
    assert await pins.head() == replace(before, seal=b"other")


@pytest.mark.parametrize(
    "tampered", ["DELETE FROM pin WHERE seq = 2", "DELETE FROM pin_head", "UPDATE pin_head SET seq = 1", "insert"]
)
async def test_nothing_is_added_to_a_chain_that_does_not_end_where_its_head_says(shared_pins, tampered):
    pins = shared_pins.shelf
    await pins.saw(server(), [tool()], whole=True)
    await decide(pins, pin(tool()))
    await decide(pins, pin(tool(), action="block"))
    with shared_pins.store.writing() as conn:
        if tampered == "insert":
            row = {"seq": 3, "server_key": b"", "tool_key": b"", "approval_hash": "", "body": b"", "mac": b""}
            conn.execute(insert(pin_table), row)
        else:
            conn.execute(text(tampered))
    before = await pins.since()
    with pytest.raises(Refused) as refused:
        await decide(pins, pin(tool()))
    assert refused.value.reason is Reason.PIN_TAMPERED
    assert await pins.since() == before


@requirement("TP-069")
async def test_decisions_outlive_a_restart(url):
    met = tool(description="  As it was received. \r\n\t")
    store = Store.open(url)
    await SqlPins(store).saw(server(), [met], whole=True)
    await decide(SqlPins(store), pin(met))
    kept = await SqlPins(store).since()
    await store.close()

    store = Store.open(url)
    pins = SqlPins(store)
    assert await pins.since() == kept
    assert (await read(pins)).pin(SERVER, "read") == pin(met, seq=1)
    assert [found.raw for found in await pins.tools(met.server_id)] == [met.raw]
    assert await pins.saw(server(), [met], whole=True) == ()
    await store.close()


async def test_a_mark_on_an_argument_is_a_row_of_the_chain_and_a_forged_one_breaks_it(pinned, pins):
    argument = MarkedArgument(("sha256:a", "sha256:b"), 1, "folder", "/home/ann")
    marked = replace(pin(tool("read")), action="vary", tool="", approval_hash="", argument=argument)
    await pins.decide([], DecisionChain(keys).link([marked]))
    book = await read(pins)
    (found,) = book.arguments()
    assert found.argument == argument
    assert list(book.varying(marked.lineage)[argument.parts]) == [1]
    assert list(book.pins()) == []
    await pins.decide([], book.link([replace(marked, action="bind")]))
    assert (await read(pins)).varying(marked.lineage) == {}
    row = {"seq": 3, "server_key": b"", "tool_key": b"", "approval_hash": "", "body": b"forged", "mac": b"0" * 32}
    with pinned.store.writing() as conn:
        conn.execute(insert(pin_table), row)
    book = DecisionChain(keys)
    book.read(*await pins.since())
    assert book.broken
    assert book.varying(marked.lineage) == {}
