"""An agent's session as a picture in a real browser, and held results that a person decides on."""

import contextlib

import pytest

from support.agent_sessions import HANDLE, KEY, OTHER, POISON, WARNING, furnish, hold, step, trust_over, value, walk
from support.memory import MemoryTrust, witness
from support.registry import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")


@contextlib.asynccontextmanager
async def watching(stage_of, extra=0):
    shelf = MemoryTrust()
    await furnish(shelf, extra=extra)
    trust = trust_over(shelf, witness=witness)
    async with stage_of(trust=trust) as stage:
        await stage.signed_in()
        await stage.page.set_viewport_size({"width": 1400, "height": 1000})
        yield stage, shelf


# Boxes of the drawing whose words reach beyond them, and boxes that cover one another.
WRONG = """() => {
  const wrong = [];
  const boxes = [...document.querySelectorAll(".flow .node")];
  const frame = (one) => one.getBoundingClientRect();
  for (const box of boxes) {
    const outer = frame(box.querySelector(".box"));
    for (const text of box.querySelectorAll("text")) {
      const inner = frame(text);
      if (inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1) wrong.push(`beyond: ${text.textContent}`);
    }
    for (const other of boxes) {
      if (other === box) continue;
      const a = outer, b = frame(other.querySelector(".box"));
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) wrong.push("covered");
    }
  }
  return wrong;
}"""


async def test_from_the_list_to_the_picture_to_a_step(stage_of):
    async with watching(stage_of) as (stage, _):
        await stage.open("/sessions")
        await stage.page.click("text=127.0.0.1 Fieldwork")
        await stage.shows(".flow")
        assert await stage.page.evaluate(WRONG) == []
        size = await stage.page.evaluate("parseFloat(getComputedStyle(document.querySelector('.flow text')).fontSize)")
        assert size >= 12
        await stage.page.click('[data-node="call-6"]')
        assert stage.page.url.endswith("#step-6")
        box = await stage.page.locator("#step-6").bounding_box()
        assert 0 <= box["y"] < 1000
        shown = await stage.page.locator("#step-6").inner_text()
        assert "only in text that a stranger may have written, step 5" in shown
        await stage.page.locator('[data-node="result-5"]').focus()
        await stage.page.keyboard.press("Enter")
        assert stage.page.url.endswith("#step-5")


async def test_a_line_leads_from_a_result_to_the_value_that_came_from_it(stage_of):
    async with watching(stage_of) as (stage, _):
        await stage.open(f"/sessions/{KEY}")
        ends = """() => {
          const stroke = document.querySelector('[data-from="result-5"][data-to="call-6"]');
          const line = stroke.querySelector("path");
          const at = (where) => line.getPointAtLength(where * line.getTotalLength());
          const place = (name) => document.querySelector(`[data-node="${name}"] svg`);
          const number = (node, member) => node[member].baseVal.value;
          const result = place("result-5"), call = place("call-6");
          const port = [...call.querySelectorAll(".port")].find((one) => one.textContent.startsWith("to ="));
          return {
            colour: getComputedStyle(line).stroke, bad: getComputedStyle(port).color,
            from: Math.abs(at(0).x - number(result, "x")),
            to: Math.abs(at(1).x - number(call, "x") - number(call, "width")),
            beside: Math.abs(at(1).y - number(call, "y") - Number(port.getAttribute("y"))),
          };
        }"""
        found = await stage.page.evaluate(ends)
        assert found["colour"] == found["bad"]
        assert (found["from"], found["to"] <= 8, found["beside"] <= 8) == (0, True, True)


async def test_on_a_narrow_screen_the_drawing_says_that_it_goes_on_and_can_be_moved(stage_of):
    async with watching(stage_of) as (stage, shelf):
        await stage.open(f"/sessions/{KEY}")
        hint, place, scroll = (stage.page.locator(one) for one in ("#picture-hint", ".flow-place", ".flow-scroll"))
        fades = "(one) => ['::before', '::after'].map((side) => getComputedStyle(one, side).opacity)"
        assert not await hint.is_visible()
        assert await place.evaluate(fades) == ["0", "0"]
        await stage.page.set_viewport_size({"width": 360, "height": 800})
        await hint.wait_for()
        assert await place.evaluate(fades) == ["0", "1"]
        await scroll.focus()
        for _ in range(3):
            await stage.page.keyboard.press("ArrowRight")
        await stage.page.locator(".flow-place.to-left").wait_for()
        await scroll.evaluate("(one) => one.scrollTo(one.scrollWidth, 0)")
        await stage.page.locator(".flow-place:not(.to-right)").wait_for()
        assert await place.evaluate(fades) == ["1", "0"]
        box = await stage.page.locator('[data-node="result-5"]').bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 360
        await walk(shelf, KEY, step("share_file", "files"))
        await stage.page.locator('[data-node="call-8"]').wait_for()
        assert await hint.is_visible()
        assert await place.evaluate(fades) == ["1", "0"]


async def test_a_step_says_each_thing_once(stage_of):
    async with watching(stage_of) as (stage, _):
        await stage.open(f"/sessions/{KEY}")
        shown = await stage.page.locator("#step-6").inner_text()
        assert [shown.count(one) for one in ("Financial data", "xy@evil.example", "secrets-leave", "rule_blocked")] == [
            1
        ] * 4
        for width, most in ((1280, 3100), (360, 4500)):
            await stage.page.set_viewport_size({"width": width, "height": 900})
            assert await stage.page.evaluate("document.documentElement.scrollHeight") < most


async def test_sixty_steps_can_still_be_read(stage_of):
    async with watching(stage_of, extra=60) as (stage, _):
        await stage.open(f"/sessions/{KEY}")
        assert await stage.page.evaluate(WRONG) == []
        assert await stage.page.locator(".flow .node.call").count() == 60
        assert await stage.page.evaluate("document.querySelectorAll('*').length") < 5_000
        assert "7 earlier steps" in await stage.page.locator('[data-node="earlier"]').text_content()


async def test_a_session_grows_while_one_looks(stage_of):
    async with watching(stage_of) as (stage, shelf):
        await stage.open(f"/sessions/{KEY}")
        await walk(shelf, KEY, step("share_file", "files", value("with", "x@evil.example", "untrusted", 5)))
        await stage.page.locator('[data-node="call-8"]').wait_for()
        assert "share_file on files" in await stage.page.locator("#step-8").inner_text()
        assert not (await stage.page.locator("#step-8 time").inner_text()).endswith("UTC")
        await stage.open("/sessions")
        await walk(shelf, "e" * 32, step("a"), agent="A new one")
        await stage.page.locator("text=A new one").wait_for()


@requirement("TA-007")
async def test_a_warning_is_seen_where_a_person_looks(stage_of):
    async with watching(stage_of) as (stage, _):
        await stage.open("/")
        held = stage.page.locator("#results-held")
        assert "1 result is held back" in await held.inner_text()
        await held.locator("a").click()
        await stage.page.locator(".warning").first.wait_for()
        assert await stage.page.locator(".warning").inner_text() == WARNING
        await stage.open(f"/sessions/{KEY}")
        alert = stage.page.locator("#malicious")
        assert await alert.is_visible()
        assert WARNING in await alert.inner_text()


async def test_a_held_result_is_read_then_dropped(stage_of):
    async with watching(stage_of) as (stage, shelf):
        await stage.open("/quarantine")
        await hold(shelf, OTHER)
        await stage.page.locator(f'a[href="/quarantine/{OTHER}"]').wait_for()
        await stage.page.click(f'a[href="/quarantine/{HANDLE}"]')
        await stage.shows("#held")
        text = await stage.page.locator(".statement").inner_text()
        assert text.strip() == POISON.replace("\u200b", "U+200B")
        await stage.page.click('[data-settle="dropped"]')
        assert "Drop this result?" in await stage.page.locator("#settle").inner_text()
        await stage.page.click("[data-close]")
        assert (await shelf.held(HANDLE)).state == "held"
        await stage.page.click('[data-settle="dropped"]')
        await stage.page.fill("#settle-note", "an attack")
        await stage.page.click("#settle-send")
        await stage.shows('#held[data-state="dropped"]')
        assert (await shelf.held(HANDLE)).decided_by == "anna"
        assert [(action, detail["note"]) for action, _, detail in shelf.witnesses] == [("trust.drop", "an attack")]
        assert await stage.page.locator("[data-settle]").count() == 0
        assert "an attack" not in await stage.page.locator(".statement, #raw").all_inner_texts()


async def test_who_comes_second_is_told(stage_of):
    async with watching(stage_of) as (stage, shelf):
        await stage.open(f"/quarantine/{HANDLE}")
        await stage.page.click('[data-settle="released"]')
        await trust_over(shelf).settle(HANDLE, "dropped", by="berta")
        await stage.page.click("#settle-send")
        problem = stage.page.locator("#settle .form-error", has_text="released or dropped before")
        await problem.wait_for()
        assert (await shelf.held(HANDLE)).state == "dropped"
