"""Somebody listens for calls in a device's name: with a stolen address, a message that was caught on its way, another
device, or by asking without end."""

import pytest

from callgate.gate import Quorum
from support.devices import Phone, ask, several
from support.registry import requirement


@pytest.fixture
def console(console_of_each_store):
    return console_of_each_store


@pytest.fixture
async def anna(console):
    return await console.sign_in("anna", role="approver")


@pytest.fixture
async def phone(console, anna):
    return await Phone.enrolled(console, anna)


@requirement("VA-181")
async def test_an_address_alone_is_worth_nothing(console, phone):
    asked = await ask(console)
    for path in ("waiting", "call", "answer"):
        assert (await console.get(f"/devices/v1/{path}")).status == 405
        assert (await console.get(f"/devices/v1/{path}?key={phone.id}&request={asked.id}")).status == 405
    good = phone.question("call", asked.id)
    for name in good:
        less = {key: value for key, value in good.items() if key != name}
        answer = await phone.send("call", less)
        assert (answer.status >= 400, "delete_resource" in answer.text) == (True, False), name
    for body in ({}, [], "x", None, good | {"more": 1}):
        assert (await phone.send("call", body)).status >= 400
    assert (await phone.send("call", good)).status == 200


async def test_a_message_that_was_caught(console, phone):
    asked = await ask(console)
    caught = phone.question("call", asked.id)
    assert (await phone.send("call", caught)).status == 200
    assert (await phone.send("call", caught)).reason == "signature_counter_regression"
    # For something else, or with another time, it is not what was signed.
    fresh = phone.question("waiting")
    assert (await phone.send("call", fresh | {"request": asked.id})).reason == "signature_verification_failed"
    assert (await phone.send("call", fresh)).reason == "signature_verification_failed"
    assert (await phone.send("waiting", fresh | {"time": fresh["time"] + 1})).reason == "signature_verification_failed"
    assert (await phone.send("waiting", fresh)).status == 200
    # It never arrived, and is sent after the device has gone on; or much later.
    held = phone.question("waiting")
    assert (await phone.ask("waiting")).status == 200
    assert (await phone.send("waiting", held)).reason == "signature_counter_regression"
    late = phone.question("waiting")
    console.clock.ahead += 61
    assert (await phone.send("waiting", late)).reason == "signature_verification_failed"
    console.clock.ahead += 61
    early = phone.question("waiting")
    console.clock.ahead -= 61
    assert (await phone.send("waiting", early)).reason == "signature_verification_failed"


async def test_only_ones_own_calls_are_seen(console, phone):
    """Of another person, of several who do not include her, and of tools that take no devices."""
    ben = await console.sign_in("ben", role="approver")
    await console.approvals.join_group("ops", "ben", by="test")
    his = await ask(console, "ben")
    theirs = await ask(console, policy=several(Quorum(1, ("ops",))))
    passkeys = await console.ask(tool="other")
    for one in (his, theirs):
        assert (await phone.ask("call", one.id)).reason == "not_asked"
    assert (await phone.ask("call", passkeys.id)).reason == "unsupported_method"
    assert (await phone.ask("call", "no such call")).reason == "not_asked"
    assert await phone.waiting() == []
    hers = await ask(console)
    assert await phone.waiting() == [hers.id]
    tablet = await Phone.enrolled(console, ben)
    assert set(await tablet.waiting()) == {his.id, theirs.id}
    # Nor does anybody else learn what became of a call.
    await console.approvals.refuse(his.id, by="ben")
    assert (await phone.ask("call", his.id)).reason == "not_asked"
    assert (await tablet.ask("call", his.id)).reason == "approval_decided"


async def test_asking_without_end(console, anna, phone):
    """A device is told to wait, and another one is not."""
    console.clock.stop()
    for _ in range(120):
        assert (await phone.ask("waiting")).status == 200
    stopped = await phone.ask("waiting")
    assert (stopped.status, stopped.reason) == (429, "approval_limit")
    assert int(stopped.headers["retry-after"]) >= 1
    other = await Phone.enrolled(console, anna, "Tablet")
    assert (await other.ask("waiting")).status == 200


async def test_one_callers_calls_do_not_hide_anothers(console, phone):
    """A caller may have as many waiting as there are places for one; who asked before them is still on the list."""
    first = await ask(console)
    for number in range(20):
        await ask(console, arguments={"flood": number}, caller="10.0.0.1 1")
    assert first.id in await phone.waiting()


async def test_nobody_uses_up_the_tries_of_a_device(console, phone):
    """Messages that it has not signed count for nothing."""
    console.clock.stop()
    for _ in range(150):
        forged = phone.question("waiting")
        forged["signature"] = "A" * 86
        assert (await phone.send("waiting", forged)).reason == "signature_verification_failed"
    assert (await phone.ask("waiting")).status == 200


async def test_a_page_of_another_site(console, phone):
    """A browser sends JSON to another origin only with permission, which nobody gives; a form cannot."""
    good = phone.question("waiting")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = await console.post("/devices/v1/waiting", good, headers={"content-type": kind, "origin": None})
        assert answer.status in (400, 415), kind
        assert "access-control-allow-origin" not in answer.headers
    answer = await console.get("/devices/v1")
    assert "access-control-allow-origin" not in answer.headers
    assert set(answer.json) == {"protocol", "gateway", "time"}
    assert (await console.get("/devices/v1", host="evil.example")).reason == "host_not_allowed"
