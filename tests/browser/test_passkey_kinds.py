"""The passkeys that people have: a laptop's own and a security key, each told what it approves, and held to it."""

import asyncio
import contextlib
import json
import re
import shlex

import pytest
import pytest_asyncio
from mcp import Client
from mcp.shared.exceptions import MCPError

from support.browser import PATIENCE_MS, add_authenticator
from support.clients import PATIENCE
from support.gateway import HARMLESS, command, serving
from support.persons import vault_at

pytestmark = pytest.mark.asyncio(loop_scope="session")

KIND = "a passkey that works from another device (a security key, a phone or a synced passkey)"
CHOOSE = "and choose a security key or a phone when the browser asks where to save it."
ONLY_PAY = f"except those of bank/pay, which demands {KIND}."


@pytest_asyncio.fixture(loop_scope="session")
async def page_with(browser):
    """A browser of its own with one authenticator in it."""
    async with contextlib.AsyncExitStack() as stack:

        async def made(transport):
            context = await browser.new_context()
            stack.push_async_callback(context.close)
            page = await context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            await add_authenticator(page, transport=transport)
            return page

        yield made


@pytest.fixture
def gateway(tmp_path):
    """The operator lists `wipe`; the server marks `pay` as the SEP does by default, and `pay_here` for any passkey."""
    bank = {"command": vault_at(tmp_path / "vault").argv, "approval": {"tools": ["wipe"]}, "trust": HARMLESS}
    with serving(tmp_path, {"bank": bank}) as running:
        yield running


def link_in(text, gateway):
    return re.sub(
        r"http://localhost:\S+/enrol", f"http://localhost:{gateway.port}/enrol", re.search(r"http://\S+", text)[0]
    )


async def enrol(page, link, name):
    """What the page says before and after."""
    await page.goto(link)
    await page.locator("#create").wait_for()
    before = await page.locator("#choice").inner_text()
    await page.fill("#name", name)
    await page.get_by_role("button", name="Create passkey").click()
    shown = page.locator("[data-reach]:visible")
    await shown.wait_for()
    after = await shown.inner_text()
    await page.locator("#continue:visible, #step-done a:visible").click()
    await page.wait_for_url(re.compile(r"/$"))
    return before, after


async def call(gateway, tool, **arguments):
    async with Client(gateway.url("bank"), mode="legacy", read_timeout_seconds=PATIENCE) as client:
        return await client.call_tool(tool, arguments)


async def refused(gateway, tool, **arguments):
    async with Client(gateway.url("bank"), mode="legacy", read_timeout_seconds=PATIENCE) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(tool, arguments)
    return caught.value.error


async def waiting(page, gateway, tool):
    """The page of the call that waits."""
    while not (asked := json.loads(gateway.command("approvals", "list", "--json"))):
        await asyncio.sleep(0.05)
    assert [one["tool"] for one in asked] == [tool]
    await page.goto(f"http://localhost:{gateway.port}/approve/{asked[0]['id']}")
    await page.locator("#approve").wait_for()


async def approved(page, gateway, tool, **arguments):
    """The call goes through once its person has signed it in this browser."""
    going = asyncio.create_task(call(gateway, tool, **arguments))
    await waiting(page, gateway, tool)
    kind = page.locator("#kind")
    said = await kind.inner_text() if await kind.count() else ""
    await page.click("#approve")
    result = await going
    assert json.loads(result.content[0].text)["ran"] == tool
    return said


async def test_each_kind_approves_what_it_can_and_the_other_is_told_what_is_missing(gateway, page_with):
    # A laptop's own passkey.
    said = gateway.command("enroll", "ann")
    assert f"Any passkey, also that of the device, approves the calls that Callgate asks ann about, {ONLY_PAY}" in said
    laptop = await page_with("internal")
    before, after = await enrol(laptop, link_in(said, gateway), "Laptop")
    assert before.endswith(ONLY_PAY)
    assert after == f"This passkey approves every call that Callgate asks you about, {ONLY_PAY}"
    assert await approved(laptop, gateway, "wipe", id="1") == ""
    assert await approved(laptop, gateway, "pay_here", id="2") == ""

    # It does not approve what demands another kind: the client, the log and `callgate doctor` say what to do.
    error = await refused(gateway, "pay", id="3")
    assert error.data["reason"] == "approval_unavailable"
    assert f"the passkeys of ann are not of the kind that this tool demands: {KIND}" in error.message
    assert f"Add one with `callgate enroll ann`, {CHOOSE} Then send the call again." in error.data["advice"]
    told = gateway.wait_for("nobody can approve a call")
    typed = re.search(r"`(.+?)`", told["advice"])[1]
    assert (told["user"], told["server"], told["tool"]) == ("ann", "bank", "pay")
    assert shlex.split(typed) == ["callgate", "enroll", "ann", "-c", str(gateway.config)]
    doctor = json.loads(gateway.command("doctor", "--json", "--no-start", status=None))
    (lacks,) = [one for one in doctor["findings"] if "of the kind that some tools demand" in one["text"]]
    assert lacks["level"] == "warning"
    assert f"1 tool demands {KIND}: bank/pay." in lacks["text"]
    assert [shlex.split(one) for one in lacks["commands"]] == [shlex.split(typed)]
    await laptop.goto(f"http://localhost:{gateway.port}/me")
    assert "bank/pay" in await laptop.locator("#lacks").inner_text()
    assert "Approves all but 1 tool" in await laptop.locator("main").inner_text()

    # The command that was told, typed: a security key is added.
    link = link_in(command(gateway.config, *shlex.split(typed)[1:-2]), gateway)
    key = await page_with("usb")
    _, after = await enrol(key, link, "Blue key")
    assert after == (
        "This passkey approves every call that Callgate asks you about, also where a tool does not take every kind: "
        "bank/pay."
    )
    said = await approved(key, gateway, "pay", id="4")
    assert said == f"This tool demands {KIND}. Sign with Blue key."
    assert await approved(key, gateway, "wipe", id="5") == ""
    listed = gateway.command("credentials", "list", "ann", "--json")
    assert {one["name"]: one["approves"] for one in json.loads(listed)} == {
        "Laptop": "all but 1 tool",
        "Blue key": "all",
    }

    # The key is revoked while a call waits: the page says what is missing.
    going = asyncio.create_task(call(gateway, "pay", id="6"))
    await waiting(laptop, gateway, "pay")
    blue = next(one["id"] for one in json.loads(listed) if one["name"] == "Blue key")
    gateway.command("credentials", "revoke", blue, "--yes")
    await laptop.click("#approve")
    box = laptop.locator("#problem:not([hidden])")
    await box.wait_for()
    text = await box.inner_text()
    assert f"None of your passkeys is of the kind that this tool demands: {KIND}." in text
    assert f"Add one with “Add another device” on the page of your passkeys, {CHOOSE}" in text
    await laptop.reload()
    assert "You have none." in await laptop.locator("#kind").inner_text()
    going.cancel()
