"""Viewers and approvers do what operators do: by address, with signatures of their own, from pages that were open while
they still might, or on pages that show what is no longer so.
"""

import pytest

from callgate.console.cards import key_of, seen_of
from support.agent_sessions import HANDLE
from support.console import whole_console
from support.reviewing import FILES_ID
from support.table import rows

ROLE = {"role": "operator", "before": "approver"}


@pytest.fixture
async def console(tmp_path):
    async with whole_console(tmp_path) as running:
        await running.sign_in("anna")
        await running.sign_in("bert", role="approver")
        await running.sign_in("vera", role="viewer")
        yield running


async def acts(console):
    """What only operators do: the signed ones, then those that take something away."""
    view = await console.pins.find(FILES_ID, "list_files")
    tool = {"server": key_of(FILES_ID), "tool": key_of("list_files"), "hash": view.approval_hash}
    (one,) = (await console.pins.review()).sets
    signed = {
        "/switch/off": {"since": 0},
        "/tools/approve": {"decisions": [tool | {"action": "approve", "seen": seen_of(view)}]},
        "/tools/reviewed-together": {"group": key_of(one.group), "version": one.version},
        f"/quarantine/{HANDLE}/release": {},
        "/people/invite": {"name": "eve", "role": "operator"},
        "/people/bert/role": ROLE,
        "/people/vera/role": {"role": "operator", "before": "viewer"},
        "/people/anna/remove": {"passkeys": 1},
        "/people/anna/revoke": {"passkey": console.people["anna"].credential.id},
        "/people/anna/link": {},
    }
    plain = {
        "/tools/decide": {"decisions": [tool | {"action": "block", "note": "no"}]},
        f"/quarantine/{HANDLE}/drop": {},
    }
    return signed, plain


async def everything(console):
    """What the acts would change."""
    people = await console.approvals.shelf.users()
    states = {view.tool: view.state for server in (await console.pins.review()).servers for view in server.tools}
    held = await console.trust.shelf.held(HANDLE)
    passkeys = [one.id for one in await console.approvals.shelf.credentials()]
    return people, states, held.state, passkeys


@rows("name", ["bert", "vera"])
async def test_by_address(console, name):
    person, before = console.people[name], await everything(console)
    signed, plain = await acts(console)
    for path, body in signed.items():
        for where, sent in ((f"{path}/options", body), (path, {"body": body, "challengeId": "x", "response": {}})):
            answer = await console.post(where, sent, person)
            assert (answer.status, answer.reason) in ((403, "role_needed"), (403, "not_a_reviewer")), where
    for path, body in plain.items():
        answer = await console.post(path, body, person)
        assert (answer.status, answer.reason) == (403, "not_a_reviewer"), path
    assert await everything(console) == before


async def test_pages_offer_only_what_the_role_allows(console):
    view = f"/tools/{key_of(FILES_ID)}/{key_of('list_files')}"
    buttons = {
        "/tools": 'type="radio"',
        view: "data-act=",
        f"/quarantine/{HANDLE}": "data-settle=",
        "/people": 'id="invite-open"',
        "/settings": 'id="turn"',
    }
    for path, button in buttons.items():
        for name in ("anna", "bert", "vera"):
            answer = await console.get(path, console.people[name])
            offered = name == "anna" or (path, name) == ("/settings", "bert")
            assert (answer.status, button in answer.text) == (200, offered), (path, name)
    for name in ("bert", "vera"):
        assert (await console.get("/people/anna", console.people[name])).status == 403
        page = (await console.get("/people", console.people[name])).text
        assert "Recovery codes" not in page


async def test_who_looks_stops_nothing_and_who_approves_does_not_go_on(console):
    answer = await console.post("/switch/on", {}, console.people["vera"])
    assert (answer.status, answer.reason) == (403, "role_needed")
    assert not console.gateway.switch.engaged
    bert = console.people["bert"]
    assert (await console.post("/switch/on", {"note": "odd calls"}, bert)).json == {"on": True}
    page = (await console.get("/settings", bert)).text
    assert "odd calls" in page
    assert 'id="turn"' not in page
    answer = await console.post("/switch/off/options", {"since": 0}, bert)
    assert (answer.status, answer.reason) == (403, "role_needed")
    assert console.gateway.switch.engaged


async def test_demoted_between_the_signature_and_the_sending(console):
    olga = await console.sign_in("olga")
    signed, _ = await acts(console)
    ready = {
        path: await console.challenge(path, body, olga)
        for path, body in signed.items()
        if path not in ("/switch/off", "/people/anna/link")
    }
    before = await everything(console)
    answer = await console.act("/people/olga/role", {"role": "approver", "before": "operator"}, console.people["anna"])
    assert answer.status == 200
    for path, body in ready.items():
        answer = await console.post(path, body, olga)
        assert (answer.status, answer.reason) in ((403, "role_needed"), (403, "not_a_reviewer")), path
    assert [one for one in (await everything(console))[0] if one.name != "olga"] == [
        one for one in before[0] if one.name != "olga"
    ]
    assert (await everything(console))[1:] == before[1:]


async def test_named_as_a_reviewer_and_there_to_look_only(tmp_path):
    async with whole_console(tmp_path, reviewers=("vera",)) as console:
        vera = await console.sign_in("vera", role="viewer")
        await console.sign_in("anna")
        signed, plain = await acts(console)
        for path in ("/tools/approve", f"/quarantine/{HANDLE}/release"):
            assert (await console.post(f"{path}/options", signed[path], vera)).reason == "not_a_reviewer"
        for path, body in plain.items():
            assert (await console.post(path, body, vera)).reason == "not_a_reviewer"


async def test_a_page_that_shows_what_is_no_longer_so(console):
    anna = console.people["anna"]
    # Somebody else has made bert an operator meanwhile, or taken a passkey from him.
    signed = await console.challenge("/people/bert/role", {"role": "viewer", "before": "approver"}, anna)
    away = await console.challenge("/people/bert/remove", {"passkeys": 1}, anna)
    key = {"passkey": console.people["bert"].credential.id}
    gone = await console.challenge("/people/bert/revoke", key, anna)
    await console.approvals.set_role("bert", "operator", by="olga")
    await console.approvals.revoke(key["passkey"], by="olga")
    for path, body in (("role", signed), ("remove", away), ("revoke", gone)):
        answer = await console.post(f"/people/bert/{path}", body, anna)
        assert (answer.status, answer.reason) == (409, "page_outdated"), path
    assert (await console.approvals.user("bert")).role == "operator"
    # The switch was turned off and on again for another reason since the page was drawn.
    await console.post("/switch/on", {"note": "one"}, anna)
    page = (await console.get("/settings", anna)).text
    since = int(page.split('data-since="')[1].split('"')[0])
    console.clock.ahead += 5
    await console.post("/switch/on", {"note": "two"}, anna)
    answer = await console.act("/switch/off", {"since": since}, anna)
    assert (answer.status, answer.reason) == (409, "page_outdated")
    assert console.gateway.switch.engaged


async def test_nobody_is_left_who_may_change_anything(console):
    anna = console.people["anna"]
    answer = await console.act("/people/anna/role", {"role": "approver", "before": "operator"}, anna)
    assert (answer.status, answer.reason) == (409, "last_operator")
    assert (await console.act("/people/anna/remove", {"passkeys": 1}, anna)).status == 400
    assert (await console.approvals.user("anna")).role == "operator"


async def test_a_link_for_somebody_who_has_a_passkey(console):
    """An operator would approve in their name."""
    answer = await console.act("/people/bert/link", {}, console.people["anna"])
    assert (answer.status, answer.reason) == (400, "invalid_params")
