"""The page is open twice, or its answers are sent in parallel: one decision counts, the others are told so."""

import asyncio

from support.table import rows


async def test_twenty_approvals_at_once_make_one(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    asked = await console.ask()
    signed = [await console.signed(asked, person) for _ in range(20)]
    answers = await asyncio.gather(*(console.post(f"/approve/{asked.id}/approve", body, person) for body in signed))
    lost = [(answer.status, answer.reason) for answer in answers if answer.status != 200]
    assert len(lost) == 19
    # A signature made before the one that won has a lower counter, which may be noticed first.
    assert set(lost) <= {(409, "approval_decided"), (403, "signature_counter_regression")}
    assert (await console.stored(asked)).state == "approved"


async def test_the_same_answer_twice(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    asked = await console.ask()
    body = await console.signed(asked, person)
    path = f"/approve/{asked.id}/approve"
    first, second = await asyncio.gather(console.post(path, body, person), console.post(path, body, person))
    won, lost = sorted([first, second], key=lambda answer: answer.status)
    assert won.status == 200
    # Whichever is noticed first: that the call is decided, or that the signature was used.
    assert (lost.status, lost.reason) in ((409, "approval_decided"), (403, "challenge_consumed"))


@rows("first", ["approve", "refuse"])
async def test_the_second_decision_changes_nothing(console_of_each_store, first):
    console = console_of_each_store
    person = await console.sign_in()
    asked = await console.ask({"resourceId": first})
    bodies = {"approve": await console.signed(asked, person), "refuse": {"note": "no"}}
    assert (await console.post(f"/approve/{asked.id}/{first}", bodies[first], person)).status == 200
    before = await console.stored(asked)
    for second, body in bodies.items():
        answer = await console.post(f"/approve/{asked.id}/{second}", body, person)
        assert (answer.status, answer.reason) == (409, "approval_decided")
    answer = await console.post(f"/approve/{asked.id}/options", {}, person)
    assert (answer.status, answer.reason) == (409, "approval_decided")
    assert await console.stored(asked) == before


async def test_after_its_time_nothing_is_decided(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    asked = await console.ask()
    body = await console.signed(asked, person)
    console.clock.ahead += 600
    for path, sent in (("approve", body), ("refuse", {"note": "no"}), ("options", {})):
        answer = await console.post(f"/approve/{asked.id}/{path}", sent, person)
        assert (answer.status, answer.reason) == (410, "approval_expired")
    assert (await console.stored(asked)).state == "waiting"
    assert (await console.get(f"/approve/{asked.id}/state", person)).json["state"] == "expired"
