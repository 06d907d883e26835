"""Pictures of a gateway at work: `callgate demo` is played to the moment when a stolen transfer waits, and photographed.

The gateway, its three servers and the scripted agent are those of the demo, and the person enrols in Chromium. Only the
day of calls before it, which the overview's charts show, is made up. Each page is taken in the light, in the dark and at
the width of a small phone.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from playwright.async_api import Page

from callgate.audit import Arguments, AuditLog, DecisionRecord
from callgate.keyring import Keyring
from callgate.store import Store
from support.browser import PATIENCE_MS, add_authenticator, chromium
from support.demo import CALLGATE, config_in, demo_on_a_terminal, fact
from support.terminal import Terminal

# The picture's name and the page it shows.
PLACES: Final = {
    "approvals": "/approvals",
    "servers": "/servers",
    "agents": "/agents",
    "policy": "/policy",
    "audit": "/audit",
    "people": "/people",
    "settings": "/settings",
    "overview": "/",
}
WIDE: Final = {"width": 1180, "height": 820}
PHONE: Final = {"width": 360, "height": 1240}
SECONDS: Final = 60.0

# A reader's own paths look otherwise; those of the machine that made the picture are nobody's business.
_NOT_THIS_MACHINE: Final = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    const told = node.data
      .replace(/\/\S*\/callgate-demo-\w+/g, "/home/me/demo")
      .replace(/\/\S*\/callgate_demo\//g, "/opt/callgate/demo/")
      .replace(/\/\S*\/(python[\d.]*)\b/g, "/usr/bin/$1");
    if (told !== node.data) node.data = told;
  }
}"""

_CALLS: Final = (("files", "read_file"), ("mail", "read_mail"), ("mail", "list_mail"), ("bank", "show_account"))
_REASONS: Final = ("tool_changed", "approval_refused", "tool_denied", "approval_refused", "rule_blocked")
_MORE: Final = """
[agents]
mode = "optional"

[agents.api_keys]
enabled = true

[agents.known.reports]
directory = "listed"
allow_tools = ["list_*", "read_*"]
per_minute = 30

[agents.known.assistant]
directory = "https://assistant.example"
deny_tools = ["transfer"]

[trust]
policy = "rules.toml"
"""
_RULES: Final = """\
[[rules]]
name = "secrets-stay"
effect = "block"
when = '"credentials" in data.sensitivity && tool.egress'
say = "Keys and tokens do not leave the house."

[[rules]]
name = "large-payment"
effect = "ask"
when = 'tool.name == "transfer" && has(args.amount) && double(args.amount) >= 1000.0'
say = "Payments of 1,000 and more need a second pair of eyes."
"""


async def take_story(folder: Path) -> list[Path]:
    """Every page of the story, as `overview-light.png`, `overview-dark.png`, `overview-phone.png` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, demo_on_a_terminal(env={"TMPDIR": place}) as seen:
        async with chromium() as browser:
            page = await (await browser.new_context(locale="en-GB")).new_page()
            page.set_default_timeout(PATIENCE_MS)
            await add_authenticator(page, transport="internal")
            console = await _up_to_the_theft(seen, page)
            await asyncio.to_thread(_furnish, config_in(seen.text))
            made: list[Path] = []
            for name, path in PLACES.items():
                if name == "overview":
                    await asyncio.to_thread(_day_before, config_in(seen.text).parent)
                made += await _thrice(page, console, path, folder / name)
            return made


async def _up_to_the_theft(seen: Terminal, page: Page) -> str:
    """Enrol, review, block: as a newcomer does it; the console's address."""
    console = fact(await _told(seen, "or press r here"), "console").rstrip("/")
    found = re.search(r"http://localhost:\d+/enrol#\S+", seen.text)
    assert found, seen.text
    await page.goto(found[0])
    await page.get_by_role("button", name="Create passkey").click()
    await page.get_by_role("link", name="Continue").click()
    await page.wait_for_url(re.compile(r"/$"))
    seen.press("r")
    await _told(seen, "press t:")
    seen.press("t")
    await _told(seen, "or press b here")
    seen.press("b")
    await _told(seen, "only your passkey can approve:")
    return console


def _furnish(config: Path) -> None:
    """A team around the newcomer, agents with rules, and a policy; the gateway follows within seconds."""
    (config.parent / "rules.toml").write_text(_RULES, encoding="utf-8")
    config.write_text(config.read_text(encoding="utf-8") + _MORE, encoding="utf-8")
    for words in (
        ["check"],
        ["users", "add", "lena", "--display-name", "Lena Ortiz"],
        ["users", "add", "vera", "--display-name", "Vera Adams", "--role", "viewer"],
        ["agents", "add", "reports", "--api-key", "--expires", "90d"],
    ):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CALLGATE_")}
        done = subprocess.run(
            [CALLGATE, *words, "-c", str(config)],
            env=kept,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout + done.stderr)


def _day_before(state: Path) -> None:
    """A day of calls, more of them by day than by night, so that the charts have something to show."""
    store = Store.open(f"sqlite:///{state / 'callgate.db'}", busy_seconds=10)
    try:
        log = AuditLog(store, Keyring(state / "keys", environ={}))
        dice, now = random.Random(7), int(time.time() * 1000)
        with log.store.audit_writing() as tables:
            for number in range(600):
                ago = dice.triangular(0.7, 23.5, 4)
                server, tool = dice.choice(_CALLS)
                reason = dice.choice(_REASONS) if dice.random() < 0.06 else None
                record = DecisionRecord(
                    call=f"01day{number:027d}",
                    at=now - int(ago * 3_600_000),
                    gateway="demo",
                    server=server,
                    session=None,
                    transport="http",
                    protocol="2026-07-28",
                    tool=tool,
                    arguments=Arguments("whole", {}),
                    args_hash=f"sha256:{'0' * 64}",
                    verdict="refuse" if reason else "allow",
                    reason=reason,
                    checks=(),
                    extra={},
                )
                tables.insert(log.row(record))
        log.catch_up()
    finally:
        asyncio.run(store.close())


async def _thrice(page: Page, console: str, path: str, file: Path) -> Sequence[Path]:
    """One page in the light, in the dark, and on a phone from top to bottom."""
    looks = (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE))
    made = []
    for name, scheme, size in looks:
        await page.set_viewport_size({"width": size["width"], "height": size["height"]})
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        answer = await page.goto(f"{console}{path}")
        assert answer is not None, path
        assert answer.status == 200, (path, answer.status)
        await page.locator("main").wait_for()
        await page.evaluate(_NOT_THIS_MACHINE)
        target = file.with_name(f"{file.name}-{name}.png")
        await page.screenshot(path=target, animations="disabled")
        made.append(target)
    return made


async def _told(seen: Terminal, what: str) -> str:
    return await asyncio.to_thread(seen.expect, what, seconds=SECONDS)
