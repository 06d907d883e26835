"""A signature that a person gave for one thing is used for another: another act, body, path or person; twice; too late."""

import pytest

from callgate.console.cards import key_of, seen_of
from support.agent_sessions import HANDLE
from support.console import whole_console
from support.reviewing import FILES_ID
from support.table import rows

OFF = "/switch/off"
ROLE = {"role": "viewer", "before": "approver"}


@pytest.fixture
async def console(tmp_path):
    async with whole_console(tmp_path) as running:
        await running.sign_in("anna")
        for name in ("bert", "carl"):
            await running.sign_in(name, role="approver")
        yield running


async def stop(console, person):
    """The switch turned on; what a signature to turn it off is about."""
    assert (await console.post("/switch/on", {"note": "a drill"}, person)).json == {"on": True}
    page = (await console.get("/settings", person)).text
    return {"note": "", "since": int(page.split('data-since="')[1].split('"')[0])}


async def role_of(console, name):
    return (await console.approvals.user(name)).role


async def decisions(console):
    view = await console.pins.find(FILES_ID, "list_files")
    one = {"action": "approve", "server": key_of(FILES_ID), "tool": key_of("list_files"), "hash": view.approval_hash}
    return {"decisions": [one | {"seen": seen_of(view)}]}


async def state(console):
    return (await console.pins.find(FILES_ID, "list_files")).state


async def test_a_session_and_its_token_alone(console):
    """Every act that lasts, without a passkey in the hand."""
    anna = console.people["anna"]
    acts = {
        OFF: await stop(console, anna),
        "/tools/approve": await decisions(console),
        f"/quarantine/{HANDLE}/release": {},
        "/people/bert/role": ROLE,
        "/people/bert/remove": {"passkeys": 1},
        "/people/bert/revoke": {"passkey": console.people["bert"].credential.id},
        "/people/invite": {"name": "eve", "role": "operator"},
    }
    for path, body in acts.items():
        for sent in (body, {"body": body}, {"body": body, "challengeId": "x"}):
            assert (await console.post(path, sent, anna)).reason == "invalid_params", path
        made_up = {"body": body, "challengeId": "x" * 22, "response": {}}
        assert (await console.post(path, made_up, anna)).status == 403, path
        issued = (await console.post(f"{path}/options", body, anna)).json
        unsigned = {"body": body, "challengeId": issued["challengeId"], "response": {}}
        assert (await console.post(path, unsigned, anna)).status == 403, path
    assert console.gateway.switch.engaged
    assert await state(console) == "new"
    assert await role_of(console, "bert") == "approver"
    assert await console.approvals.shelf.user("eve") is None


@rows("bend", [{"uv": False}, {"tamper_signature": True}, {"origin": "http://localhost:6666"}], ids=str)
async def test_a_signature_that_does_not_hold(console, bend):
    anna = console.people["anna"]
    answer = await console.act("/tools/approve", await decisions(console), anna, **bend)
    assert (answer.status, answer.reason) == (403, "signature_verification_failed")
    assert await state(console) == "new"


async def test_another_act(console):
    anna = console.people["anna"]
    off = await stop(console, anna)
    signed = await console.challenge("/people/bert/role", ROLE, anna)
    body = await decisions(console)
    for path, wanted in ((OFF, off), ("/tools/approve", body), ("/people/bert/remove", {"passkeys": 1})):
        answer = await console.post(path, signed | {"body": wanted}, anna)
        assert (answer.status, answer.reason) == (403, "challenge_unknown"), path
    # Nor do what approves a call, signs in or adds a device.
    asked = await console.ask()
    for path in (f"/approve/{asked.id}/options", "/device/options", "/sign-in/options"):
        other = await console.signed_for(path, anna)
        answer = await console.post(OFF, other | {"body": off}, anna)
        assert (answer.status, answer.reason) == (403, "challenge_unknown"), path
    act = {name: value for name, value in signed.items() if name != "body"}
    assert (await console.post("/device", act, anna)).reason == "challenge_unknown"
    assert (await console.post("/sign-in", act)).reason == "sign_in_failed"
    assert console.gateway.switch.engaged


async def test_another_body(console):
    anna = console.people["anna"]
    signed = await console.challenge("/people/bert/role", ROLE, anna)
    for role in ("operator", "approver"):
        answer = await console.post("/people/bert/role", signed | {"body": ROLE | {"role": role}}, anna)
        assert (answer.status, answer.reason) == (403, "argument_hash_mismatch")
    body = await decisions(console)
    signed = await console.challenge("/tools/approve", body, anna)
    more = {"decisions": [body["decisions"][0] | {"override": True}]}
    assert (await console.post("/tools/approve", signed | {"body": more}, anna)).reason == "argument_hash_mismatch"
    assert await role_of(console, "bert") == "approver"
    assert await state(console) == "new"


async def test_another_path(console):
    anna = console.people["anna"]
    signed = await console.challenge("/people/bert/role", ROLE, anna)
    answer = await console.post("/people/carl/role", signed, anna)
    assert (answer.status, answer.reason) == (403, "argument_hash_mismatch")
    assert await role_of(console, "carl") == "approver"
    assert (await console.post("/people/bert/role", signed, anna)).status == 200


async def test_another_person(console):
    anna, olga = console.people["anna"], await console.sign_in("olga")
    signed = await console.challenge("/people/bert/role", ROLE, anna)
    answer = await console.post("/people/bert/role", signed, olga)
    assert (answer.status, answer.reason) == (403, "unknown_credential")
    # In the other's session, a challenge of theirs, with the passkey of somebody else.
    issued = (await console.post("/people/bert/role/options", ROLE, olga)).json
    response = anna.key.get(dict(issued["requestOptions"], allowCredentials=[]))
    mixed = {"body": ROLE, "challengeId": issued["challengeId"], "response": response}
    answer = await console.post("/people/bert/role", mixed, olga)
    assert (answer.status, answer.reason) == (403, "unknown_credential")
    assert await role_of(console, "bert") == "approver"


async def test_replayed(console):
    anna = console.people["anna"]
    off = await stop(console, anna)
    signed = await console.challenge(OFF, off, anna)
    assert (await console.post(OFF, signed, anna)).json == {"on": False}
    # The very same words, and the same once more after somebody stopped everything anew.
    assert (await console.post(OFF, signed, anna)).reason == "page_outdated"
    again = await stop(console, anna)
    assert (await console.post(OFF, signed, anna)).reason == "page_outdated"
    assert (await console.post(OFF, signed | {"body": again}, anna)).reason == "challenge_consumed"
    body = await decisions(console)
    signed = await console.challenge("/tools/approve", body, anna)
    assert (await console.post("/tools/approve", signed, anna)).status == 200
    assert (await console.post("/tools/approve", signed, anna)).reason == "challenge_consumed"
    assert console.gateway.switch.engaged


async def test_older_than_its_challenge(console):
    anna = console.people["anna"]
    signed = await console.challenge("/people/bert/role", ROLE, anna)
    console.clock.ahead += 121
    answer = await console.post("/people/bert/role", signed, anna)
    assert (answer.status, answer.reason) == (403, "challenge_expired")
    assert await role_of(console, "bert") == "approver"


async def test_by_a_passkey_that_was_revoked_meanwhile(console):
    anna = await console.sign_in("anna")
    signed = await console.challenge("/people/bert/role", ROLE, anna)
    await console.approvals.revoke(anna.credential.id, by="operator")
    assert (await console.post("/people/bert/role", signed, anna)).reason == "sign_in_needed"
    assert await role_of(console, "bert") == "approver"
