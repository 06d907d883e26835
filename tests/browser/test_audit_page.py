"""Overview, audit and servers in a real browser: a search, a proof worked out in the page, at both widths and schemes."""

import json

import pytest
import pytest_asyncio

from support.audited import audited_console, now_of, story, write
from support.auditing import decision
from support.browser import PATIENCE_MS
from support.table import rows

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOOKS = [("dark", 1280), ("light", 360), ("dark", 360)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(tmp_path_factory):
    async with audited_console(tmp_path_factory.mktemp("audit-browser")) as (console, rooms):
        write(rooms.log, story(now_of(console)))
        rooms.log.catch_up()
        await console.sign_in("anna")
        yield console


@pytest_asyncio.fixture(loop_scope="session")
async def look(browser, place):
    """A page for somebody who is signed in; nothing may break the content security policy on it."""
    contexts, troubles = [], []

    async def opened(scheme="light", width=1280, **options):
        size = {"width": width, "height": 900}
        context = await browser.new_context(viewport=size, color_scheme=scheme, **options)
        contexts.append(context)
        secret = place.people["anna"].cookie[place.cookie]
        await context.add_cookies([{"name": place.cookie, "value": secret, "url": place.origin}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: "Content Security Policy" in said.text and troubles.append(said.text))
        return page

    yield opened
    for context in contexts:
        await context.close()
    assert troubles == []


async def fits(page):
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_from_the_overview_to_a_proof(place, look):
    await from_the_overview_to_a_proof(place, await look())


async def from_the_overview_to_a_proof(place, page):
    await page.goto(f"{place.origin}/")
    await fits(page)
    # In the first moments the log is still being counted, and the page says so.
    await page.wait_for_function("document.querySelector('figure.good .spark rect:not(.base)') !== null")
    # In one go: the page may draw itself anew at any moment.
    heights = await page.evaluate(
        "[...document.querySelectorAll('figure.good .spark rect:not(.base)')].map((bar) => bar.getBoundingClientRect().height)"
    )
    assert heights
    assert min(heights) > 1
    await page.get_by_text("The same as numbers").click()
    await fits(page)
    await page.locator("#why").locator("xpath=..").get_by_role("link", name="rule_blocked").click()
    await page.wait_for_url("**/audit?reason=rule_blocked**")
    await fits(page)
    rows = page.get_by_role("link", name="send_mail on mail")
    assert await rows.count() == 2
    await rows.first.click()
    await page.locator("#audited").wait_for()
    await page.click("#check-here")
    await page.locator('#check-status[data-holds="yes"]').wait_for()
    steps = await page.locator("#check-steps").inner_text()
    assert "leads to the root of the checkpoint" in steps
    assert "The log's key has signed that checkpoint." in steps
    await fits(page)


async def test_a_receipt_that_was_tampered_with_does_not_hold_in_the_browser(place, look):
    call = decision(3).call

    def bent(change):
        async def answer(route):
            told = await route.fetch()
            receipt = json.loads(await told.text())
            change(receipt)
            await route.fulfill(response=told, body=json.dumps(receipt))

        return answer

    def another_path(receipt):
        receipt["decision"]["path"][0] = receipt["decision"]["path"][1]

    def another_signature(receipt):
        text, signature = receipt["checkpoint"].split("\n\n")
        receipt["checkpoint"] = f"{text.replace('time 1', 'time 2')}\n\n{signature}"

    def a_shorter_path(receipt):
        receipt["outcome"]["path"].pop()

    def another_call(receipt):
        receipt["call"] = decision(4).call

    page = await look()
    for change in (another_path, another_signature, a_shorter_path, another_call):
        await page.route("**/receipt.json", bent(change))
        await page.goto(f"{place.origin}/audit/{call}")
        await page.click("#check-here")
        await page.locator('#check-status[data-holds="no"]').wait_for()
        assert "does not hold" in await page.locator("#problem").inner_text()
        await page.unroute("**/receipt.json")


async def test_a_search_works_without_scripts(place, look):
    page = await look(java_script_enabled=False)
    await page.goto(f"{place.origin}/audit")
    await page.fill("#q", "not_approved")
    await page.get_by_role("button", name="Search").click()
    await page.wait_for_url("**/audit?q=not_approved**")
    assert await page.locator("tbody tr").count() == 1
    await page.locator("tbody tr a").click()
    assert "Nobody has approved this tool yet." in await page.locator("#why-refused").inner_text()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download the receipt").click()
    assert (await download.value).suggested_filename == f"receipt-{decision(15).call}.json"


async def test_the_whole_log_and_the_servers(place, look):
    await the_whole_log_and_the_servers(place, await look())


async def the_whole_log_and_the_servers(place, page):
    await page.goto(f"{place.origin}/audit")
    await page.click("#verify")
    await page.get_by_text("The log holds").wait_for()
    await page.goto(f"{place.origin}/servers")
    await fits(page)
    await page.get_by_role("link", name="mail", exact=True).click()
    await page.locator("#server").wait_for()
    await fits(page)
    await page.get_by_role("link", name="All of its calls").click()
    await page.wait_for_url("**/audit?server=mail")
    assert await page.locator("tbody tr").count() == 4


@pytest.mark.verify
@rows(("scheme", "width"), LOOKS)
async def test_the_same_at_every_width_and_in_every_scheme(place, look, scheme, width):
    await from_the_overview_to_a_proof(place, await look(scheme, width))
    await the_whole_log_and_the_servers(place, await look(scheme, width))
