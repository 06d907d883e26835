"""Somebody guesses recovery codes, or wants to know who is known here."""

import pytest

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.console import live_console


@pytest.fixture
async def console():
    async with live_console() as running:
        # How many may be tried in a minute does not depend on how long a test takes.
        running.clock.stop()
        yield running


async def enrolled(console, user="anna"):
    """A person with recovery codes."""
    begun = await console.approvals.begin_enrolment(await console.approvals.ticket(user, by="operator"))
    key = SoftwareAuthenticator(console.origin)
    return (await console.approvals.finish_enrolment(key.create(begun["options"]), codes=True)).codes


async def attempt(console, user, code):
    return await console.post("/recover", {"user": user, "code": code})


async def test_five_wrong_codes_a_minute_lock_the_owner_of_a_right_one_out_of_nothing(console):
    codes = await enrolled(console)
    for _ in range(5):
        answer = await attempt(console, "anna", "AAAAAA-AAAAAA-AAAAAA-AAAAAA")
        assert (answer.status, answer.reason) == (403, "enrolment_not_authorised")
    answer = await attempt(console, "anna", "AAAAAA-AAAAAA-AAAAAA-AAAAAA")
    assert (answer.status, answer.reason) == (429, "approval_limit")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert (await attempt(console, "anna", codes[0])).status == 200
    # Once, as ever.
    assert (await attempt(console, "anna", codes[0])).status == 429
    console.clock.ahead += 60
    assert (await attempt(console, "anna", codes[0])).status == 403


async def test_wrong_codes_for_others_keep_nobody_out(console):
    codes = await enrolled(console)
    for number in range(100):
        assert (await attempt(console, f"user{number}", "x")).status == 403
    assert (await attempt(console, "anna", codes[0])).status == 200


@pytest.mark.verify
async def test_all_names_together_can_be_tried_three_hundred_times(console):
    await enrolled(console)
    for number in range(300):
        assert (await attempt(console, f"user{number}", "x")).status == 403
    assert (await attempt(console, "anna", "x")).status == 429


async def test_a_code_works_once_and_opens_only_an_enrolment(console):
    codes = await enrolled(console)
    answer = await attempt(console, "anna", codes[0])
    assert answer.status == 200
    assert "set-cookie" not in answer.headers
    assert (await console.approvals.look_at_ticket(answer.json["ticket"])).purpose == "recovery"
    assert (await attempt(console, "anna", codes[0])).reason == "enrolment_not_authorised"


async def test_a_code_of_somebody_else(console):
    codes = await enrolled(console)
    await enrolled(console, "berta")
    assert (await attempt(console, "berta", codes[0])).reason == "enrolment_not_authorised"


async def test_a_code_in_the_address_is_not_read(console):
    codes = await enrolled(console)
    answer = await console.get(f"/recover?user=anna&code={codes[0]}")
    assert answer.status == 200
    assert codes[0] not in answer.text
    assert await console.approvals.shelf.recovery_codes("anna") == len(codes)


async def test_unknown_people_get_the_same_answers(console):
    await enrolled(console)
    known, unknown = await attempt(console, "anna", "x"), await attempt(console, "nobody", "x")
    assert (known.status, known.json) == (unknown.status, unknown.json)
    answer = await console.post("/sign-in", {"challengeId": "x", "response": {}})
    assert (answer.status, answer.reason) == (401, "sign_in_failed")
