"""Every place of the navigation, whoever made it: nothing serious for axe-core, no sideways scrolling, readable without
scripts, in both schemes, on a desk and on a phone.
"""

import re
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

import callgate.console
from callgate.console.cards import key_of
from support.agent_sessions import HANDLE, KEY
from support.browser import PATIENCE_MS
from support.console import whole_console
from support.node import install, present
from support.reviewing import FILES_ID
from support.table import rows

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = "4.14.0"
VIOLATIONS = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .map(({ id, impact, nodes }) => ({ id, impact, where: nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)) }))"""


@cache
def axe():
    """The library's own text, installed once like the other tools of npm."""
    prefix = install(f"axe-{AXE}", [f"axe-core@{AXE}"])
    return present(prefix, Path("axe-core") / "axe.min.js").read_text(encoding="utf-8")


async def serious(page):
    """What is serious or critical; the page's context has to be one that bypasses the content security policy."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(axe())
    found = await page.evaluate(VIOLATIONS)
    return [one for one in found if one["impact"] in ("serious", "critical")]


BASE = Path(callgate.console.__file__).parent / "templates" / "base.html"
PLACES = re.findall(r'\("\w+", "(/[a-z]*)", "', BASE.read_text(encoding="utf-8"))
DETAILS = [
    "/me",
    "/people/bert",
    "/approve/{asked}",
    f"/tools/{key_of(FILES_ID)}",
    f"/tools/{key_of(FILES_ID)}/{key_of('read_file')}",
    f"/sessions/{KEY}",
    f"/quarantine/{HANDLE}",
]
LOOKS = [pytest.param(("light", 1280), id="desk"), pytest.param(("dark", 360), id="phone", marks=pytest.mark.verify)]
TEXT = """
[servers.files]
url = "https://files.example/mcp"
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory):
    async with whole_console(tmp_path_factory.mktemp("places"), TEXT) as running:
        await running.sign_in("anna")
        await running.sign_in("bert", role="approver")
        await running.sign_in("vera", role="viewer")
        await running.approvals.invite("carl@example.com", "Carl Christiansen", by="anna", role="approver")
        await running.ask()
        yield running


async def opened(browser, console, name="anna", **options):
    context = await browser.new_context(**options)
    secret = console.people[name].cookie[console.cookie]
    await context.add_cookies([{"name": console.cookie, "value": secret, "url": console.origin}])
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    return page


async def path_of(console, path):
    (asked,) = await console.approvals.shelf.requests("anna", states=("waiting",), limit=1)
    return path.replace("{asked}", asked.id)


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=LOOKS)
async def seen(request, browser, console):
    """A page of each look, shared by the places."""
    scheme, width = request.param
    page = await opened(
        browser, console, bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    yield page, width
    await page.context.close()


@rows("path", [*PLACES, *DETAILS])
async def test_nothing_serious_and_nothing_sideways(console, seen, path):
    page, width = seen
    answer = await page.goto(f"{console.origin}{await path_of(console, path)}")
    assert answer.status == 200
    await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert await serious(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_page_that_is_bad_is_found(seen):
    """The check can fail."""
    page, _ = seen
    await page.set_content('<html lang="en"><title>x</title><main><img src="/x"><p style="color:#ccc">Pale</p></main>')
    assert {one["id"] for one in await serious(page)} >= {"image-alt", "color-contrast"}


async def test_dialogs_are_fit_too(console, seen):
    page, _ = seen
    for path, button in (("/people", "#invite-open"), ("/people/bert", "#remove"), ("/me", "[data-revoke]")):
        await page.goto(f"{console.origin}{path}")
        await page.click(button)
        await page.locator("dialog[open]").wait_for()
        assert await serious(page) == [], path


# What is there to be read, by place; the places of others have at least their heading.
READ = {
    "/approvals": "delete_resource",
    "/tools": "read_file",
    "/people": "carl@example.com",
    "/settings": "Kill switch",
    "/sessions": "Fieldwork",
    "/quarantine": "ignore what it was told",
    "/me": "Test key",
    "/people/bert": "Security key",
    "/approve/{asked}": "prod/customers-eu",
}


async def test_without_scripts_everything_can_be_read(browser, console):
    page = await opened(browser, console, java_script_enabled=False)
    for path in [*PLACES, *DETAILS]:
        answer = await page.goto(f"{console.origin}{await path_of(console, path)}")
        assert answer.status == 200, path
        assert await page.locator("main h1").inner_text(), path
        assert READ.get(path, "") in await page.locator("main").inner_text(), path
    # From place to place by links alone.
    await page.goto(f"{console.origin}/people")
    await page.click('a[href="/people/bert"]')
    await page.click('.places a[href="/approvals"]')
    await page.click(".call-title a")
    assert "Approve this call?" in await page.locator("h1").inner_text()
    await page.context.close()


async def test_by_keyboard_from_the_top_to_the_content_and_to_the_switch(browser, console):
    page = await opened(browser, console)
    await page.goto(f"{console.origin}/people")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to content"
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
    await page.locator(".switch").focus()
    await page.keyboard.press("Enter")
    await page.locator("#settings").wait_for()
    await page.context.close()
