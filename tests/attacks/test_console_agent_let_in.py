"""Somebody lets an agent in, shuts one out or has addresses fetched over the console: without the role, the passkey or
the page, or of agents that are others by now.
"""

import pytest

from callgate.agents.apikeys import ApiKeys
from support.console import whole_console
from support.table import rows

CONFIG = '[agents.api_keys]\nenabled = true\n[agents.known.shop]\ndirectory = "https://shop.example"\n'
SHOP = "https://shop.example/.well-known/http-message-signatures-directory"


@pytest.fixture
async def console(tmp_path):
    async with whole_console(tmp_path, CONFIG) as running:
        await running.sign_in("anna")
        await running.sign_in("bert", role="approver")
        await running.sign_in("vera", role="viewer")
        yield running


@pytest.fixture
async def key(console):
    """A key that an agent has already."""
    return (await ApiKeys(console.gateway.agents, lambda: int(console.clock() * 1000)).create("reports", by="anna")).key


def acts(key):
    return {
        "/agents/key": {"agent": "eve", "days": 0},
        "/agents/revoke": {"agent": "reports", "key": key.id},
        "/agents/remove": {"agent": "reports", "keys": [key.id]},
    }


async def assert_untouched(console, key):
    assert [(one.id, one.revoked_at) for one in await console.gateway.agents.keys()] == [(key.id, None)]


@rows("name", ["bert", "vera"])
async def test_by_who_may_only_approve_or_look(console, key, name):
    person = console.people[name]
    for path, body in acts(key).items():
        for where, sent in ((f"{path}/options", body), (path, {"body": body, "challengeId": "x", "response": {}})):
            answer = await console.post(where, sent, person)
            assert (answer.status, answer.reason) == (403, "role_needed"), where
    answer = await console.post("/agents/refresh", {"url": SHOP}, person)
    assert (answer.status, answer.reason) == (403, "role_needed")
    for path in ("/agents", "/agents/reports"):
        page = (await console.get(path, person)).text
        assert not any(one in page for one in ("key-open", "data-revoke", "data-refresh", 'id="remove"')), path
    await assert_untouched(console, key)


async def test_with_a_session_and_no_passkey(console, key):
    anna = console.people["anna"]
    for path, body in acts(key).items():
        for sent in (body, {"body": body}, {"body": body, "challengeId": "x"}):
            assert (await console.post(path, sent, anna)).reason == "invalid_params", path
        issued = (await console.post(f"{path}/options", body, anna)).json
        unsigned = {"body": body, "challengeId": issued["challengeId"], "response": {}}
        assert (await console.post(path, unsigned, anna)).status == 403, path
    await assert_untouched(console, key)


async def test_with_a_signature_for_another_agent(console, key):
    anna = console.people["anna"]
    signed = await console.challenge("/agents/key", {"agent": "reports", "days": 1}, anna)
    for body in ({"agent": "eve", "days": 1}, {"agent": "reports", "days": 0}):
        answer = await console.post("/agents/key", signed | {"body": body}, anna)
        assert (answer.status, answer.reason) == (403, "argument_hash_mismatch")
    await assert_untouched(console, key)


@rows(
    "headers",
    [{"x-callgate-csrf": "guessed"}, {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}],
    ids=str,
)
async def test_from_another_site(console, key, headers):
    anna = console.people["anna"]
    for path, body in acts(key).items():
        signed = await console.challenge(path, body, anna)
        for where, sent in ((path, signed), (f"{path}/options", body)):
            answer = await console.post(where, sent, anna, headers=headers)
            assert (answer.status, answer.reason) == (403, "forged_request"), where
    assert (await console.post("/agents/refresh", {"url": SHOP}, anna, headers=headers)).reason == "forged_request"
    await assert_untouched(console, key)


async def test_on_a_page_that_shows_what_is_no_longer_so(console, key):
    anna = console.people["anna"]
    body = acts(key)["/agents/remove"]
    signed = await console.challenge("/agents/remove", body, anna)
    # Somebody gives the agent another key meanwhile: nobody has said that this one goes too.
    given = (await console.act("/agents/key", {"agent": "reports", "days": 1}, anna)).json
    answer = await console.post("/agents/remove", signed, anna)
    assert (answer.status, answer.reason) == (409, "page_outdated")
    assert {one.id: one.revoked_at for one in await console.gateway.agents.keys()} == {key.id: None, given["id"]: None}
    # And a key that is revoked already is not revoked again.
    signed = await console.challenge("/agents/revoke", acts(key)["/agents/revoke"], anna)
    await console.gateway.agents.revoke_key(key.id, 1)
    answer = await console.post("/agents/revoke", signed, anna)
    assert (answer.status, answer.reason) == (409, "page_outdated")


async def test_a_key_of_another_agent_under_this_ones_name(console, key):
    anna = console.people["anna"]
    answer = await console.act("/agents/revoke", {"agent": "shop", "key": key.id}, anna)
    assert (answer.status, answer.reason) == (409, "page_outdated")
    await assert_untouched(console, key)


@rows(
    "url",
    ["https://evil.example/", "http://169.254.169.254/latest/meta-data", "file:///etc/passwd", f"{SHOP}#", "static"],
)
async def test_an_address_that_nobody_named_is_not_fetched(console, url):
    answer = await console.post("/agents/refresh", {"url": url}, console.people["anna"])
    assert (answer.status, answer.reason) == (409, "page_outdated")


@rows(
    "body",
    [
        {"agent": "two words"},
        {"agent": "line\nbreak"},
        {"agent": "\u202eevil"},
        {"agent": ""},
        {"agent": "x" * 129},
        {"agent": "bot", "days": -1},
        {"agent": "bot", "days": 10**9},
        {"agent": "bot", "more": 1},
        {"agent": ["bot"]},
    ],
    ids=str,
)
async def test_names_and_times_that_cannot_be_meant(console, body):
    answer = await console.post("/agents/key/options", body, console.people["anna"])
    assert (answer.status, answer.reason) == (400, "invalid_params")
    assert list(await console.gateway.agents.keys()) == []
