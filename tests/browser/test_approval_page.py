"""A person decides on a call, in a real Chromium with a virtual authenticator."""

import pytest

from callgate.trust import effects
from callgate.trust.words import FOUND_WORDS, read_with
from support.memory import MemoryPins
from support.registry import requirement
from support.reviewing import NOTES_ID, approve, meet, pins_over, tool
from support.table import rows

pytestmark = pytest.mark.asyncio(loop_scope="session")


@requirement("VA-173")
async def test_approve(stage):
    asked = await stage.waiting()
    page = stage.page
    assert await page.locator("#display-text").text_content() == asked.display_text
    assert await page.locator("#canonical").text_content() == asked.canonical.decode()
    shown = await page.locator("main").inner_text()
    for fact in (
        "delete_resource",
        "files",
        "https://tools.example/mcp",
        "Helper 1.4.2",
        "The operator listed this tool.",
    ):
        assert fact in shown
    await page.click("#approve")
    await stage.becomes("approved")
    held = await stage.console.stored(asked)
    assert (held.state, held.decided_by) == ("approved", "anna")
    assert held.evidence["credential"] == stage.console.people["anna"].credential.id
    assert await page.locator("h1").inner_text() == "You approved this call"


async def test_the_page_says_when_the_call_was_made(stage):
    asked = await stage.waiting()
    await stage.page.click("#approve")
    await stage.becomes("approved")
    await stage.console.approvals.shelf.use(stage.console.approvals.grant_use(asked, "call-1"))
    await stage.becomes("used")
    assert "call-1" in await stage.page.locator(".timeline").inner_text()


async def test_refuse_with_a_reason(stage):
    asked = await stage.waiting()
    page = stage.page
    assert not await page.is_visible("#refuse-form")
    await page.click("#refuse-open")
    await page.fill("#note", "Wrong region.\nAsk me about the other one.")
    await page.click("#refuse-form button[type=submit]")
    await stage.becomes("refused")
    held = await stage.console.stored(asked)
    assert (held.state, held.note) == ("refused", "Wrong region.\nAsk me about the other one.")
    assert held.note in await page.locator(".timeline").inner_text()
    assert "Wrong region." in await page.locator(".timeline").inner_text()


async def test_a_reason_has_an_end(stage):
    await stage.waiting()
    await stage.page.click("#refuse-open")
    await stage.page.fill("#note", "")
    await stage.page.locator("#note").press_sequentially("x" * 20)
    assert await stage.page.locator("#note-left").inner_text() == "480 characters left."
    assert await stage.page.get_attribute("#note", "maxlength") == "500"


async def test_time_runs_out_while_the_page_is_open(stage):
    asked = await stage.waiting()
    assert "left" in await stage.page.locator("#left-text").inner_text()
    stage.console.clock.ahead += 600
    await stage.becomes("expired")
    assert await stage.page.locator("#approve").count() == 0
    assert (await stage.console.stored(asked)).state == "waiting"


async def test_the_time_left_is_said_aloud_now_and_then(stage):
    await stage.signed_in()
    asked = await stage.console.ask()
    stage.console.clock.ahead += 600 - 60.5
    await stage.open(f"/approve/{asked.id}")
    await stage.page.locator("#left-said[aria-live=polite]", has_text="1 minute left to decide").wait_for(
        state="attached"
    )
    assert await stage.page.get_attribute("#left", "aria-live") == "off"


@rows("has_user_verification", [True, False])
async def test_without_the_person_verified_nothing_is_approved(stage_with, has_user_verification):
    async with stage_with(has_user_verification=has_user_verification, is_user_verified=False) as stage:
        asked = await stage.waiting()
        await stage.page.click("#approve")
        assert "Nothing was approved" in await stage.problem()
        assert (await stage.console.stored(asked)).state == "waiting"
        if has_user_verification:
            await stage.key.verify_user(True)
            await stage.page.click("#approve")
            await stage.becomes("approved")


async def test_a_passkey_of_somebody_else_does_not_fit(stage):
    await stage.console.sign_in("berta")
    other = await stage.person("cara")
    anna = await stage.console.sign_in("anna")
    await stage.context.add_cookies(
        [{"name": stage.console.cookie, "value": anna.cookie[stage.console.cookie], "url": stage.console.origin}]
    )
    asked = await stage.console.ask()
    await stage.open(f"/approve/{asked.id}")
    await stage.page.click("#approve")
    assert "No passkey was used" in await stage.problem()
    assert other.user == "cara"
    assert (await stage.console.stored(asked)).state == "waiting"


@rows(("first", "second"), [("approve", "refuse"), ("refuse", "approve")])
async def test_open_in_two_tabs(stage_with, first, second):
    async with stage_with() as stage:
        await open_in_two_tabs(stage, first, second)


async def open_in_two_tabs(stage, first, second):
    asked = await stage.waiting()
    other = await stage.context.new_page()
    stage.watch(other)
    # The other tab does not hear of what happens: only then can it be too late.
    await other.route("**/state", lambda route: route.abort())
    await other.goto(stage.page.url)
    tabs = {first: stage.page, second: other}
    if second == "approve":
        tabs = {first: other, second: stage.page}
        await stage.page.route("**/state", lambda route: route.abort())

    async def decide(what):
        if what == "approve":
            await tabs[what].click("#approve")
        else:
            await tabs[what].click("#refuse-open")
            await tabs[what].click("#refuse-form button[type=submit]")

    await decide(first)
    await stage.becomes({"approve": "approved", "refuse": "refused"}[first], tabs[first])
    before = await stage.console.stored(asked)
    await decide(second)
    late = tabs[second].locator("#problem:not([hidden])")
    await late.wait_for()
    assert "decided already" in await late.inner_text()
    assert not await tabs[second].is_visible("#approve")
    assert await stage.console.stored(asked) == before
    await tabs[second].click("#problem a")
    await stage.becomes(before.state, tabs[second])


async def test_a_page_hears_that_it_was_decided_elsewhere(stage):
    asked = await stage.waiting()
    await stage.console.approvals.refuse(asked.id, by="anna", note="from the phone")
    await stage.becomes("refused")
    assert "from the phone" in await stage.page.locator(".timeline").inner_text()


async def test_a_gesture_under_way_ends_when_the_call_is_decided_elsewhere(stage):
    asked = await stage.waiting()
    await stage.key.simulate_presence(False)
    await stage.page.click("#approve")
    await stage.page.locator("#status", has_text="asking for your passkey").wait_for()
    await stage.console.approvals.refuse(asked.id, by="anna", note="")
    await stage.becomes("refused")


async def test_sign_in_first_and_come_back_to_the_call(stage):
    await stage.person()
    asked = await stage.console.ask()
    await stage.open(f"/approve/{asked.id}")
    content = await stage.page.content()
    assert "delete_resource" not in content
    assert "customers" not in content
    await stage.page.click("#with-passkey")
    await stage.becomes("waiting")
    assert stage.page.url == f"{stage.console.origin}/approve/{asked.id}"


async def test_the_session_ends_while_the_page_is_open(stage):
    await stage.waiting()
    person = stage.console.people["anna"]
    await stage.console.approvals.sign_out(person.cookie[stage.console.cookie])
    await stage.shows("#with-passkey")


async def focused(page):
    return await page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")


async def tab_to(page, wanted):
    """Press Tab until it is there; what was passed on the way."""
    passed = []
    for _ in range(30):
        await page.keyboard.press("Tab")
        passed.append(await focused(page))
        if passed[-1] == wanted:
            return passed
    raise AssertionError(passed)


async def test_approve_by_keyboard_alone(stage):
    asked = await stage.waiting()
    passed = await tab_to(stage.page, "approve")
    assert passed[0] == "Skip to content"
    assert passed.index("text-scroll") < passed.index("approve"), "the text comes before the decision"
    ring = await stage.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    await stage.page.keyboard.press("Enter")
    await stage.becomes("approved")
    assert (await stage.console.stored(asked)).state == "approved"


async def test_refuse_by_keyboard_alone(stage):
    asked = await stage.waiting()
    await tab_to(stage.page, "refuse-open")
    await stage.page.keyboard.press("Space")
    assert await focused(stage.page) == "note"
    assert await stage.page.get_attribute("#refuse-open", "aria-expanded") == "true"
    await stage.page.keyboard.type("not now")
    await stage.page.keyboard.press("Tab")
    await stage.page.keyboard.press("Enter")
    await stage.becomes("refused")
    assert (await stage.console.stored(asked)).note == "not now"


async def test_a_long_text_is_whole_and_says_that_there_is_more(stage):
    text = "".join(f"line {number}; " for number in range(2000))
    await stage.waiting({"text": text})
    page = stage.page
    assert text in await page.locator("#display-text").text_content()
    await page.locator("#text-more").wait_for(state="visible")
    await page.focus("#text-scroll")
    await page.keyboard.press("End")
    await page.locator("#text-more").wait_for(state="hidden")


@requirement("VA-064")
async def test_hidden_characters_are_seen(stage):
    await stage.waiting({"path": "invoice\u202efdp.exe", "zero": "a\u200bb", "two": "one\ntwo"})
    text = await stage.page.locator("main").inner_text()
    assert not set(text) & {"\u202e", "\u200b"}
    for name in ("invoice\\u202efdp.exe", "a\\u200bb", "one\\ntwo"):
        assert name in await stage.page.locator("#display-text").text_content()
        assert name in await stage.page.locator(".tree").inner_text()


async def test_a_wrapped_line_is_not_a_new_line(stage):
    """A value made so that its wrapped rest looks like a further argument is under one line number with its key."""
    await stage.page.set_viewport_size({"width": 360, "height": 740})
    await stage.waiting({"note": "x" * 40 + " cascade: false"})
    lines = stage.page.locator("#display-text .line")
    assert await lines.count() == 2
    heights = await lines.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().height)")
    assert heights[1] > 1.5 * heights[0]


async def test_the_gateway_goes_away_and_comes_back(stage):
    asked = await stage.waiting()
    await stage.page.route("**/approve/*/options", lambda route: route.abort())
    await stage.page.click("#approve")
    assert "cannot be reached" in await stage.problem()
    await stage.page.unroute("**/approve/*/options")
    await stage.page.click("#approve")
    await stage.becomes("approved")
    assert (await stage.console.stored(asked)).state == "approved"


async def test_what_only_the_user_writes_is_said_to_be_theirs_with_a_signature(stage_of):
    pins = pins_over(MemoryPins())
    others = effects.encode(effects.Effects(("reads_others",)))
    await meet(pins.shelf, "notes", NOTES_ID, [tool("read_note"), tool("list_notes")])
    for name in ("read_note", "list_notes"):
        await approve(pins, NOTES_ID, name, label=others)
    where = f"{FOUND_WORDS['untrusted']}. Read at 9:25 UTC {read_with('notes', 'read_note')}"
    why = f"A stranger decides.\nto = x@y.example: {where}: “So says {read_with('notes', 'list_notes')}”"
    async with stage_of(pins=pins) as stage:
        asked = await stage.waiting(why=why)
        await stage.page.get_by_role("button", name="This is mine").click()
        await stage.shows("#mine-status:has-text('counts as yours')")
        labels = {name: pins.book.pin(NOTES_ID, name).label for name in ("read_note", "list_notes")}
        assert effects.decode(labels["read_note"]).effects == ("reads_own",)
        assert labels["list_notes"] == others
        # The call is decided for itself.
        assert (await stage.console.stored(asked)).state == "waiting"
        other = await stage.console.ask({"other": 1})
        await stage.open(f"/approve/{other.id}")
        assert await stage.page.get_by_role("button", name="This is mine").count() == 0
