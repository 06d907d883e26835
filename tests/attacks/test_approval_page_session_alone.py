"""Whoever holds a stolen session, token and all, tries to approve or to enrol without the person's passkey."""

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.registry import requirement
from support.table import rows


async def assert_refused(console, asked, body, person, *reasons):
    answer = await console.post(f"/approve/{asked.id}/approve", body, person)
    assert (answer.status, answer.reason in reasons) == (403, True), answer.text
    held = await console.stored(asked)
    assert (held.state, held.evidence) == ("waiting", None)


async def test_a_signature_of_a_key_that_nobody_enrolled(console):
    person = await console.sign_in()
    asked = await console.ask()
    issued = (await console.post(f"/approve/{asked.id}/options", {}, person)).json
    own = SoftwareAuthenticator(console.origin)
    user = {"id": "AAAA", "name": "anna"}
    algorithms = [{"type": "public-key", "alg": -7}]
    own.create({"rp": {"id": "localhost"}, "user": user, "challenge": "AAAA", "pubKeyCredParams": algorithms})
    response = own.get(dict(issued["requestOptions"], allowCredentials=[]))
    body = {"challengeId": issued["challengeId"], "response": response}
    await assert_refused(console, asked, body, person, "unknown_credential")


@rows(
    "bend",
    [
        {"uv": False},
        {"up": False},
        {"origin": "https://evil.example"},
        {"cross_origin": True},
        {"rp_id": "evil.example"},
        {"tamper_signature": True},
        {"type": "webauthn.create"},
        {"challenge": b"x" * 64},
    ],
    ids=str,
)
async def test_an_assertion_that_does_not_hold(console, bend):
    person = await console.sign_in()
    asked = await console.ask()
    body = await console.signed(asked, person, **bend)
    await assert_refused(console, asked, body, person, "signature_verification_failed")


async def test_a_signature_given_for_something_else(console):
    """Signing in, vouching for a device and approving another call are each signed for themselves."""
    person = await console.sign_in()
    asked = await console.ask()
    another = await console.ask({"resourceId": "harmless"})
    revoke = f"/passkeys/{person.credential.id}/revoke/options"
    for path in ("/sign-in/options", "/device/options", revoke, f"/approve/{another.id}/options"):
        issued = (await console.post(path, {}, person)).json
        body = {"challengeId": issued["challengeId"], "response": person.key.get(issued["requestOptions"])}
        await assert_refused(console, asked, body, person, "challenge_unknown", "challenge_wrong_tool")


async def test_the_challenge_of_one_call_with_the_signature_for_another(console):
    person = await console.sign_in()
    asked = await console.ask()
    another = await console.ask({"resourceId": "harmless"})
    signed = await console.signed(another, person)
    fresh = (await console.post(f"/approve/{asked.id}/options", {}, person)).json
    body = {"challengeId": fresh["challengeId"], "response": signed["response"]}
    await assert_refused(console, asked, body, person, "signature_verification_failed")


async def test_the_signature_for_a_call_signs_nobody_in(console):
    person = await console.sign_in()
    signed = await console.signed(await console.ask(), person)
    answer = await console.post("/sign-in", signed)
    assert (answer.status, answer.reason) == (401, "sign_in_failed")
    assert "set-cookie" not in answer.headers


@requirement("VA-028")
async def test_a_further_device_needs_a_signature_of_an_enrolled_passkey(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    asked = await console.ask()
    for body in ({"challengeId": "x", "response": {}}, await console.signed(asked, person)):
        answer = await console.post("/device", body, person)
        assert answer.status == 403
        assert "ticket" not in answer.json
    issued = (await console.post("/device/options", {}, person)).json
    body = {"challengeId": issued["challengeId"], "response": person.key.get(issued["requestOptions"])}
    ticket = (await console.post("/device", body, person)).json["ticket"]
    assert (await console.approvals.look_at_ticket(ticket)).user == "anna"
    assert (await console.post("/device", body, person)).reason == "challenge_consumed"


async def test_a_session_enrols_nothing_by_itself(console):
    person = await console.sign_in()
    for ticket in ("", "x", person.csrf, person.cookie[console.cookie]):
        answer = await console.post("/enrol/begin", {"ticket": ticket}, person)
        assert answer.status in (400, 403)
    answer = await console.post("/enrol/begin", {}, person)
    assert (answer.status, answer.reason) == (400, "invalid_params")
    assert len(await console.approvals.shelf.credentials("anna")) == 1


@requirement("VA-179")
async def test_a_revoked_passkey_neither_signs_nor_stays_signed_in(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    asked = await console.ask()
    body = await console.signed(asked, person)
    second = await console.sign_in()
    answer = await console.revoke(person.credential.id, second)
    assert (answer.status, answer.json) == (200, {"signedOut": False})
    assert (await console.get("/waiting", person)).status == 401
    await assert_refused(console, asked, body, second, "unknown_credential")
    # The way back: a ticket of the operator enrols a new one, which approves.
    third = await console.sign_in()
    answer = await console.post(f"/approve/{asked.id}/approve", await console.signed(asked, third), third)
    assert (answer.status, answer.json) == (200, {"state": "approved"})
