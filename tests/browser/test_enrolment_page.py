"""From a link to a passkey, and back from a lost one."""

import re

import pytest

from support.browser import add_authenticator
from support.registry import requirement
from support.table import rows

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def enrol(stage, ticket, name=None):
    """Follow the link up to the new passkey."""
    await stage.open(f"/enrol#{ticket}")
    await stage.page.locator("#create").wait_for()
    if name:
        await stage.page.fill("#name", name)
    await stage.page.click("#create button")


async def read_codes(stage):
    await stage.page.locator("#codes li").first.wait_for()
    return await stage.page.locator("#codes li").all_inner_texts()


async def test_link_to_passkey_to_codes_to_the_first_page(stage, tmp_path):
    asked = []
    stage.page.on("request", lambda request: asked.append((request.url, request.headers.get("referer"))))
    ticket = await stage.console.approvals.ticket("anna", by="operator")
    await stage.open(f"/enrol#{ticket}")
    page = stage.page
    await page.locator("#create").wait_for()
    assert page.url == f"{stage.console.origin}/enrol", "the ticket is out of the address bar"
    assert "anna" in await page.locator("#step-create").inner_text()
    assert await page.input_value("#name") != ""
    await page.fill("#name", "Blue key")
    await page.click("#create button")
    codes = await read_codes(stage)
    assert len(set(codes)) == 8
    async with page.expect_download() as downloading:
        await page.click("#download")
    await (await downloading.value).save_as(tmp_path / "codes")
    text = (tmp_path / "codes").read_text()
    assert all(code in text for code in codes)
    await page.click("#continue")
    await stage.shows(".places")
    await stage.open("/me")
    shown = await page.locator("main").inner_text()
    assert "Blue key" in shown
    assert "8 recovery codes left" in shown
    content = await page.content()
    assert not [code for code in codes if code in content]
    (passkey,) = await stage.console.approvals.shelf.credentials("anna")
    assert (passkey.name, passkey.transports) == ("Blue key", ("usb",))
    assert not [one for one in asked if ticket in str(one)], "no address and no referrer ever held the ticket"


async def test_codes_can_be_copied(stage):
    await stage.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=stage.console.origin)
    await enrol(stage, await stage.console.approvals.ticket("anna", by="operator"))
    codes = await read_codes(stage)
    await stage.page.click("#copy")
    await stage.page.locator("#copied", has_text="Copied").wait_for()
    copied = await stage.page.evaluate("navigator.clipboard.readText()")
    assert all(code in copied for code in codes)


async def test_a_cancelled_attempt_can_be_made_again(stage):
    await stage.key.verify_user(False)
    await enrol(stage, await stage.console.approvals.ticket("anna", by="operator"))
    assert "Nothing was enrolled" in await stage.problem()
    assert await stage.console.approvals.shelf.credentials("anna") == []
    await stage.key.verify_user(True)
    await stage.page.click("#create button")
    assert len(await read_codes(stage)) == 8


@rows("fragment", ["", "#", "#made-up"])
async def test_a_link_that_is_none(stage, fragment):
    await stage.open(f"/enrol{fragment}")
    assert "link" in await stage.problem()
    assert not await stage.page.is_visible("#create")


async def test_a_link_works_once(stage):
    ticket = await stage.console.approvals.ticket("anna", by="operator")
    await enrol(stage, ticket)
    await read_codes(stage)
    other = await stage.context.new_page()
    stage.watch(other)
    await other.goto(f"{stage.console.origin}/enrol#{ticket}")
    box = other.locator("#problem:not([hidden])")
    await box.wait_for()
    assert "used before" in await box.inner_text()
    assert await box.locator("code").inner_text() == "callgate enroll USER"


async def test_the_same_device_is_not_enrolled_twice(stage):
    await stage.person()
    await enrol(stage, await stage.console.approvals.ticket("anna", by="operator"))
    assert "already has a passkey" in await stage.problem()


async def test_a_recovery_code_leads_to_a_new_passkey(stage):
    await enrol(stage, await stage.console.approvals.ticket("anna", by="operator"))
    codes = await read_codes(stage)
    await stage.key.cdp.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": stage.key.id})
    await add_authenticator(stage.page)
    stage.page.on("dialog", lambda dialog: dialog.accept())
    await stage.context.clear_cookies()
    await stage.open("/sign-in")
    await stage.page.click("text=Use a recovery code")
    await stage.shows("#recover")
    await stage.page.fill("#user", "anna")
    await stage.page.fill("#code", codes[3].lower().replace("-", " "))
    await stage.page.click("#recover button")
    await stage.page.locator("#create").wait_for()
    await stage.page.fill("#name", "New key")
    await stage.page.click("#create button")
    await stage.page.locator("#step-done").wait_for()
    await stage.page.click("#step-done a")
    await stage.shows(".places")
    await stage.open("/me")
    assert "7 recovery codes left" in await stage.page.locator("main").inner_text()
    assert [one.name for one in await stage.console.approvals.shelf.credentials("anna")][1] == "New key"


@requirement("VA-028")
async def test_a_passkey_vouches_for_a_further_device(stage):
    await stage.signed_in()
    await stage.open("/me")
    await stage.page.click("#add-device")
    await stage.page.locator("#ticket").wait_for()
    link = await stage.page.locator("#ticket-link").inner_text()
    assert re.fullmatch(rf"{stage.console.origin}/enrol#[\w-]+", link)
    await add_authenticator(stage.page, transport="internal")
    await stage.key.cdp.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": stage.key.id})
    await stage.page.click("#ticket-here")
    await stage.page.locator("#create").wait_for()
    await stage.page.fill("#name", "Laptop")
    await stage.page.click("#create button")
    await stage.page.locator("#step-done").wait_for()
    held = await stage.console.approvals.shelf.credentials("anna")
    assert [one.name for one in held] == ["Test key", "Laptop"]


async def test_a_link_that_went_to_somebody_else_is_cancelled_with_a_passkey(stage):
    await stage.signed_in()
    await stage.open("/me")
    assert await stage.page.locator("[data-cancel-link]").count() == 0
    await stage.page.click("#add-device")
    await stage.page.locator("#ticket").wait_for()
    await stage.open("/me")
    assert "a further device" in await stage.page.locator("section[aria-labelledby=links]").inner_text()
    await stage.page.click("[data-cancel-link]")
    await stage.page.locator("section[aria-labelledby=links]").wait_for(state="detached")
    assert await stage.console.approvals.shelf.tickets(stage.console.approvals.now()) == []


async def test_without_the_gesture_there_is_no_ticket(stage):
    await stage.signed_in()
    await stage.open("/me")
    await stage.key.verify_user(False)
    await stage.page.click("#add-device")
    assert "Nothing was signed" in await stage.problem()
    assert not await stage.page.is_visible("#ticket")
