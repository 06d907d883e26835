"""Every page follows what waits: counts, title, and one desktop notification a call, whatever tabs are open."""

import asyncio

import pytest

from support.browser import PATIENCE_MS
from support.memory import MemoryPins
from support.reviewing import NOTES_ID, approve, meet, pins_over, tool

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What the desktop would have shown; a click on it is a click of the person.
RECORDING = """
  window.shown = [];
  const granted = window.Notification;
  window.Notification = class extends EventTarget {
    static get permission() { return window.answered ?? "%s"; }
    static async requestPermission() { window.answered = "granted"; return "granted"; }
    constructor(title, options) {
      super();
      window.shown.push({ title, ...options });
      window.last = this;
    }
    close() {}
  };
"""


async def granted(stage, permission="granted"):
    await stage.context.add_init_script(RECORDING % permission)


async def follows(stage):
    """The first page, once it hears what happens."""
    await stage.open("/me")
    await stage.page.locator("html[data-live]").wait_for()


async def another(stage):
    page = await stage.context.new_page()
    stage.watch(page)
    await page.goto(f"{stage.console.origin}/me")
    await page.wait_for_load_state("load")
    return page


def count(name):
    return f'[data-count="{name}"]'


async def has(page, script):
    """Until this is so; asked from outside, as the page's own policy lets nobody evaluate text in it."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not await page.evaluate(script):
            await asyncio.sleep(0.02)


async def test_counts_and_title_follow_what_waits_in_every_tab(stage):
    await stage.signed_in()
    await follows(stage)
    other = await another(stage)
    for page in (stage.page, other):
        assert not await page.locator(count("approvals")).is_visible()
        # Pages that show more than the counts hear of it as an event.
        await page.evaluate(
            "document.addEventListener('callgate:change', ({ detail }) => { window.told = detail.approvals; })"
        )
    asked = await stage.console.ask()
    for page in (stage.page, other):
        await has(page, "document.title.startsWith('(1) ')")
        assert (await page.locator(count("approvals")).inner_text()).startswith("1")
        assert await page.evaluate("window.told") == 1
    await stage.console.approvals.refuse(asked.id, by="anna")
    for page in (stage.page, other):
        await has(page, "!document.title.startsWith('(')")
        assert not await page.locator(count("approvals")).is_visible()


async def test_the_tab_that_listens_may_go_and_another_takes_over(stage):
    await stage.signed_in()
    await follows(stage)
    other = await another(stage)
    await stage.page.close()
    await stage.console.ask()
    await has(other, "document.title.startsWith('(1) ')")


async def test_one_notification_a_call_with_tool_and_server_only(stage):
    await granted(stage)
    await stage.signed_in()
    await follows(stage)
    other = await another(stage)
    asked = await stage.console.ask({"resourceId": "the-secret-thing"}, tool="transfer", server="bank")
    for page in (stage.page, other):
        await has(page, "document.title.startsWith('(1) ')")
        assert not await page.locator("#notify").is_visible()
    shown = [one for page in (stage.page, other) for one in await page.evaluate("window.shown")]
    assert shown == [
        {"title": "A call waits for your approval", "body": "transfer on bank", "tag": f"callgate-{asked.id}"}
    ]
    # Loaded again, the page knows what it has told.
    for page in (stage.page, other):
        await page.reload()
        await has(page, "document.title.startsWith('(1) ')")
        assert await page.evaluate("window.shown") == []


async def test_one_notification_for_a_new_version_of_a_reviewed_server(stage_of):
    pins = pins_over(MemoryPins())
    newer = NOTES_ID.replace("2.0.1", "2.0.2")
    await meet(pins.shelf, "notes", NOTES_ID, [tool("search_notes")])
    await approve(pins, NOTES_ID, "search_notes")
    async with stage_of(pins=pins) as stage:
        await granted(stage)
        await stage.signed_in()
        await follows(stage)
        await pins.shelf.disconnect("gateway")
        await meet(pins.shelf, "notes", newer, [tool("search_notes")])
        await has(stage.page, "window.shown.length === 1")
        (shown,) = await stage.page.evaluate("window.shown")
        assert (shown["title"], shown["body"]) == ("A new version waits for your review", "notes: 1 tool is as before")
        async with stage.context.expect_page() as opened:
            await stage.page.evaluate("window.last.dispatchEvent(new Event('click'))")
        await (await opened.value).wait_for_url("**/tools#s-*")


async def test_a_click_on_it_opens_the_page_of_the_call(stage):
    await granted(stage)
    await stage.signed_in()
    await follows(stage)
    asked = await stage.console.ask()
    await has(stage.page, "window.shown.length === 1")
    async with stage.context.expect_page() as opened:
        await stage.page.evaluate("window.last.dispatchEvent(new Event('click'))")
    page = await opened.value
    await page.wait_for_url(f"**/approve/{asked.id}")
    await page.locator('#call[data-phase="waiting"]').wait_for()


async def test_permission_is_asked_for_by_a_click_only(stage):
    await granted(stage, "default")
    await stage.signed_in()
    await follows(stage)
    await stage.console.ask()
    await has(stage.page, "document.title.startsWith('(1) ')")
    assert await stage.page.evaluate("[window.shown.length, window.answered ?? null]") == [0, None]
    button = stage.page.get_by_role("button", name="Notify me")
    await button.click()
    await button.wait_for(state="hidden")
    # What was there before the click is known; what comes is told.
    await stage.console.ask({"another": 1}, tool="later")
    await has(stage.page, "window.shown.length === 1")
    assert (await stage.page.evaluate("window.shown"))[0]["body"] == "later on files"


async def test_who_has_said_no_is_not_asked_again(stage):
    await granted(stage, "denied")
    await stage.signed_in()
    await follows(stage)
    await stage.page.wait_for_load_state("load")
    assert not await stage.page.locator("#notify").is_visible()


async def test_where_the_stream_does_not_come_through_the_page_asks_instead(stage):
    await stage.signed_in()
    await stage.context.route("**/events", lambda route: route.fulfill(status=502, body="a proxy"))
    await follows(stage)
    await stage.console.ask()
    await has(stage.page, "document.title.startsWith('(1) ')")


async def test_a_page_says_that_the_gateway_has_gone_and_goes_on_when_it_is_back(stage):
    await stage.signed_in()
    await stage.context.route("**/events", lambda route: route.fulfill(status=502, body="a proxy"))
    await stage.context.route("**/events/now", lambda route: route.abort())
    await stage.open("/")
    assert "The gateway does not answer." in await stage.problem()
    await stage.context.unroute("**/events/now")
    await stage.page.locator("#problem").wait_for(state="hidden")


async def test_a_page_whose_session_has_ended_says_so_once_and_is_quiet(stage):
    person = await stage.signed_in()
    await follows(stage)
    await stage.page.evaluate("document.addEventListener('callgate:signed-out', () => { window.out = true; })")
    await stage.console.approvals.sign_out(person.cookie[stage.console.cookie])
    await stage.console.ask()
    await has(stage.page, "window.out === true")


async def test_nobody_signed_in_opens_no_stream(stage):
    asked = []
    stage.page.on("request", lambda request: asked.append(request.url))
    await stage.open("/")
    await stage.page.wait_for_load_state("load")
    assert not [url for url in asked if "/events" in url]
