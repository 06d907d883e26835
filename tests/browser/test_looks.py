"""Readable by everybody: contrast, small screens, labels, landmarks; and pictures that show something."""

import base64

import pytest

from callgate.console.cards import key_of
from support import agent_sessions
from support.memory import MemoryPins, MemoryTrust
from support.reviewing import furnish, pins_over
from support.screenshots import take

pytestmark = pytest.mark.asyncio(loop_scope="session")

# WCAG 2.2 §1.4.3: the lowest contrast of any visible text with what is behind it. Large text may have 3, which we do not use.
CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
      if (a !== 0) throw new Error(`half transparent: ${at.outerHTML.slice(0, 80)}`);
    }
    return [255, 255, 255];
  };
  const low = [];
  let seen = 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest(".hush, noscript, :disabled")) continue;
    const [one, two] = [light(parse(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    seen += 1;
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)}: ${texts.currentNode.textContent.trim().slice(0, 40)}`);
  }
  return [seen, low];
}"""

# What a screen reader needs, and fingers.
LACKING = """() => {
  const lacking = [];
  const seen = (element) => element.checkVisibility() && !element.closest(".hush");
  const count = (selector) => [...document.querySelectorAll(selector)].filter(seen).length;
  if (document.documentElement.lang !== "en") lacking.push("lang");
  if (!document.title.endsWith("· Callgate")) lacking.push("title");
  for (const one of ["main", "body > header", "body > footer", "h1"]) if (count(one) !== 1) lacking.push(`${count(one)} ${one}`);
  for (const input of document.querySelectorAll("input, textarea")) {
    if (!input.labels?.length) lacking.push(`no label: ${input.outerHTML}`);
  }
  for (const button of document.querySelectorAll("button, a, summary")) {
    if (!button.textContent.trim() && button.closest("#problem") === null) lacking.push(`no name: ${button.outerHTML}`);
    if (!seen(button) || button.matches("p a, .skip, td a, th a")) continue;
    const { width, height } = button.getBoundingClientRect();
    if (width < 24 || height < 24) lacking.push(`small: ${button.textContent.trim()} ${width}x${height}`);
  }
  for (const region of document.querySelectorAll("section, dialog, [role=region]")) {
    if (!region.ariaLabel && !document.getElementById(region.getAttribute("aria-labelledby"))) lacking.push(`region: ${region.id}`);
  }
  const levels = [...document.querySelectorAll("h1, h2, h3")].filter(seen).map((one) => Number(one.tagName[1]));
  levels.reduce((before, level) => { if (level > before + 1) lacking.push(`h${level} after h${before}`); return level; }, 0);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  if (new Set(ids).size !== ids.length) lacking.push("an id twice");
  return lacking;
}"""


async def every_page(stage):
    """The addresses of every page in every state."""
    await stage.signed_in()
    console, states = stage.console, {}
    for name in ("expired", "waiting", "refused", "used"):
        states[name] = await console.ask({"n": name, "deep": {"list": [1, "two", None]}})
        console.clock.ahead += 599 if name == "expired" else 1
    await console.approvals.refuse(states["refused"].id, by="anna", note="Because.")
    person = console.people["anna"]
    await console.approvals.approve(
        states["used"].id, {"method": "webauthn"} | await console.signed(states["used"], person), by="anna"
    )
    await console.approvals.shelf.use(console.approvals.grant_use(states["used"], "call-1"))
    ticket = await console.approvals.ticket("anna", by="operator")
    pages = [
        "/",
        "/approvals",
        "/me",
        "/people",
        "/people/anna",
        "/recover",
        f"/enrol#{ticket}",
        "/enrol",
        "/approve/none",
    ]
    return pages + [f"/approve/{one.id}" for one in states.values()]


@pytest.mark.verify
async def test_every_page_in_both_schemes(stage):
    for path in [*await every_page(stage), "signed out", "elsewhere"]:
        if path == "signed out":
            await stage.context.clear_cookies()
            path = "/"
        for scheme in ("light", "dark"):
            await stage.page.emulate_media(color_scheme=scheme)
            await stage.page.goto("about:blank")
            if path == "elsewhere":
                await stage.page.goto(f"http://127.0.0.1:{stage.console.port}/")
            else:
                await stage.open(path)
            if path.startswith("/enrol"):
                await stage.page.locator("#create, #problem").locator("visible=true").first.wait_for()
            if await stage.page.locator("#refuse-open").count():
                await stage.page.click("#refuse-open")
                await stage.page.click(".fold summary")
            seen, low = await stage.page.evaluate(CONTRAST)
            assert (low, seen > 5) == ([], True), (path, scheme)
            assert await stage.page.evaluate(LACKING) == [], (path, scheme)


@pytest.mark.verify
async def test_every_page_fits_a_narrow_screen(stage):
    await stage.page.set_viewport_size({"width": 320, "height": 640})
    for path in await every_page(stage):
        await stage.page.goto("about:blank")
        await stage.open(path)
        assert await stage.page.evaluate("document.documentElement.scrollWidth") <= 320, path


async def every_tool_page(stage, pins):
    """The review, and the page of each server and of each tool in each state."""
    await stage.signed_in()
    pages = ["/tools", "/"]
    for server in (await pins.review()).servers:
        pages.append(f"/tools/{key_of(server.seen.server_id)}")
        pages += [f"/tools/{key_of(view.server_id)}/{key_of(view.tool)}" for view in server.tools]
    return pages


@pytest.mark.verify
async def test_the_review_of_tools_in_both_schemes_and_on_narrow_screens(stage_of):
    pins = pins_over(MemoryPins())
    await furnish(pins)
    async with stage_of(pins=pins) as stage:
        for path in await every_tool_page(stage, pins):
            for scheme in ("light", "dark"):
                await stage.page.emulate_media(color_scheme=scheme)
                await stage.page.set_viewport_size({"width": 1180, "height": 900})
                await stage.open(path)
                for choice in await stage.page.locator(".pick-block").all():
                    await choice.click()
                await stage.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                seen, low = await stage.page.evaluate(CONTRAST)
                assert (low, seen > 5) == ([], True), (path, scheme)
                assert await stage.page.evaluate(LACKING) == [], (path, scheme)
            for width in (320, 360):
                await stage.page.set_viewport_size({"width": width, "height": 640})
                assert await stage.page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)


@pytest.mark.verify
async def test_sessions_and_held_results_in_both_schemes_and_on_narrow_screens(stage_of):
    shelf = MemoryTrust()
    await agent_sessions.furnish(shelf, extra=60)
    await agent_sessions.walk(shelf, "f" * 32, *agent_sessions.story(), agent="W" * 256)
    trust = agent_sessions.trust_over(shelf)
    await trust.declassify("f" * 32, by="root@host", note="a drill " * 60)
    async with stage_of(trust=trust) as stage:
        await stage.signed_in()
        sessions = [f"/sessions/{key}" for key in (agent_sessions.KEY, "f" * 32, "0" * 32)]
        for path in ["/", "/sessions", *sessions, "/quarantine", f"/quarantine/{agent_sessions.HANDLE}"]:
            for scheme in ("light", "dark"):
                await stage.page.emulate_media(color_scheme=scheme)
                await stage.page.set_viewport_size({"width": 1400, "height": 900})
                await stage.open(path)
                await stage.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                seen, low = await stage.page.evaluate(CONTRAST)
                assert (low, seen > 5) == ([], True), (path, scheme)
                assert await stage.page.evaluate(LACKING) == [], (path, scheme)
            for width in (320, 360):
                await stage.page.set_viewport_size({"width": width, "height": 640})
                assert await stage.page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)


async def test_nothing_moves_for_who_asked_for_that(stage):
    await stage.waiting()
    moving = (
        "[...document.querySelectorAll('*')].filter((one) => getComputedStyle(one).transitionDuration !== '0s').length"
    )
    assert await stage.page.evaluate(moving) > 0
    await stage.page.emulate_media(reduced_motion="reduce")
    assert await stage.page.evaluate(moving) == 0


# How bright a picture is on the whole, and how many colours are in it.
MEASURE = """async (address) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const brush = canvas.getContext("2d");
  brush.drawImage(image, 0, 0);
  const { data } = brush.getImageData(0, 0, image.width, image.height);
  const colours = new Set();
  let sum = 0;
  for (let at = 0; at < data.length; at += 4) {
    colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
    sum += data[at] + data[at + 1] + data[at + 2];
  }
  return { width: image.width, height: image.height, colours: colours.size, brightness: sum / (data.length / 4) / 765 };
}"""


@pytest.mark.verify
async def test_pictures_are_taken_and_show_something(stage, tmp_path):
    found = {}
    for file in await take(tmp_path):
        assert file.stat().st_size < 150 * 1024
        address = "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
        await stage.page.goto("about:blank")
        found[file.stem] = await stage.page.evaluate(MEASURE, address)
    tools = {"tools-review-light", "tools-review-dark", "tools-review-phone", "tool-diff"}
    sessions = {"session-light", "session-dark", "quarantine", "devices"}
    assert set(found) == {"approval-light", "approval-dark", "approval-phone", "enrol", "sign-in"} | tools | sessions
    assert all(picture["colours"] > 50 for picture in found.values()), found
    assert found["approval-light"]["brightness"] > 0.8
    assert found["approval-dark"]["brightness"] < 0.3
    assert found["tools-review-light"]["brightness"] > 0.8
    assert found["tools-review-dark"]["brightness"] < 0.3
    assert found["session-light"]["brightness"] > 0.8
    assert found["session-dark"]["brightness"] < 0.3
    assert found["approval-phone"]["width"] == found["tools-review-phone"]["width"] == 390
