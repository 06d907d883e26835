"""What is told of lists that were met."""

import asyncio

import pytest

from callgate.app.pinning import ToolChangeRecorder
from callgate.pinning.chain import DecisionChain
from callgate.pinning.identity import ServerRef, http_identity
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import EntryReader, ToolListing
from callgate.pinning.model import PinningSettings
from callgate.pinning.toolsets import ListReading
from support.memory import MemoryPins
from support.pins_in_memory import entry, raw_of
from support.registry import requirement


class Audit:
    """A log that keeps nothing."""

    def __init__(self):
        self.store = self

    def row(self, record):
        return record

    def append_soon(self, _row):
        pass


class Desk:
    def __init__(self, shelf=None):
        self.shelf = shelf or MemoryPins()
        self.told = []
        self.now = 1_000.0
        self.registrar = ToolChangeRecorder(
            self.shelf,
            Audit(),
            tell=lambda server, what, _detail: self.told.append((server, what)),
            growth_percent=lambda: 10.0,
            clock=lambda: self.now,
        )

    def meeting(self, name, words, url, version="1"):
        self.now += 60
        who = http_identity(url, reported=f"pack {version}")
        listed = EntryReader(who.server_id, PinningSettings()).read(raw_of(entry("read", "Reads. " * words)))
        toolset = Toolset(who, ToolListing([listed]), DecisionChain(lambda: [bytes(32)]), PinningSettings())
        place = ServerRef(name, "", url, lambda _reported: who)
        return ListReading(place, who, toolset, "s", fresh=True)

    async def meet(self, *what, **more):
        await self.registrar._write(self.meeting(*what, **more))

    @property
    def grown(self):
        return [server for server, what in self.told if what == "grown"]


@pytest.fixture
def desk():
    return Desk()


@requirement("TP-047")
async def test_growth_is_told_beside_a_larger_server_of_the_same_kind(desk):
    """One program under two names: what the one has does not hide that the other grows."""
    one, two = "http://127.0.0.1:9/mcp", "http://127.0.0.1:9/mcp"
    await desk.meet("small", 10, one)
    await desk.meet("large", 100, two)
    assert desk.grown == []
    await desk.meet("small", 50, one)
    assert desk.grown == ["small"]
    await desk.meet("large", 100, two)
    assert desk.grown == ["small"]


@requirement("TP-047")
async def test_a_new_version_is_held_against_the_one_before_it_also_after_a_restart(desk):
    url = "http://127.0.0.1:9/mcp"
    await desk.meet("web", 10, url)
    again = Desk(desk.shelf)
    await again.registrar.start()
    await again.registrar.stop()
    again.now = desk.now
    await again.meet("web", 20, url, version="2")
    assert again.grown == ["web"]


class SlowShelf(MemoryPins):
    """A store that takes its time over a list: `begun` when it has it, written after `go`."""

    def __init__(self):
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def saw(self, *what, **more):
        self.begun.set()
        await self.go.wait()
        return await super().saw(*what, **more)


async def test_a_list_that_is_being_written_when_the_gateway_ends_is_not_lost():
    desk = Desk(SlowShelf())
    await desk.registrar.start()
    desk.registrar.met(desk.meeting("web", 10, "http://127.0.0.1:9/mcp"))
    await desk.shelf.begun.wait()
    desk.registrar.met(desk.meeting("mail", 10, "http://127.0.0.1:8/mcp"))
    ending = asyncio.create_task(desk.registrar.stop())
    await asyncio.sleep(0)
    desk.shelf.go.set()
    await ending
    assert {seen.name for seen in await desk.shelf.servers()} == {"web", "mail"}
