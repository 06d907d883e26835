"""A page on another local port fetches the console's challenges and has the person sign them there, under any pretext."""

ELSEWHERE = "http://localhost:6666"


def signed(person, issued, origin):
    response = person.key.get(issued["requestOptions"], origin=origin)
    return {"challengeId": issued["challengeId"], "response": response}


async def test_signing_in(console):
    person = await console.sign_in()
    for body in ({}, {"user": "anna"}):
        issued = (await console.post("/sign-in/options", body)).json
        answer = await console.post("/sign-in", signed(person, issued, ELSEWHERE))
        assert answer.status == 401
        assert "set-cookie" not in answer.headers
        issued = (await console.post("/sign-in/options", body)).json
        assert (await console.post("/sign-in", signed(person, issued, console.origin))).status == 200


async def test_a_ticket_for_a_key_of_its_own(console):
    person = await console.sign_in()
    issued = (await console.post("/device/options", {}, person)).json
    answer = await console.post("/device", signed(person, issued, ELSEWHERE), person)
    assert answer.status == 403
    assert answer.reason == "signature_verification_failed"
    issued = (await console.post("/device/options", {}, person)).json
    assert "ticket" in (await console.post("/device", signed(person, issued, console.origin), person)).json


async def test_the_end_of_a_passkey(console):
    person = await console.sign_in()
    place = f"/passkeys/{person.credential.id}/revoke"
    issued = (await console.post(f"{place}/options", {}, person)).json
    answer = await console.post(place, signed(person, issued, ELSEWHERE), person)
    assert (answer.status, answer.reason) == (403, "signature_verification_failed")
    issued = (await console.post(f"{place}/options", {}, person)).json
    assert (await console.post(place, signed(person, issued, console.origin), person)).status == 200


async def test_an_approval(console):
    person = await console.sign_in()
    asked = await console.ask()
    issued = (await console.post(f"/approve/{asked.id}/options", {}, person)).json
    answer = await console.post(f"/approve/{asked.id}/approve", signed(person, issued, ELSEWHERE), person)
    assert answer.reason == "signature_verification_failed"
    assert (await console.stored(asked)).state == "waiting"
    issued = (await console.post(f"/approve/{asked.id}/options", {}, person)).json
    answer = await console.post(f"/approve/{asked.id}/approve", signed(person, issued, console.origin), person)
    assert (await console.stored(asked)).state == "approved"
