"""Pictures of the console for the documentation: `make screenshots`, or `python tests/support/screenshots.py FOLDER`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Browser, Page

from callgate.console.cards import key_of
from support import agent_sessions
from support.browser import PATIENCE_MS, add_authenticator, chromium
from support.console import LiveConsole, whole_console
from support.devices import Phone
from support.recording import record
from support.reviewing import NOTES_ID
from support.screenshots_story import take_story

AGENT: Final = {"client": "Fieldwork 1.4.2", "transport": "http", "peer": "127.0.0.1", "session": "b0f1c2aa"}
ARGUMENTS: Final[dict[str, Any]] = {
    "resourceId": "prod/customers-eu",
    "reason": "Clean up after the migration",
    "options": {"cascade": True, "graceDays": 0, "notify": ["ops@example.com", "dpo@example.com"]},
}
DESK: Final = {"width": 1080, "height": 780}
PHONE: Final = {"width": 390, "height": 844}
WIDE: Final = {"width": 1290, "height": 720}


async def take(folder: Path) -> list[Path]:
    """A call that waits, tools for review, a session and a held result; as `approval-light.png` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        async with (
            whole_console(Path(place), describe_server=lambda _: "https://tools.example/mcp") as console,
            chromium() as browser,
        ):
            ticket = await console.approvals.ticket("anna", by="operator")
            await console.sign_in()
            return [
                await _one(browser, console, folder / "sign-in.png", "/sign-in", DESK, signed_in=False),
                await _one(
                    browser, console, folder / "enrol.png", f"/enrol#{ticket}", DESK, wait="#create", signed_in=False
                ),
                *await _tools(browser, console, folder),
                *await _sessions(browser, console, folder),
                *await _approvals(browser, console, folder),
                await _devices(browser, console, folder),
            ]


async def _approvals(browser: Browser, console: LiveConsole, folder: Path) -> list[Path]:
    """The page on which a call is signed or refused."""
    asked = await console.ask(ARGUMENTS, agent=AGENT, why="The operator lists delete_* as needing approval.")
    place = f"/approve/{asked.id}"
    return [
        await _one(browser, console, folder / "approval-light.png", place, DESK),
        await _one(browser, console, folder / "approval-dark.png", place, DESK, scheme="dark"),
        await _one(browser, console, folder / "approval-phone.png", place, PHONE),
    ]


async def _devices(browser: Browser, console: LiveConsole, folder: Path) -> Path:
    """The page of one's own passkeys, with a device that answers without one."""
    phone = await Phone.enrolled(console, console.people["anna"])
    await phone.ask("waiting")
    return await _one(browser, console, folder / "devices.png", "/me", DESK)


async def _tools(browser: Browser, console: LiveConsole, folder: Path) -> list[Path]:
    """The review of tools: what was found, what changed."""
    found, changed = f"#h-{key_of(NOTES_ID)}", f'article[data-tool="{key_of("read_file")}"]'
    return [
        await _one(browser, console, folder / "tools-review-light.png", "/tools", DESK, at=found),
        await _one(browser, console, folder / "tools-review-dark.png", "/tools", DESK, scheme="dark", at=found),
        await _one(browser, console, folder / "tools-review-phone.png", "/tools", PHONE, at=found),
        await _one(browser, console, folder / "tool-diff.png", "/tools", DESK, at=changed),
    ]


async def _sessions(browser: Browser, console: LiveConsole, folder: Path) -> list[Path]:
    """A session as a picture, and a result that is held back."""
    place = f"/sessions/{agent_sessions.KEY}"
    drawn, later, held = ".session", '[data-node="call-4"]', f"/quarantine/{agent_sessions.HANDLE}"
    return [
        await _one(browser, console, folder / "session-light.png", place, WIDE, at=drawn),
        await _one(browser, console, folder / "session-dark.png", place, WIDE, scheme="dark", at=later),
        await _one(browser, console, folder / "quarantine.png", held, DESK),
    ]


async def _one(
    browser: Browser,
    console: LiveConsole,
    file: Path,
    path: str,
    size: dict[str, int],
    *,
    scheme: Literal["light", "dark"] = "light",
    wait: str = "main",
    signed_in: bool = True,
    at: str = "",
) -> Path:
    context = await browser.new_context(
        viewport={"width": size["width"], "height": size["height"]}, color_scheme=scheme, locale="en-GB"
    )
    try:
        if signed_in:
            secret = console.people["anna"].cookie[console.cookie]
            await context.add_cookies([{"name": console.cookie, "value": secret, "url": console.origin}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await add_authenticator(page)
        await page.goto(f"{console.origin}{path}")
        await _settled(page, wait)
        if at:
            place = "(at) => { document.querySelector(at).scrollIntoView(); scrollBy(0, -16); }"
            await page.evaluate(place, at)
        await page.screenshot(path=file, full_page=size == PHONE and not at)
    finally:
        await context.close()
    return file


async def _settled(page: Page, wait: str) -> None:
    await page.locator(wait).wait_for()
    if await page.locator("#left-text").count():
        await page.locator("#left-text", has_text="left").wait_for()


async def _everything(folder: Path) -> list[Path]:
    return await take(folder) + await take_story(folder)


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0] if arguments else "docs/images")
    for file in [*asyncio.run(_everything(folder)), record(folder / "demo.svg")]:
        print(f"{file}: {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
