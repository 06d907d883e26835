"""Agents in a browser: a key made with a passkey and shown once, and taken away again; and how that is refused."""

import contextlib

import pytest

from callgate.agents.apikeys import ApiKeys

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONFIG = """
[agents.api_keys]
enabled = true
[agents.known.reports]
directory = "listed"
allow_tools = ["list_*"]
[agents.known.shop]
directory = "https://shop.example"
"""


@pytest.fixture
def looking(screen, whole_stage):
    @contextlib.asynccontextmanager
    async def made():
        async with whole_stage(CONFIG, **screen) as stage:
            await stage.signed_in("anna")
            yield stage

    return made


async def fits(page):
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def keys_of(stage):
    return ApiKeys(stage.console.gateway.agents, lambda: int(stage.console.clock() * 1000))


async def test_a_key_from_its_making_to_its_end(looking):
    async with looking() as stage:
        page = stage.page
        await stage.open("/agents")
        await fits(page)
        await page.click("#key-open")
        await page.fill("#key-agent", "reports")
        await page.click("#new-key [type=submit]")
        await stage.shows("#made:not([hidden])")
        key = await page.locator("#made-key").inner_text()
        assert (await keys_of(stage).verify(key)).id == "reports"
        await fits(page)
        await page.reload()
        assert key not in await page.content()
        await page.get_by_role("link", name="Look at reports").click()
        await stage.shows("#agent")
        await page.fill('[name="tool"]', "drop_all")
        await page.get_by_role("button", name="Tell").click()
        await page.locator("#verdict", has_text="tool_denied").wait_for()
        await fits(page)
        await page.click("[data-revoke]")
        await page.click("#sure [type=submit]")
        await page.wait_for_url("**/agents")
        (held,) = await stage.console.gateway.agents.keys()
        assert held.revoked_at is not None


async def test_refused_without_the_passkey_and_on_a_stale_page(looking):
    async with looking() as stage:
        page = stage.page
        await keys_of(stage).create("reports", by="anna")
        await stage.open("/agents/reports")
        await stage.key.verify_user(False)
        await page.click("#remove")
        await page.click("#sure [type=submit]")
        await page.locator("#sure .form-error:not(:empty)").wait_for()
        assert (await stage.console.gateway.agents.keys())[0].revoked_at is None
        await keys_of(stage).create("reports", by="anna")
        await page.click("#sure [type=submit]")
        await page.locator("#sure .form-error", has_text="no longer so").wait_for()
        assert [one.revoked_at for one in await stage.console.gateway.agents.keys()] == [None, None]


async def test_a_directory_that_does_not_answer(looking):
    async with looking() as stage:
        await stage.open("/agents")
        await stage.page.click("[data-refresh]")
        await stage.page.locator(".directory .status", has_text="what was held stays").wait_for()
