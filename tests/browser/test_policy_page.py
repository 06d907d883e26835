"""The policy's page in a browser: why, what if, rules put in force with a passkey; and how that is refused."""

import contextlib

import pytest

from support.past_calls import NO_MAIL, RULES, remember

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONFIG = '[trust]\npolicy = "rules.toml"\n'


@pytest.fixture
def looking(screen, whole_stage, tmp_path):
    """An operator before a policy of their own, and past calls."""

    @contextlib.asynccontextmanager
    async def made():
        (tmp_path / "rules.toml").write_text(RULES)
        async with whole_stage(CONFIG, **screen) as stage:
            await stage.signed_in("anna")
            stage.calls = remember(stage.console)
            yield stage

    return made


async def fits(page):
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def attempted(stage, text):
    await stage.page.evaluate("document.getElementById('tried').replaceChildren()")
    await stage.page.fill("#rules-text", text)
    await stage.page.click("#what-if [type=submit]")
    await stage.page.locator("#tried [data-tried]").wait_for()


async def test_from_a_mistake_to_rules_in_force(looking, tmp_path):
    async with looking() as stage:
        page = stage.page
        await stage.open("/policy")
        assert await page.locator("#save").is_disabled()
        await attempted(stage, RULES.replace("tool.name", "tool.nmae"))
        told = await page.locator("#tried").inner_text()
        assert "perhaps tool.name" in told
        assert await page.locator("#save").is_disabled()
        await fits(page)
        await attempted(stage, RULES + NO_MAIL)
        assert "3 of 3 decisions would differ" in await page.locator("#tried").inner_text()
        assert await page.locator("#groups a").first.get_attribute("href") == f"/audit/{stage.calls[-1].call}"
        await fits(page)
        # Only what was checked can be saved.
        await page.locator("#rules-text").press_sequentially("#")
        assert await page.locator("#save").is_disabled()
        await attempted(stage, RULES + NO_MAIL)
        await page.click("#save")
        await page.locator("#in-force", has_text="no-mail").wait_for()
        assert (tmp_path / "rules.toml").read_text() == RULES + NO_MAIL


async def test_refused_without_the_passkey_and_over_a_file_that_is_another_by_now(looking, tmp_path):
    async with looking() as stage:
        page = stage.page
        await stage.open("/policy")
        await attempted(stage, NO_MAIL)
        await stage.key.verify_user(False)
        await page.click("#save")
        assert "Nothing was saved" in await stage.problem()
        assert (tmp_path / "rules.toml").read_text() == RULES
        (tmp_path / "rules.toml").write_text(RULES + "# by somebody else\n")
        await page.click("#save")
        await page.locator("#problem", has_text="was changed meanwhile").wait_for()
        assert "somebody else" in (tmp_path / "rules.toml").read_text()


async def test_from_the_log_to_why(looking):
    async with looking() as stage:
        page = stage.page
        await stage.open(f"/audit/{stage.calls[0].call}")
        await page.get_by_role("link", name="What each rule says of this call").click()
        await stage.shows("#explained")
        assert "stranger-decides" in await page.locator("#decides").inner_text()
        await fits(page)
