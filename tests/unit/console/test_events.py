"""The event stream: what it tells, whom, and when it ends."""

import asyncio

import pytest

from callgate.console.cards import key_of
from callgate.console.pages import events as page
from callgate.console.pages.events import ChangeFeed
from support.console import console_over, live_console
from support.listening import listening_to
from support.memory import MemoryPins
from support.reviewing import NOTES_ID, approve, meet, pins_over, tool
from support.table import rows


def follow(console, person):
    return listening_to(console.origin, person.cookie, console.http)


@rows("kind", ["memory", "sqlite"])
async def test_what_waits_is_told_at_once_and_whenever_it_changes(kind, tmp_path):
    async with console_over(kind, tmp_path) as console:
        anna = await console.sign_in()
        async with follow(console, anna) as stream:
            first = await stream.next()
            assert (first["approvals"], first["newest"]) == (0, [])
            asked = await console.ask(tool="transfer", server="bank")
            told = await stream.next()
            assert told["approvals"] == 1
            assert told["newest"] == [{"id": asked.id, "tool": "transfer", "server": "bank"}]
            assert told["stamp"] != first["stamp"]
            await console.approvals.refuse(asked.id, by="anna")
            assert (await stream.next())["approvals"] == 0


async def test_a_new_version_of_a_reviewed_server_is_told_to_who_may_decide():
    pins = pins_over(MemoryPins())
    newer = NOTES_ID.replace("2.0.1", "2.0.2")
    async with live_console(pins=pins) as console:
        anna = await console.sign_in()
        await meet(pins.shelf, "notes", NOTES_ID, [tool("search_notes"), tool("list_notes")])
        await approve(pins, NOTES_ID, "search_notes")
        await approve(pins, NOTES_ID, "list_notes")
        async with follow(console, anna) as stream:
            assert (await stream.next())["versions"] == []
            await pins.shelf.disconnect("gateway")
            await meet(pins.shelf, "notes", newer, [tool("search_notes"), tool("list_notes", "Lists other notes.")])
            told = await stream.next()
        assert told["versions"] == [{"id": key_of(newer), "server": "notes", "tools": 1}]
        assert told["tools"] == 2


async def test_the_arguments_of_a_call_are_never_told(console):
    anna = await console.sign_in()
    await console.ask({"resourceId": "the-secret-thing"})
    async with follow(console, anna) as stream:
        assert "the-secret-thing" not in str(await stream.next())


async def test_names_that_steer_or_mislead_are_written_out(console):
    anna = await console.sign_in()
    await console.ask(tool="pay\u202exfa\ntest", server="b" * 500)
    (told,) = (await console.get("/events/now", anna)).json["newest"]
    assert told["tool"] == "pay\\u202exfa\\ntest"
    assert told["server"] == "b" * 80 + "…"


async def test_a_call_that_runs_out_of_time_is_told_of_too(console):
    anna = await console.sign_in()
    await console.ask()
    async with follow(console, anna) as stream:
        assert (await stream.next())["approvals"] == 1
        console.clock.ahead += 3600
        assert (await stream.next())["approvals"] == 0


async def test_each_person_hears_of_their_own_calls_only(console):
    anna, bert = await console.sign_in("anna"), await console.sign_in("bert")
    async with follow(console, anna) as hers, follow(console, bert) as his:
        assert (await hers.next())["approvals"] == (await his.next())["approvals"] == 0
        await console.ask(user="bert", tool="for_bert")
        assert (await his.next())["approvals"] == 1
        await console.ask(user="anna", tool="for_anna")
        told = await hers.next()
        assert [one["tool"] for one in told["newest"]] == ["for_anna"]


async def test_more_wait_than_are_named(console):
    anna = await console.sign_in()
    for number in range(7):
        await console.ask({"number": number})
    told = (await console.get("/events/now", anna)).json
    assert (told["approvals"], len(told["newest"])) == (7, 5)


async def test_a_stream_that_says_nothing_gives_a_sign_of_life(console, monkeypatch):
    monkeypatch.setattr(page, "_HEARTBEAT_SECONDS", 0.0)
    anna = await console.sign_in()
    async with follow(console, anna) as stream:
        await stream.next()
        while not (await stream.answer.content.readline()).startswith(b":"):
            pass


@rows("path", ["/events", "/events/now"])
async def test_only_who_is_signed_in_is_told(console, path):
    answer = await console.get(path, accept="text/event-stream")
    assert (answer.status, answer.reason) == (401, "sign_in_needed")


async def test_other_methods_are_refused(console):
    anna = await console.sign_in()
    assert (await console.post("/events", {}, anna)).reason == "method_not_allowed"
    assert (await console._send("HEAD", "/events", anna, {})).status == 405


async def test_both_answers_carry_the_headers_of_every_page(console):
    anna = await console.sign_in()
    async with follow(console, anna) as stream:
        sent = {name.lower(): value for name, value in stream.answer.headers.items()}
    for headers in (sent, (await console.get("/events/now", anna)).headers):
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'")


async def test_nobody_looks_while_nobody_listens(monkeypatch):
    """A follower that outlives its streams would ask the store for ever."""
    rooms = []

    def made(desk):
        rooms.append(ChangeFeed(desk))
        return rooms[-1]

    monkeypatch.setattr(page, "ChangeFeed", made)
    async with live_console() as console:
        anna = await console.sign_in()
        async with follow(console, anna) as stream:
            await stream.next()
            assert rooms[0]._following is not None
        async with asyncio.timeout(20):
            while rooms[0]._following is not None:
                await asyncio.sleep(0.01)


async def test_a_store_that_fails_ends_the_stream(tmp_path):
    async with console_over("sqlite", tmp_path) as console:
        anna = await console.sign_in()
        async with follow(console, anna) as stream:
            await stream.next()
            console.approvals.shelf._store.close_sync()
            with pytest.raises(EOFError):
                await stream.next()
