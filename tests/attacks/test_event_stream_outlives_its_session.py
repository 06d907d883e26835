"""Whoever was signed in once keeps a stream open: after the session ends, or its passkey is revoked, nothing is told."""

import contextlib

import pytest

from callgate.console.pages import events as page
from callgate.errors import Refused
from support.console import live_console
from support.listening import listening_to
from support.table import rows


async def signed_out(console, person):
    assert (await console.post("/sign-out", {}, person)).status == 200


async def revoked(console, person):
    assert await console.approvals.shelf.revoke_credential(person.credential.id, console.approvals.now())


async def expired(console, _person):
    console.clock.ahead += 7 * 86_400


async def removed(console, person):
    assert await console.approvals.shelf.remove_user(person.user)


@rows("end", [signed_out, revoked, expired, removed])
async def test_the_stream_ends_and_tells_nothing_more(monkeypatch, end):
    if end is removed:
        # Nothing happens any more that would be a reason to look.
        monkeypatch.setattr(page, "_LOOK_SECONDS", 0.1)
    async with live_console() as console:
        anna = await console.sign_in()
        async with listening_to(console.origin, anna.cookie, console.http) as stream:
            await stream.next()
            asked = await console.ask(tool="opened_before_the_end")
            assert (await stream.next())["approvals"] == 1
            await end(console, anna)
            # There is something to tell by now, but for who is gone with all they had.
            if end is not removed:
                with contextlib.suppress(Refused):
                    await console.approvals.refuse(asked.id, by="somebody")
            with pytest.raises(EOFError):
                await stream.next()
        answer = await console.get("/events/now", anna, accept="application/json")
        assert (answer.status, answer.reason) == (401, "sign_in_needed")


async def test_it_ends_soon_even_if_nothing_happens(monkeypatch):
    monkeypatch.setattr(page, "_LOOK_SECONDS", 0.1)
    async with live_console() as console:
        anna = await console.sign_in()
        async with listening_to(console.origin, anna.cookie, console.http) as stream:
            await stream.next()
            await signed_out(console, anna)
            with pytest.raises(EOFError):
                await stream.next()
