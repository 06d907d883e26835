"""An answer that a device has signed is used again: for another call, another decision, another gateway or another
purpose, or a second time."""

import pytest

from callgate.approval.model import GrantUse
from callgate.errors import Spent
from support.devices import Phone, ask, granted
from support.registry import requirement
from support.table import rows


@pytest.fixture
def console(console_of_each_store):
    return console_of_each_store


@pytest.fixture
async def anna(console):
    return await console.sign_in("anna", role="approver")


@pytest.fixture
async def phone(console, anna):
    return await Phone.enrolled(console, anna)


async def refused(phone, body, reason, status=None):
    answer = await phone.send("answer", body)
    assert (answer.status >= 400, answer.reason) == (True, reason)
    assert status in (None, answer.status)


@requirement("VA-181")
async def test_the_second_use_of_one_answer(console, phone):
    asked = await ask(console)
    body = phone.signed(await phone.call(asked))
    assert (await phone.send("answer", body)).json == {"state": "approved"}
    await refused(phone, body, "approval_decided", 409)
    # The call uses it up, and the same call again has to be asked about again.
    use = GrantUse((await granted(console)).id, "call-1", console.approvals.now())
    await console.approvals.shelf.use(use)
    with pytest.raises(Spent):
        await console.approvals.shelf.use(use)
    await refused(phone, body, "approval_decided")
    again = await ask(console)
    await refused(phone, body | {"request": again.id}, "challenge_unknown")
    assert await granted(console) is None


async def test_for_another_call(console, phone):
    small, large = await ask(console), await ask(console, arguments={"resourceId": "everything"})
    yes, other = phone.signed(await phone.call(small)), await phone.call(large)
    await refused(phone, yes | {"request": large.id}, "challenge_unknown")
    # Nor with the parts of the other call's challenge put in.
    forged = phone.signed(await phone.call(small)) | {"request": large.id}
    forged["evidence"]["challengeId"] = other["challengeId"]
    await refused(phone, forged, "signature_verification_failed")
    assert (await console.stored(large)).state == "waiting"


OTHERS = (
    {"decision": "no"},
    {"actionHash": "A" * 43},
    {"nonce": "A" * 43},
    {"challengeId": "another"},
    {"gateway": "A" * 43},
    {"method": "webauthn"},
    {"purpose": "ask"},
    {"purpose": "enrol"},
)


@rows("bend", OTHERS)
async def test_signed_for_something_else(console, phone, bend):
    """What was signed differs in one member from what the gateway knows."""
    asked = await ask(console)
    body = phone.signed(await phone.call(asked), **bend)
    # A person's no is sent as a yes; all else is as the gateway expects it.
    body["evidence"]["response"]["decision"] = "yes"
    await refused(phone, body, "signature_verification_failed")
    assert (await console.stored(asked)).state == "waiting"


async def test_yes_after_no_and_no_after_yes(console, phone):
    first = await ask(console)
    yes, no = phone.signed(await phone.call(first)), phone.signed(await phone.call(first), "no")
    assert (await phone.send("answer", no)).json == {"state": "refused"}
    await refused(phone, yes, "approval_decided")
    assert await granted(console) is None
    assert (await phone.ask("call", first.id)).reason == "approval_decided"
    second = await ask(console, arguments={"resourceId": "other"})
    yes, no = phone.signed(await phone.call(second)), phone.signed(await phone.call(second), "no")
    assert (await phone.send("answer", no | {"request": first.id})).status >= 400
    # The earlier message comes later: its time is not later than the last one's.
    no = phone.signed(await phone.call(second), "no")
    late = phone.signed(await phone.call(second))
    assert (await phone.send("answer", late)).json == {"state": "approved"}
    await refused(phone, no, "approval_decided")
    assert (await console.stored(second)).state == "approved"


async def test_a_message_older_than_the_last(console, phone):
    """A copy of the key, or somebody who held a message back."""
    asked = await ask(console)
    old = phone.signed(await phone.call(asked))
    await phone.waiting()
    await refused(phone, old, "signature_counter_regression")
    assert (await console.stored(asked)).state == "waiting"


async def test_too_late_and_with_a_wrong_clock(console, phone):
    asked = await ask(console)
    call = await phone.call(asked)
    for wrong in (call["expiresAt"] + 60_001, call["time"] - 70_000):
        body = phone.signed(call, time=wrong)
        await refused(phone, body, "signature_verification_failed")
    body = phone.signed(call)
    console.clock.ahead += 61
    await refused(phone, body, "challenge_expired")
    assert (await phone.answer(asked)).json == {"state": "approved"}


async def test_at_another_gateway(console, phone):
    """The same key is enrolled at two gateways, and one of them passes on what it was told."""
    asked = await ask(console)
    call = await phone.call(asked)
    elsewhere = Phone(console, "anna", gateway="B" * 43)
    elsewhere.id, elsewhere.device.key = phone.id, phone.device.key
    await refused(phone, elsewhere.signed(call), "signature_verification_failed")
    assert (await console.stored(asked)).state == "waiting"
