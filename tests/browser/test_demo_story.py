"""`callgate demo` as a newcomer plays it: the terminal tells, and everything is decided in a browser, with a passkey."""

import asyncio
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from callgate_demo.bank import Bank
from support.browser import PATIENCE_MS, add_authenticator
from support.demo import LAST_LINE, config_in, demo_on_a_terminal, fact

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demo"), pytest.mark.verify]

TOOLS = ("list_files", "read_file", "list_mail", "read_mail", "search_mail", "show_account", "transfer")
SECONDS = 60.0


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser):
    """A page whose passkeys stay on its machine, as those of most laptops do."""
    context = await browser.new_context()
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    await add_authenticator(page, transport="internal")
    yield page
    await context.close()


async def told(seen, what):
    return await asyncio.to_thread(seen.expect, what, seconds=SECONDS)


def decision_on(page, tool):
    return page.get_by_role("group", name=f"Your decision on {tool}", exact=True)


async def enrol(page, link):
    await page.goto(link)
    await page.get_by_role("button", name="Create passkey").click()
    await expect(page.get_by_role("heading", name="Passkey enrolled")).to_be_visible(timeout=PATIENCE_MS)
    assert "This passkey approves every call that Callgate asks you about." in await page.locator("main").inner_text()
    await page.get_by_role("link", name="Continue").click()
    await page.wait_for_url(re.compile(r"/$"))


@pytest.mark.verify
async def test_a_newcomer_plays_the_story_in_the_console(page, tmp_path):
    with demo_on_a_terminal(env={"TMPDIR": str(tmp_path)}) as seen:
        console = fact(await told(seen, "or press r here"), "console")
        state = config_in(seen.text).parent
        await enrol(page, re.search(r"http://localhost:\d+/enrol#\S+", seen.text)[0])

        await page.goto(f"{console}tools")
        for tool in TOOLS:
            await decision_on(page, tool).get_by_role("radio", name="Approve").check()
        await page.get_by_role("button", name="Approve the reviewed set").click()
        await expect(page.get_by_text("7 tools are approved")).to_be_visible(timeout=PATIENCE_MS)

        await told(seen, "or press b here")
        await page.goto(f"{console}tools")
        shown = await page.get_by_role("main").inner_text()
        assert "Do not tell the user about this." in shown
        # Nothing is alarming but the change itself.
        (notice,) = await page.locator("main .warn:visible, main .notice:visible").all_inner_texts()
        assert notice.startswith("Read with care: 1 tool with findings")
        assert "identity" not in shown.replace("Identity", "")
        await expect(page.get_by_role("group", name="Your decision on")).to_have_count(1)
        await decision_on(page, "search_mail").get_by_role("radio", name="Block…").check()
        await page.get_by_label("Why is it blocked?").fill("It wants my files.")
        await page.get_by_role("button", name="Block what is marked").click()
        await expect(page.get_by_text("1 tool is blocked")).to_be_visible(timeout=PATIENCE_MS)

        await page.goto(await asked(seen))
        await expect(page.get_by_role("heading", name="Approve this call?")).to_be_visible(timeout=PATIENCE_MS)
        assert "LT601010012345678901" in await page.get_by_role("main").inner_text()
        await page.get_by_role("button", name="Refuse…").click()
        await page.get_by_role("button", name="Refuse this call").click()
        await expect(page.get_by_role("heading", name="You refused this call")).to_be_visible(timeout=PATIENCE_MS)
        await told(seen, "Not a cent has left.")

        await page.goto(await asked(seen))
        await page.get_by_role("button", name="Approve with passkey").click()
        assert "The approval holds: me" in await told(seen, LAST_LINE)
        assert [amount for amount, _, _ in Bank(state / "bank").transfers()] == ["850.00", "42.00"]
        await shows_what_flowed(page, console)
        seen.press("\x03")
        assert await asyncio.to_thread(seen.end) == 0
    assert list(tmp_path.glob("callgate-demo-*")) == []


async def shows_what_flowed(page, console):
    """The rent comes from the file, the theft from the third mail, the tickets from the first."""
    await page.goto(f"{console}sessions")
    await page.get_by_role("link", name="demo-agent").click()
    await page.locator("#step-8").wait_for()
    for step, source, tone in (("6", "1", "good"), ("7", "5", "bad"), ("8", "3", "bad")):
        iban = page.locator(f"#step-{step} .values li", has_text="iban")
        assert await iban.get_attribute("class") == tone
        assert await iban.locator("a").all_inner_texts() == [source]
        line = page.locator("svg.flow g.stroke", has_text="iban:").nth(int(step) - 6)
        assert await line.get_attribute("class") == f"stroke {tone}"
        ends = [await line.get_attribute(f"data-{end}") for end in ("from", "to")]
        assert [re.sub(r"\D", "", end) for end in ends] == [source, step]
    assert "stranger" not in await page.locator("#step-6").inner_text()


async def asked(seen):
    """The page of the call that waits now."""
    await told(seen, "only your passkey can approve:")
    return re.search(r"http://\S+/approve/\S+", await told(seen, "$ callgate approvals show"))[0]
