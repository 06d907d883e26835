"""A server is another version with every list, and each list is as large as may be, until the store is full."""

import json
import tracemalloc
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import func, select

from callgate.pinning.identity import http_identity
from callgate.pinning.listing import EntryReader, ToolListing, observed
from callgate.pinning.model import Connected, PinningSettings
from callgate.pinning.service import Choice, Pins
from callgate.pinning.storage import USUAL, PinBounds
from callgate.store import SqlPins, Store
from callgate.store.schema import tool_text
from support.stores import ready

AT = 1_794_000_000_000
MIB = 1024 * 1024
KEY = b"k" * 32


@pytest.fixture(params=["sqlite", "postgresql"])
async def shelf(request, tmp_path):
    with ready(request.param, tmp_path) as url:
        store = Store.open(url, busy_seconds=30)
        yield SqlPins(store)
        await store.close()


def kept(shelf):
    """Bytes of texts in the store."""
    with shelf._store.reading() as conn:
        return conn.execute(select(func.coalesce(func.sum(func.length(tool_text.c.body)), 0))).scalar_one()


@dataclass(frozen=True)
class Flood:
    """How much there is room for, how large a list is, and how often another one comes."""

    bounds: PinBounds
    tools: int
    letters: int
    lists: int


# As shipped, with lists as large as may be; and the same in small, where each list takes a third of the room.
FULL = Flood(USUAL, tools=58, letters=63_000, lists=30)
SMALL = Flood(PinBounds(versions=5, lineage_bytes=128 * 1024), tools=10, letters=4_200, lists=8)
floods = pytest.mark.parametrize("flood", [SMALL, pytest.param(FULL, marks=pytest.mark.verify)], ids=["small", "full"])


async def meet(shelf, version, flood=SMALL, *, mark="", url="https://evil.example/mcp", name="evil"):
    who = http_identity(url, reported=f"evil {version}")
    reader = EntryReader(who.server_id, PinningSettings())
    words = f"{version}{mark} " + "abcdef " * (flood.letters // 7)
    entries = [{"name": f"t{number}", "description": words, "inputSchema": {}} for number in range(flood.tools)]
    listing = ToolListing(reader.read(json.dumps(one).encode()) for one in entries)
    seen = observed(who, listing, AT + version * 15_000, name=name)
    await shelf.saw(seen.server, seen.tools, whole=seen.whole, bounds=flood.bounds)
    return who.server_id


@floods
async def test_many_versions_take_the_room_of_a_few(shelf, flood):
    for version in range(flood.lists):
        newest = await meet(shelf, version, flood)
    assert len(await shelf.servers()) <= flood.bounds.versions
    assert (await shelf.servers())[0].server_id == newest
    assert 0 < kept(shelf) <= flood.bounds.lineage_bytes


async def test_what_was_approved_and_what_is_connected_outlives_them(shelf):
    few = replace(SMALL, tools=3)
    approved = await meet(shelf, 0, few)
    pins = Pins(shelf, lambda: [KEY], clock=lambda: AT / 1000)
    view = await pins.find(approved, "t1")
    await pins.decide([Choice("approve", approved, "t1", view.approval_hash, override=True)], by="ann")
    here = await meet(shelf, 1, few)
    await shelf.connect(Connected("evil", "", here, "gateway", AT + 3_600_000), AT, 20)
    for version in range(2, 2 * SMALL.bounds.versions):
        await meet(shelf, version, few)
    assert {approved, here} <= {seen.server_id for seen in await shelf.servers()}
    assert len(await shelf.tools(here)) == 3
    assert (await pins.find(approved, "t1")).state == "approved"
    again = Pins(shelf, lambda: [KEY], clock=lambda: AT / 1000)
    assert [pin.raw.decode() for pin in await again.history(approved, "t1")] == [view.raw]


@floods
async def test_one_identity_with_other_texts_in_every_list(shelf, flood):
    for number in range(flood.lists):
        await meet(shelf, 0, flood, mark=f".{number}")
    assert 0 < kept(shelf) <= flood.bounds.lineage_bytes


async def test_listing_servers_does_not_load_what_waits(shelf):
    large = Flood(USUAL, tools=20, letters=63_000, lists=4)
    for version in range(large.lists):
        await meet(shelf, version, large)
    pins = Pins(shelf, lambda: [KEY], clock=lambda: AT / 1000 + 100)
    await pins.statuses()
    tracemalloc.start()
    try:
        found = await pins.statuses()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.pending for one in found] == [large.tools, 0, 0, 0]
    assert kept(shelf) > 4 * MIB
    assert peak < MIB
