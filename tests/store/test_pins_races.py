"""Several gateways on one store: each change is told once, decisions make one chain, places are counted exactly."""

import asyncio
from collections import Counter

from callgate.store import SqlPins, Store
from support.pin_store import NOW, SERVER, decide, pin, place, race, read, server, tool, witness

PROCESSES = 2


async def test_gateways_that_meet_the_same_change_are_told_of_it_once(shared_pins):
    await shared_pins.shelf.saw(server(), [tool(description="Text.")], whole=True)
    jobs = [[{"do": "saw", "texts": ["Other."]}] * 10] * PROCESSES
    ends = await asyncio.to_thread(race, shared_pins.url, jobs)
    assert [what for share in ends for end in share for what in end] == ["text"]
    (newest,) = await shared_pins.shelf.tools(SERVER)
    assert newest.changes == 1


async def test_gateways_that_meet_a_server_for_the_first_time_do_not_trip_over_each_other(shared_pins):
    jobs = [[{"do": "saw", "texts": ["The first text."]}]] * PROCESSES
    ends = await asyncio.to_thread(race, shared_pins.url, jobs)
    assert sorted(end for share in ends for end in share) == [[], ["new"]]


async def test_reviewers_at_once_make_one_chain(shared_pins):
    await shared_pins.shelf.saw(server(), [tool(description="Text.")], whole=True)
    jobs = [[{"do": "approve", "text": "Text."}] * 20] * PROCESSES
    ends = await asyncio.to_thread(race, shared_pins.url, jobs)
    assert Counter(end for share in ends for end in share) == {"done": 40}
    book = await read(shared_pins.shelf)
    assert book.version == 40
    assert shared_pins.witnesses == ["approved Text."] * 40


async def test_places_are_counted_over_all_processes(shared_pins):
    jobs = [
        [{"do": "connect", "name": f"{share}-{number}", "gateway": f"{share}", "most": 7} for number in range(20)]
        for share in range(PROCESSES)
    ]
    ends = await asyncio.to_thread(race, shared_pins.url, jobs)
    assert Counter(end for share in ends for end in share) == {True: 7, False: 33}
    assert len(await shared_pins.shelf.connected(NOW)) == 7


async def test_a_chain_is_read_in_one_view_while_it_grows(shared_pins):
    """Nobody takes a decision that is made while they read for tampering."""
    await shared_pins.shelf.saw(server(), [tool()], whole=True)
    other = Store.open(shared_pins.url, busy_seconds=30)

    async def grow():
        for _ in range(60):
            await decide(SqlPins(other), pin(tool()))

    growing = asyncio.create_task(grow())
    reads = 0
    while not growing.done():
        await read(shared_pins.shelf)
        reads += 1
    await growing
    await other.close()
    assert reads > 1
    assert (await read(shared_pins.shelf)).version == 60


async def test_others_on_the_store_are_told(shared_pins):
    """Decisions, changes and places wake whoever watches the store."""
    pins = shared_pins.shelf
    await pins.saw(server(), [tool()], whole=True)
    other = Store.open(shared_pins.url)
    loop = asyncio.get_running_loop()
    poked = asyncio.Event()
    stop = other.watch(lambda: loop.call_soon_threadsafe(poked.set))
    try:
        # Watching begins with one call that nothing caused.
        await asyncio.wait_for(poked.wait(), 30)
        for act in (
            lambda: decide(pins, pin(tool())),
            lambda: pins.saw(server(), [tool(description="Other.")], whole=True),
            lambda: pins.connect(place(), NOW, 1),
            lambda: pins.disconnect("one"),
            lambda: pins.forget(SERVER, [witness("forgot")]),
        ):
            poked.clear()
            await act()
            await asyncio.wait_for(poked.wait(), 30)
    finally:
        stop()
        await other.close()
