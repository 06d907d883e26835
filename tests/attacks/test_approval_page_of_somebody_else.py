"""Somebody looks at, or decides, a call that waits for another person."""


async def test_without_a_session_nothing_of_the_call_is_shown(console):
    await console.sign_in()
    asked = await console.ask()
    known = await console.get(f"/approve/{asked.id}")
    unknown = await console.get(f"/approve/{'A' * len(asked.id)}")
    assert (known.status, unknown.status) == (401, 401)
    assert known.text.replace(asked.id, "") == unknown.text.replace("A" * len(asked.id), "")
    for secret in ("delete_resource", "customers", "files", "Helper", "anna"):
        assert secret not in known.text
    state = await console.get(f"/approve/{asked.id}/state")
    assert (state.status, state.text.count("sign_in_needed")) == (401, 1)
    for path in ("options", "approve", "refuse"):
        answer = await console.post(f"/approve/{asked.id}/{path}", {})
        assert (answer.status, answer.reason) == (401, "sign_in_needed")
    assert (await console.stored(asked)).state == "waiting"


async def test_another_person_sees_and_decides_nothing(console):
    await console.sign_in()
    other = await console.sign_in("berta")
    asked = await console.ask()
    page = await console.get(f"/approve/{asked.id}", other)
    unknown = await console.get("/approve/none", other)
    assert (page.status, page.text) == (404, unknown.text)
    assert "delete_resource" not in page.text
    assert (await console.get(f"/approve/{asked.id}/state", other)).status == 404
    made_up = {"challengeId": "x", "response": {}}
    for path, body in (("options", {}), ("approve", made_up), ("refuse", {"note": "no"})):
        answer = await console.post(f"/approve/{asked.id}/{path}", body, other)
        assert (answer.status, answer.reason) == (404, "page_unknown")
    assert (await console.get("/waiting", other)).json["waiting"] == 0
    assert asked.id not in (await console.get("/", other)).text
    assert (await console.stored(asked)).state == "waiting"


EMPTY = {"challengeId": "x", "response": {}}


async def test_another_persons_passkey_is_not_theirs_to_touch(console):
    person = await console.sign_in()
    other = await console.sign_in("berta")
    for path, body in (("rename", {"name": "mine"}), ("revoke/options", {}), ("revoke", EMPTY)):
        answer = await console.post(f"/passkeys/{person.credential.id}/{path}", body, other)
        assert (answer.status, answer.reason) == (404, "page_unknown")
    assert await console.approvals.shelf.credential(person.credential.id) == person.credential


async def test_an_ended_session_is_nobody(console):
    person = await console.sign_in()
    asked = await console.ask()
    assert (await console.post("/sign-out", {}, person)).status == 200
    assert (await console.get(f"/approve/{asked.id}", person)).status == 401
    answer = await console.post(f"/approve/{asked.id}/refuse", {}, person)
    assert (answer.status, answer.reason) == (401, "sign_in_needed")


async def test_a_session_runs_out(console):
    person = await console.sign_in()
    assert (await console.get("/waiting", person)).status == 200
    console.clock.ahead += 8 * 3600
    assert (await console.get("/waiting", person)).status == 401
