"""A program opens sign-ins in a person's name without end, so that the person's own page has no room left."""

import asyncio
import dataclasses

import aiohttp
import pytest

from support.console import live_console


@pytest.fixture
async def console():
    async with live_console() as running:
        # How many may come in a minute does not depend on how long a test takes.
        running.clock.stop()
        yield running


async def ask(console, user=None):
    return await console.post("/sign-in/options", {} if user is None else {"user": user})


async def test_a_flood_with_one_name_is_turned_away_before_it_reaches_the_store(console):
    person = await console.sign_in()
    for _ in range(60):
        assert (await ask(console, "anna")).status == 200
    stored = len(console.approvals.shelf.rows("challenge"))
    answer = await ask(console, "anna")
    assert (answer.status, answer.reason) == (429, "approval_limit")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert len(console.approvals.shelf.rows("challenge")) == stored
    # Others come in, and so does the person, without giving the name.
    assert (await ask(console, "berta")).status == 200
    issued = (await ask(console)).json
    body = {"challengeId": issued["challengeId"], "response": person.key.get(issued["requestOptions"])}
    assert (await console.post("/sign-in", body)).status == 200
    console.clock.ahead += 60
    assert (await ask(console, "anna")).status == 200


async def test_a_flood_with_many_names_is_turned_away_too(console):
    ended = await asyncio.gather(*(ask(console, f"user{number}") for number in range(310)))
    assert sorted(answer.status for answer in ended) == [200] * 300 + [429] * 10
    assert len(console.approvals.shelf.rows("challenge")) == 300
    assert (await ask(console)).status == 429
    console.clock.ahead += 60
    assert (await ask(console)).status == 200


async def test_the_person_still_approves(console):
    person = await console.sign_in()
    asked = await console.ask()
    flood = [console.approvals.begin_sign_in("anna") for _ in range(1_100)]
    ended = await asyncio.gather(*flood, return_exceptions=True)
    refused = [one for one in ended if isinstance(one, Exception)]
    assert refused, "sign-ins are bounded"
    issued = (await console.post(f"/approve/{asked.id}/options", {}, person)).json
    response = person.key.get(issued["requestOptions"])
    body = {"challengeId": issued["challengeId"], "response": response}
    assert (await console.post(f"/approve/{asked.id}/approve", body, person)).status == 200
    assert (await console.stored(asked)).state == "approved"


async def test_a_flood_from_one_address_leaves_the_others_some(console):
    """Whoever may reach the console keeps nobody else from signing in."""
    person = await console.sign_in()
    ended = await asyncio.gather(*(ask(console, f"user{number}") for number in range(400)))
    assert sorted(answer.status for answer in ended) == [200] * 300 + [429] * 100
    elsewhere = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), connector=elsewhere) as http:
        other = dataclasses.replace(console, http=http)
        answer = await ask(other)
        assert answer.status == 200
        issued = answer.json
        body = {"challengeId": issued["challengeId"], "response": person.key.get(issued["requestOptions"])}
        assert (await other.post("/sign-in", body)).status == 200
        ended = await asyncio.gather(*(ask(other, f"user{number}") for number in range(200)))
    # Nor does the next one take what is left.
    assert sum(answer.status == 200 for answer in ended) == 149
