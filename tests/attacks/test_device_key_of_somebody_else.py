"""Somebody answers or enrols with a device that is not theirs: another person's device, one that a passkey did not
enrol, or one that the agent has brought along."""

import base64
import json

import pytest

from callgate.gate import Quorum
from support.devices import Phone, ask, granted, several
from support.registry import requirement


@pytest.fixture
def console(console_of_each_store):
    return console_of_each_store


@pytest.fixture
async def anna(console):
    return await console.sign_in("anna", role="approver")


@pytest.fixture
async def mallory(console):
    return await console.sign_in("mallory", role="approver")


@requirement("VA-181")
async def test_an_answer_to_somebody_elses_call(console, anna, mallory):
    asked = await ask(console)
    hers, his = await Phone.enrolled(console, anna), await Phone.enrolled(console, mallory)
    assert (await his.ask("call", asked.id)).reason == "not_asked"
    call = await hers.call(asked)
    answer = await his.send("answer", his.signed(call))
    assert answer.reason == "unknown_credential"
    # Her name on it, his signature.
    forged = his.signed(call)
    forged["evidence"]["response"]["key"] = hers.id
    assert (await his.send("answer", forged)).reason == "signature_verification_failed"
    his.id = hers.id
    assert (await his.send("answer", his.signed(call))).reason == "signature_verification_failed"
    assert await granted(console) is None
    assert (await hers.answer(asked)).json == {"state": "approved"}


async def test_a_second_device_of_the_same_person(console, anna):
    """The challenge was made for one device."""
    asked = await ask(console)
    first, second = await Phone.enrolled(console, anna), await Phone.enrolled(console, anna, "Tablet")
    assert (await second.send("answer", second.signed(await first.call(asked)))).reason == "unknown_credential"


async def test_an_agent_enrols_its_own_device(console, anna):
    agent = await Phone.made(console, "anna")
    line = agent.device.line()
    asked = await ask(console)
    # Nobody's session, somebody's session without a signature, and a signature for something else.
    assert (await console.post("/devices/add/options", {"line": line})).status in (401, 403)
    body = {"body": {"line": line}, "challengeId": "x", "response": {}}
    assert (await console.post("/devices/add", body)).status in (401, 403)
    assert (await console.post("/devices/add", body, anna)).reason == "missing_evidence"
    other = await Phone.made(console, "anna", "Tablet")
    signed = await console.challenge("/devices/add", {"line": other.device.line()}, anna)
    assert (await console.post("/devices/add", signed | {"body": {"line": line}}, anna)).reason == (
        "argument_hash_mismatch"
    )
    assert (await agent.ask("waiting")).reason == "unknown_credential"
    assert (await agent.ask("call", asked.id)).reason == "unknown_credential"
    assert await console.approvals.shelf.credentials("anna", method="device") == []


async def test_a_device_enrols_a_device(console, anna):
    """What a device signs is no passkey's signature: it signs in nowhere and vouches for nothing."""
    phone = await Phone.enrolled(console, anna)
    line = (await Phone.made(console, "anna", "Second")).device.line()
    issued = await console.post("/devices/add/options", {"line": line}, anna)
    assert phone.id not in issued.text
    call = {"challengeId": issued.json["challengeId"], "nonce": "A" * 43, "actionHash": "A" * 43, "request": ""}
    response = phone.signed(call)["evidence"]["response"]
    body = {"body": {"line": line}, "challengeId": issued.json["challengeId"], "response": response}
    assert (await console.post("/devices/add", body, anna)).reason == "missing_evidence"
    assert (await console.post("/sign-in/finish", {"challengeId": "x", "response": response})).status >= 400
    assert [one.id for one in await console.approvals.shelf.credentials("anna", method="device")] == [phone.id]


async def test_the_line_of_somebody_elses_device(console, anna, mallory):
    """Mallory gets at Anna's line and enrols her device as his: it would show her his calls."""
    phone = await Phone.made(console, "anna")
    line = phone.device.line()
    assert (await phone.enrol(mallory, line)).reason == "verification_failed"
    members = json.loads(base64.urlsafe_b64decode(line + "=" * (-len(line) % 4)))
    assert members["user"] == "anna"
    for change in ({"user": "mallory"}, {"name": "Mine"}, {"gateway": "A" * 43}, {"time": members["time"] - 1}):
        forged = base64.urlsafe_b64encode(json.dumps(members | change).encode()).decode().rstrip("=")
        assert (await phone.enrol(mallory, forged)).reason == "verification_failed", change
        assert (await phone.enrol(anna, forged)).reason == "verification_failed", change
    assert (await phone.enrol(anna, line)).status == 200
    # Once, also after it was revoked.
    assert (await phone.enrol(anna, line)).reason == "credential_already_enrolled"
    assert (await console.revoke(phone.id, anna)).status == 200
    assert (await phone.enrol(anna, phone.device.line())).reason == "credential_already_enrolled"


async def test_a_line_that_is_old_or_from_tomorrow(console, anna):
    phone = await Phone.made(console, "anna")
    line = phone.device.line()
    console.clock.ahead += 3_700
    assert (await phone.enrol(anna, line)).reason == "verification_failed"
    console.clock.ahead += 100
    line = phone.device.line()
    console.clock.ahead -= 100
    assert (await phone.enrol(anna, line)).reason == "verification_failed"


async def test_no_more_devices_than_a_person_may_have(console, anna):
    for number in range(10):
        await Phone.enrolled(console, anna, f"Phone {number}")
    last = await (await Phone.made(console, "anna", "One more")).enrol(anna)
    assert (last.status, last.reason) == (429, "approval_limit")


async def test_one_person_with_two_ways_is_one_person(console, anna, mallory):
    """Two people have to approve: a device and a passkey of one are one."""
    policy = several(Quorum(2))
    asked = await ask(console, policy=policy)
    phone, tablet = await Phone.enrolled(console, anna), await Phone.enrolled(console, anna, "Tablet")
    assert (await phone.answer(asked)).json == {"state": "waiting"}
    assert (await tablet.answer(asked)).reason == "approval_signed"
    assert (await console.post(f"/approve/{asked.id}/options", {}, anna)).reason == "approval_signed"
    assert await granted(console, policy=policy) is None
    body = await console.signed(asked, mallory)
    assert (await console.post(f"/approve/{asked.id}/approve", body, mallory)).json == {"state": "approved"}
    signed = (await granted(console, policy=policy)).evidence["signatures"]
    assert [(one["user"], one["method"]) for one in signed] == [("anna", "device"), ("mallory", "webauthn")]
