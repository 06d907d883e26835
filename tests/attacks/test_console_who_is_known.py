"""Somebody tries names at the sign-in, to learn who is known here and what they sign with."""


def shape(value):
    """Names and types, without what differs from one challenge to the next."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(value[0])] if isinstance(value, list) else type(value)


async def options(console, name):
    answer = await console.post("/sign-in/options", {"user": name})
    assert answer.status == 200
    return answer.json


def allowed(issued):
    return issued["requestOptions"]["allowCredentials"]


async def test_the_answer_for_an_unknown_name_looks_like_the_one_for_a_known_name(console):
    person = await console.sign_in()
    await console.approvals.add_user("carla", by="operator")
    known = await options(console, "anna")
    assert [one["id"] for one in allowed(known)] == [person.credential.id]
    for name in ("nobody", "Anna", "anna ", "a\0b", "x" * 256, "carla"):
        made_up = await options(console, name)
        assert shape(made_up) == shape(known)
        assert len(allowed(made_up)) == 1
        assert made_up["displayText"] == known["displayText"]


async def test_asked_again_it_stays_the_same(console):
    await console.sign_in()
    for name in ("anna", "nobody"):
        first, again = await options(console, name), await options(console, name)
        assert first["challengeId"] != again["challengeId"]
        assert allowed(first) == allowed(again)
    assert allowed(await options(console, "nobody")) != allowed(await options(console, "nobody2"))


async def test_a_real_passkey_does_not_answer_for_a_made_up_one(console):
    person = await console.sign_in()
    issued = await options(console, "nobody")
    response = person.key.get(dict(issued["requestOptions"], allowCredentials=[]))
    made_up = response | {"id": allowed(issued)[0]["id"], "rawId": allowed(issued)[0]["id"]}
    for sent in (response, made_up):
        answer = await console.post("/sign-in", {"challengeId": issued["challengeId"], "response": sent})
        assert (answer.status, answer.reason) == (401, "sign_in_failed")
        assert "set-cookie" not in answer.headers
