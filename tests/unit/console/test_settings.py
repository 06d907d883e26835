"""The kill switch on the page, and what is shown of how the gateway runs."""

import html
import re

import pytest

from callgate.audit import reading
from callgate.audit.log import key_rows
from support.console import furnished, live_console

SECRET = "whsec_" + "c2VjcmV0" * 6
TEXT = f"""
[notify]
webhook = "https://user:hunter2@hooks.example/x"
secret = "{SECRET}"
[audit]
retention_days = 30
[servers.files]
url = "https://files.example/mcp"
headers = {{ Authorization = "Bearer topsecret" }}
"""


@pytest.fixture
async def console(tmp_path):
    async with furnished(tmp_path, TEXT) as rooms, live_console(gateway=rooms) as running:
        yield running


def words(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page))


async def settings(console, person):
    answer = await console.get("/settings", person)
    assert answer.status == 200
    return answer.text


def records(console):
    with console.gateway.store.audit_reading() as tables:
        return [body.decode() for _, body in tables.bodies(reading.Filter())]


async def test_on_at_once_and_off_with_a_signature_both_on_record(console):
    anna = await console.sign_in()
    assert "Refuse every call now" in await settings(console, anna)
    assert (await console.post("/switch/on", {"note": " odd calls "}, anna)).json == {"on": True}
    assert console.gateway.switch.engaged
    page = await settings(console, anna)
    assert "anna stopped every call" in words(page)
    assert "odd calls" in page
    # The other pages say so too.
    assert 'id="stopped"' in (await console.get("/approvals", anna)).text
    since = int(page.split('data-since="')[1].split('"')[0])
    assert (await console.act("/switch/off", {"since": since, "note": "all well"}, anna)).json == {"on": False}
    assert not console.gateway.switch.engaged
    assert 'id="stopped"' not in (await console.get("/approvals", anna)).text
    on, off = [one for one in records(console) if "block_all" in one]
    assert '"block_all.on"' in on
    assert "odd calls" in on
    assert '"block_all.off"' in off
    assert '"anna"' in off


async def test_off_while_it_is_off_is_refused(console):
    anna = await console.sign_in()
    for body in ({"since": 0}, {"since": 1}):
        assert (await console.act("/switch/off", body, anna)).reason == "page_outdated"
    for body in ({}, {"since": -1}, {"since": "now"}, {"since": 0, "note": "x" * 501}):
        assert (await console.post("/switch/off/options", body, anna)).reason == "invalid_params"


async def test_what_the_environment_holds_is_said_to_be_out_of_reach(tmp_path):
    async with (
        furnished(tmp_path, environ={"CALLGATE_BLOCK_ALL": "1"}) as rooms,
        live_console(gateway=rooms) as console,
    ):
        anna = await console.sign_in()
        page = words(await settings(console, anna))
        assert "CALLGATE_BLOCK_ALL is set; only whoever runs the gateway can change that." in page
        await console.post("/switch/on", {}, anna)
        assert "keeps refusing even when the switch is turned off here" in words(await settings(console, anna))


async def test_the_configuration_is_shown_without_its_secrets(console):
    page = await settings(console, await console.sign_in(role="viewer"))
    text = words(page)
    for shown in (
        "files.example/mcp",
        "retention_days",
        "30 days; their hashes stay",
        "SQLite",
        "checkpoint",
        "hooks.example",
    ):
        assert shown in text, shown
    for hidden in ("hunter2", "topsecret", SECRET, SECRET.removeprefix("whsec_")):
        assert hidden not in page
    for name in ("checkpoint", "seal"):
        key = console.gateway.log.keyring.current(name)
        assert key.secret.hex() not in page
    assert key_rows(console.gateway.log.keyring)[0]["fingerprint"] in page


async def test_keys_that_cannot_be_read_do_not_keep_anybody_from_the_switch(console, tmp_path):
    anna = await console.sign_in()
    (tmp_path / "keys" / "seal.9.key").write_text("no key")
    assert "Refuse every call now" in await settings(console, anna)


async def test_without_a_gateway_there_is_no_such_page():
    async with live_console() as running:
        anna = await running.sign_in()
        assert (await running.get("/settings", anna)).status == 404
        page = (await running.get("/approvals", anna)).text
        assert "/settings" not in page
        assert "/audit" not in page
