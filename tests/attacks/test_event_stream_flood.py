"""A script holds event streams open without end, to take every connection and keep the store busy with looking."""

import asyncio
import contextlib

from callgate.console.pages.events import IN_ALL, PER_PERSON
from support.console import live_console
from support.listening import listening_to


async def opened(stack, console, person):
    stream = await stack.enter_async_context(listening_to(console.origin, person.cookie, console.http))
    await stream.next()
    return stream


async def refused(console, person):
    return await console.get("/events", person, accept="text/event-stream")


async def test_one_person_has_a_few_streams_and_takes_nobody_elses():
    async with live_console() as console, contextlib.AsyncExitStack() as stack:
        mallory, anna = await console.sign_in("mallory"), await console.sign_in("anna")
        for _ in range(PER_PERSON):
            await opened(stack, console, mallory)
        for _ in range(20):
            answer = await refused(console, mallory)
            assert (answer.status, answer.reason) == (429, "approval_limit")
            assert int(answer.headers["retry-after"]) > 0
        # Who has no stream is told by asking; and others are told as ever.
        assert (await console.get("/events/now", mallory)).status == 200
        stream = await opened(stack, console, anna)
        await console.ask(user="anna")
        assert (await stream.next())["approvals"] == 1


async def test_a_stream_that_ends_gives_its_place_back():
    async with live_console() as console:
        mallory = await console.sign_in("mallory")
        for _ in range(3):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(PER_PERSON):
                    await _soon(lambda: opened(stack, console, mallory))


async def test_all_people_together_have_no_more_than_there_may_be(monkeypatch):
    monkeypatch.setattr("callgate.console.pages.events.IN_ALL", 4)
    assert IN_ALL > 4
    async with live_console() as console, contextlib.AsyncExitStack() as stack:
        people = [await console.sign_in(f"user{number}") for number in range(5)]
        for person in people[:4]:
            await opened(stack, console, person)
        assert (await refused(console, people[4])).status == 429


async def test_many_streams_of_one_person_are_looked_up_for_once(monkeypatch):
    """Each change is looked up once a person, however many pages they have open."""
    async with live_console() as console, contextlib.AsyncExitStack() as stack:
        anna = await console.sign_in()
        streams = [await opened(stack, console, anna) for _ in range(PER_PERSON)]
        looks, asked = [], console.approvals.shelf.requests

        async def counted(*arguments, **named):
            found = await asked(*arguments, **named)
            looks.append(len(found))
            return found

        monkeypatch.setattr(console.approvals.shelf, "requests", counted)
        await console.ask()
        for stream in streams:
            assert (await stream.next())["approvals"] == 1
        # The first look that saw it, and those of an edition or two around it.
        assert looks.count(1) < PER_PERSON


async def _soon(attempt):
    """The places of those who have left are free within moments."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await attempt()
            except AssertionError:
                await asyncio.sleep(0.01)
