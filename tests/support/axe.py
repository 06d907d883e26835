"""axe-core in a page: what it finds that keeps somebody from using it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page

from support.node import install, present

VERSION: Final = "4.14.0"
_RUN: Final = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .map(({ id, impact, nodes }) => ({ id, impact, where: nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)) }))"""


@cache
def script() -> str:
    """The library's own text, installed once like the other tools of npm."""
    prefix = install(f"axe-{VERSION}", [f"axe-core@{VERSION}"])
    return present(prefix, Path("axe-core") / "axe.min.js").read_text(encoding="utf-8")


async def serious(page: Page) -> list[dict[str, Any]]:
    """What is serious or critical; the page's context has to be one that bypasses the content security policy."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(script())
    found: list[dict[str, Any]] = await page.evaluate(_RUN)
    return [one for one in found if one["impact"] in ("serious", "critical")]
