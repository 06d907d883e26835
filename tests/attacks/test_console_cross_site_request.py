"""Another site, or a program beside the browser, sends requests in the name of somebody who is signed in."""

import asyncio
import contextlib
import re

import pytest
from aiohttp import web

from callgate.console.app import console_app
from callgate.console.cards import key_of, seen_of
from support.agent_sessions import HANDLE
from support.browser import PATIENCE_MS, chromium
from support.console import whole_console
from support.reviewing import FILES_ID
from support.table import rows


@pytest.fixture
async def console(tmp_path):
    async with whole_console(tmp_path, shelf=None) as running:
        yield running


async def bodies(console, person, asked):
    """Everything that changes something for a person who is signed in, as an honest page would send it."""
    passkey = person.credential.id
    return {
        f"/approve/{asked.id}/options": {},
        f"/approve/{asked.id}/approve": await console.signed(asked, person),
        f"/approve/{asked.id}/refuse": {"note": "no"},
        f"/passkeys/{passkey}/rename": {"name": "other"},
        f"/passkeys/{passkey}/revoke/options": {},
        f"/passkeys/{passkey}/revoke": await console.signed_for(f"/passkeys/{passkey}/revoke/options", person),
        "/device/options": {},
        "/switch/on": {},
        "/switch/off/options": {"since": 0},
        "/switch/off": {"body": {"since": 0}, "challengeId": "x", "response": {}},
        **await acts(console, person),
        "/sign-out": {},
    }


async def acts(console, person):
    """What an operator signs, signed already: only the way it is sent is wrong."""
    if await console.approvals.shelf.user("bert") is None:
        await console.sign_in("bert", role="approver")
    view = await console.pins.find(FILES_ID, "list_files")
    tool = {"server": key_of(FILES_ID), "tool": key_of("list_files"), "hash": view.approval_hash}
    plain = {
        "/tools/decide": {"decisions": [tool | {"action": "block", "note": "no"}]},
        f"/quarantine/{HANDLE}/drop": {},
    }
    signed = {
        "/tools/approve": {"decisions": [tool | {"action": "approve", "seen": seen_of(view)}]},
        f"/quarantine/{HANDLE}/release": {},
        "/people/invite": {"name": "eve", "role": "operator"},
        "/people/bert/role": {"role": "operator", "before": "approver"},
        "/people/bert/revoke": {"passkey": console.people["bert"].credential.id},
        "/people/bert/remove": {"passkeys": 1},
    }
    for path, body in signed.items():
        plain[f"{path}/options"] = body
        plain[path] = await console.challenge(path, body, person)
    return plain


async def assert_untouched(console, person, asked):
    assert (await console.stored(asked)).state == "waiting"
    passkey = await console.approvals.shelf.credential(person.credential.id)
    assert (passkey.name, passkey.revoked_at) == ("Test key", None)
    assert (await console.get("/waiting", person)).json["waiting"] == 1
    assert not console.gateway.switch.engaged
    assert (await console.pins.find(FILES_ID, "list_files")).state == "new"
    assert (await console.trust.shelf.held(HANDLE)).state == "held"
    assert await console.approvals.shelf.user("eve") is None
    bert = await console.approvals.shelf.user("bert")
    assert bert is None or bert.role == "approver"


FORGED = {
    "no origin": {"origin": None},
    "origin null": {"origin": "null"},
    "another site": {"origin": "https://evil.example"},
    "another port": {"origin": "http://localhost:1"},
    "another scheme": {"origin": "https://localhost"},
    "an address instead of the name": {"origin": "http://127.0.0.1"},
    "browser says cross-site": {"sec-fetch-site": "cross-site"},
    "browser says same-site": {"sec-fetch-site": "same-site"},
    "browser says typed in": {"sec-fetch-site": "none"},
    "no token": {"x-callgate-csrf": None},
    "an empty token": {"x-callgate-csrf": ""},
    "a made-up token": {"x-callgate-csrf": "A" * 24},
    "a token that is not ASCII": {"x-callgate-csrf": "\u00e9" * 24},
}


async def test_a_forged_request_changes_nothing(console):
    person = await console.sign_in()
    asked = await console.ask()
    sent = await bodies(console, person, asked)
    for how, headers in FORGED.items():
        for path, body in sent.items():
            answer = await console.post(path, body, person, headers=headers)
            assert (answer.status, answer.reason) == (403, "forged_request"), (how, path)
    await assert_untouched(console, person, asked)
    # Nothing else was wrong with them.
    path = f"/approve/{asked.id}/approve"
    assert (await console.post(path, sent[path], person)).status == 200


async def test_no_way_in_is_left_out(console):
    """Every address that takes something, those that are added later too."""
    person = await console.sign_in()
    made = console_app(
        console.approvals,
        origin=console.origin,
        secure=False,
        pins=console.pins,
        trust=console.trust,
        gateway=console.gateway,
    )
    paths = [re.sub(r"{\w+}", "x", route.path) for route in made._routes if "POST" in (route.methods or ())]
    assert {"/people/x/link", "/tools/reviewed-together", "/policy/save", "/agents/key"} <= set(paths)
    for path in paths:
        answer = await console.post(path, {}, person, headers={"origin": "https://evil.example"})
        assert (answer.status, answer.reason) == (403, "forged_request"), path


async def test_the_token_of_another_session_is_worth_nothing(console):
    person = await console.sign_in()
    other = await console.sign_in("berta")
    asked = await console.ask()
    for path, body in (await bodies(console, person, asked)).items():
        answer = await console.post(path, body, person, headers={"x-callgate-csrf": other.csrf})
        assert (answer.status, answer.reason) == (403, "forged_request"), path
    await assert_untouched(console, person, asked)


@rows("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"])
async def test_what_a_form_of_another_site_can_send_is_not_read(console, kind):
    person = await console.sign_in()
    asked = await console.ask()
    answer = await console.post(f"/approve/{asked.id}/refuse", b"{}", person, headers={"content-type": kind})
    assert (answer.status, answer.reason) == (415, "unsupported_media_type")
    await assert_untouched(console, person, asked)


@rows("path", ["/sign-in", "/sign-in/options", "/enrol/look", "/enrol/begin", "/enrol/finish", "/recover"])
@rows("headers", [{"origin": None}, {"origin": "https://evil.example"}, {"sec-fetch-site": "same-site"}])
async def test_nobody_is_signed_in_or_enrolled_from_another_site(console, path, headers):
    ticket = await console.approvals.ticket("anna", by="operator")
    answer = await console.post(path, {"ticket": ticket}, headers=headers)
    assert (answer.status, answer.reason) == (403, "forged_request")
    assert await console.approvals.look_at_ticket(ticket) is not None


@rows("name", ["origin", "x-callgate-csrf", "sec-fetch-site"])
async def test_two_of_a_header_are_not_one(console, name):
    person = await console.sign_in()
    asked = await console.ask()
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    fields = {"origin": console.origin, "x-callgate-csrf": person.csrf, "sec-fetch-site": "same-origin"}
    lines = [f"POST /approve/{asked.id}/refuse HTTP/1.1", f"host: localhost:{console.port}", "connection: close"]
    lines += ["content-type: application/json", "content-length: 2"]
    lines += [f"cookie: {key}={value}" for key, value in person.cookie.items()]
    lines += [f"{key}: {value}" for key, value in fields.items()] + [f"{name}: {fields[name]}", "", "{}"]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(10):
        got = await reader.read()
    writer.close()
    assert b" 400 " in got.split(b"\r\n")[0]
    assert b"invalid_request" in got
    await assert_untouched(console, person, asked)


PAGE = """<!doctype html><title>evil</title>
<form id=f method=post enctype="text/plain" target=hidden><input name='{"note":"' value='"}'></form>
<iframe name=hidden></iframe>"""


@contextlib.asynccontextmanager
async def another_site():
    """A page on another port of the same host: the same site for cookies, another origin for everything else."""

    async def page(_request):
        return web.Response(text=PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://localhost:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


ATTEMPTS = """async (address) => {
  const said = [];
  for (const options of [
    { mode: "no-cors", headers: { "content-type": "text/plain" } },
    { mode: "cors", headers: { "content-type": "text/plain" } },
    { mode: "cors", headers: { "content-type": "application/json" } },
    { mode: "cors", headers: { "content-type": "application/json", "x-callgate-csrf": "x" } },
  ]) {
    try {
      const got = await fetch(address, { method: "POST", body: '{"note":"no"}', credentials: "include", ...options });
      said.push(got.type);
    } catch { said.push("blocked"); }
  }
  return said;
}"""


async def test_a_page_of_another_origin_in_a_real_browser(console):
    person = await console.sign_in()
    asked = await console.ask()
    address = f"{console.origin}/approve/{asked.id}/refuse"
    async with another_site() as evil, chromium() as browser:
        context = await browser.new_context()
        await context.add_cookies(
            [{"name": console.cookie, "value": person.cookie[console.cookie], "url": console.origin}]
        )
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(evil)
        assert await page.evaluate(ATTEMPTS, address) == ["blocked"] * 4
        assert (
            await page.evaluate(f"fetch('{console.origin}/', {{credentials: 'include'}}).catch(() => 'blocked')")
            == "blocked"
        )
        async with page.expect_response(address) as sent:
            await page.evaluate("(address) => { f.action = address; f.submit(); }", address)
        answer = await sent.value
        assert answer.status == 403
        assert console.cookie in (await answer.request.all_headers())["cookie"], "the browser did send who it is"
    await assert_untouched(console, person, asked)
