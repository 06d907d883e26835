"""Name one directory after the other, each as large as is taken: to fill the memory, or to take everybody else's turn."""

import asyncio
import base64
import os

import pytest

from callgate.agents.directories import Sources, documents
from callgate.agents.fetching import Caps
from callgate.agents.storage import Fetched
from callgate.store.memory import MemoryAgents
from support.agent_directories import world

PATHS = 12
ROOM = 1024 * 1024


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


def largest():
    """As many of the largest keys as a directory may have."""
    numbers = (b"\xff" + os.urandom(1022) + b"\x01" for _ in range(100))
    return {
        "keys": [{"kty": "RSA", "e": "AQAB", "n": base64.urlsafe_b64encode(n).decode().rstrip("=")} for n in numbers]
    }


async def test_large_directories_do_not_stay_in_memory(ground, monkeypatch):
    assert documents.MOST_BYTES <= 16 * ROOM
    monkeypatch.setattr(documents, "MOST_BYTES", ROOM)
    document = largest()
    directories = ground.directories()
    for at in range(PATHS):
        ground.server.put("eve.example", document, path=f"/{at}")
        assert await directories.key("x" * 43, f"{ground.server.url('eve.example')}/{at}") is None
    assert ground.server.hits("eve.example") == PATHS
    kept = len(ground.server.pages["eve.example", "/0"].body)
    assert PATHS * kept > ROOM > directories.published.size > ROOM - 2 * kept
    # The one that came last is among those that are left, and is not fetched again for the next request.
    assert await directories.key("x" * 43, f"{ground.server.url('eve.example')}/{PATHS - 1}") is None
    assert ground.server.hits("eve.example") == PATHS


async def test_nor_on_the_shelf_of_an_app_without_a_store():
    shelf = MemoryAgents()
    for at in range(80):
        assert await shelf.keep_directory(Fetched(f"https://eve.example/{at}", bytes(512 * 1024), at, at + 1))
    left = [at for at in range(80) if await shelf.directory(f"https://eve.example/{at}") is not None]
    assert left == list(range(17, 80))


async def test_who_had_no_turn_in_a_flood_has_one_right_after_it(ground):
    honest = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", honest)
    directories = ground.directories(Sources(caps=Caps(seconds=600)))
    ground.server.gate.clear()
    flood = [
        asyncio.ensure_future(directories.key("x" * 43, f"{ground.server.url('eve.example')}/{at}"))
        for at in range(100)
    ]
    while ground.server.hits("eve.example") < 32:
        await asyncio.sleep(0.001)
    assert await directories.key(honest.keyid, ground.server.url("a.example")) is None
    assert ground.server.hits("a.example") == 0
    ground.server.gate.set()
    await asyncio.gather(*flood)
    # It is not held against them that nobody had time for them.
    assert (await directories.key(honest.keyid, ground.server.url("a.example"))).thumbprint == honest.keyid
