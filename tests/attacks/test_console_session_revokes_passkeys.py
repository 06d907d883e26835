"""Whoever holds a stolen session, token and all, tries to take the person's passkeys away, so that nobody can refuse."""

from support.table import rows


async def two_passkeys(console):
    """One person with two passkeys, signed in with the second."""
    return await console.sign_in(), await console.sign_in()


async def held(console, user="anna"):
    return {one.id for one in await console.approvals.shelf.credentials(user)}


async def test_session_and_token_alone(console):
    first, second = await two_passkeys(console)
    issued = (await console.post(f"/passkeys/{first.credential.id}/revoke/options", {}, second)).json
    for body in ({}, None, {"challengeId": issued["challengeId"]}):
        answer = await console.post(f"/passkeys/{first.credential.id}/revoke", body, second)
        assert (answer.status, answer.reason) == (400, "invalid_params")
    body = {"challengeId": issued["challengeId"], "response": {}}
    for passkey in (first, second):
        assert (await console.post(f"/passkeys/{passkey.credential.id}/revoke", body, second)).status == 403
    assert await held(console) == {first.credential.id, second.credential.id}
    assert (await console.get("/waiting", first)).status == 200


@rows("bend", [{"uv": False}, {"tamper_signature": True}, {"origin": "http://localhost:6666"}], ids=str)
async def test_a_signature_that_does_not_hold(console, bend):
    first, second = await two_passkeys(console)
    place = f"/passkeys/{first.credential.id}/revoke"
    body = await console.signed_for(f"{place}/options", second, **bend)
    answer = await console.post(place, body, second)
    assert (answer.status, answer.reason) == (403, "signature_verification_failed")
    assert first.credential.id in await held(console)


async def test_a_signature_for_something_else(console):
    """Adding a device, signing in and approving a call are each signed for themselves."""
    first, second = await two_passkeys(console)
    asked = await console.ask()
    for path in ("/device/options", "/sign-in/options", f"/approve/{asked.id}/options"):
        body = await console.signed_for(path, second)
        answer = await console.post(f"/passkeys/{first.credential.id}/revoke", body, second)
        assert (answer.status, answer.reason) == (403, "challenge_unknown")
    assert first.credential.id in await held(console)


async def test_a_signature_to_revoke_one_revokes_no_other(console_of_each_store):
    console = console_of_each_store
    first, second = await two_passkeys(console)
    body = await console.signed_for(f"/passkeys/{first.credential.id}/revoke/options", second)
    answer = await console.post(f"/passkeys/{second.credential.id}/revoke", body, second)
    assert (answer.status, answer.reason) == (403, "argument_hash_mismatch")
    # Under the challenge for the other passkey it is no signature at all.
    other = (await console.post(f"/passkeys/{second.credential.id}/revoke/options", {}, second)).json
    mixed = {"challengeId": other["challengeId"], "response": body["response"]}
    answer = await console.post(f"/passkeys/{second.credential.id}/revoke", mixed, second)
    assert (answer.status, answer.reason) == (403, "signature_verification_failed")
    assert await held(console) == {first.credential.id, second.credential.id}
    # What it was given for, it does: once.
    answer = await console.post(f"/passkeys/{first.credential.id}/revoke", body, second)
    assert (answer.status, answer.json) == (200, {"signedOut": False})
    assert await held(console) == {second.credential.id}


async def test_a_signature_to_revoke_adds_no_device_and_signs_nobody_in(console):
    first, second = await two_passkeys(console)
    body = await console.signed_for(f"/passkeys/{first.credential.id}/revoke/options", second)
    answer = await console.post("/device", body, second)
    assert (answer.status, answer.reason) == (403, "challenge_unknown")
    assert (await console.post("/sign-in", body)).reason == "sign_in_failed"


async def test_passkeys_of_somebody_else(console):
    person, thief = await console.sign_in(), await console.sign_in("berta")
    place = f"/passkeys/{person.credential.id}/revoke"
    assert (await console.post(f"{place}/options", {}, thief)).status == 404
    own = await console.signed_for(f"/passkeys/{thief.credential.id}/revoke/options", thief)
    assert (await console.post(place, own, thief)).status == 404
    # In the person's stolen session, with a passkey of the thief's own.
    for path in (f"/passkeys/{thief.credential.id}/revoke/options", "/device/options"):
        body = await console.signed_for(path, thief)
        assert (await console.post(place, body, person)).status == 403
    issued = (await console.post(f"{place}/options", {}, person)).json
    response = thief.key.get(dict(issued["requestOptions"], allowCredentials=[]))
    answer = await console.post(place, {"challengeId": issued["challengeId"], "response": response}, person)
    assert (answer.status, answer.reason) == (403, "unknown_credential")
    assert await held(console) == {person.credential.id}


async def test_the_only_passkey_signs_for_its_own_end(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    answer = await console.revoke(person.credential.id, person)
    assert (answer.status, answer.json) == (200, {"signedOut": True})
    assert await held(console) == set()
    assert (await console.get("/waiting", person)).status == 401
