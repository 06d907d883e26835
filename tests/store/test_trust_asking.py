"""Versions of several sessions are asked for in one question, and every answer is of after it was asked for."""

import asyncio

import pytest

from callgate.errors import StoreUnavailable
from callgate.store.trust import VersionReader


class Database:
    def __init__(self):
        self.versions = {"a": 1, "b": 2}
        self.asked = []
        self.slow = asyncio.Event()
        self.slow.set()
        self.error = None

    async def ask(self, keys):
        self.asked.append(sorted(keys))
        found = {key: self.versions[key] for key in keys if key in self.versions}
        await self.slow.wait()
        if self.error is not None:
            raise self.error
        return found

    async def was_asked(self):
        """Until a question is under way."""
        async with asyncio.timeout(30):
            while not self.asked:
                await asyncio.sleep(0)


async def test_those_who_come_together_are_asked_for_together():
    database = Database()
    asking = VersionReader(database.ask)
    assert await asyncio.gather(*(asking.version(key) for key in "abca")) == [1, 2, 0, 1]
    assert database.asked == [["a", "b", "c"]]


async def test_who_comes_while_a_question_is_under_way_gets_an_answer_of_after():
    database = Database()
    asking = VersionReader(database.ask)
    database.slow.clear()
    first = asyncio.create_task(asking.version("a"))
    await database.was_asked()
    database.versions["a"] = 5
    second = asyncio.create_task(asking.version("a"))
    await asyncio.sleep(0)
    database.slow.set()
    assert (await first, await second) == (1, 5)
    assert len(database.asked) == 2


async def test_who_gives_up_takes_no_other_with_it():
    database = Database()
    asking = VersionReader(database.ask)
    database.slow.clear()
    first, second = (asyncio.create_task(asking.version("a")) for _ in range(2))
    await database.was_asked()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    database.slow.set()
    assert await second == 1


async def test_a_question_that_fails_fails_for_all_and_the_next_does_not():
    database = Database()
    asking = VersionReader(database.ask)
    database.error = StoreUnavailable("gone")
    failed = await asyncio.gather(asking.version("a"), asking.version("b"), return_exceptions=True)
    assert [type(one) for one in failed] == [StoreUnavailable] * 2
    database.error = None
    assert await asking.version("b") == 2


def test_another_event_loop_asks_for_itself():
    async def start():
        database = Database()
        asking = VersionReader(database.ask)
        assert await asking.version("a") == 1
        return asking

    asking = asyncio.run(start())
    database = Database.__new__(Database)

    async def again():
        database.__init__()
        asking._ask = database.ask
        return await asking.version("b")

    assert asyncio.run(again()) == 2
