"""A person lets an agent make at most three transfers to one account, 100 in sum, until Friday, and takes it back."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from support.browser import PATIENCE_MS, add_authenticator
from support.granting import KeyedAgent, Signer, api_key
from support.persons import approval_site
from support.registry import requirement
from support.states import reason

pytestmark = pytest.mark.asyncio(loop_scope="session")
ACCOUNT = "DE02 1001 0010 0006 8201 01"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    agents = {"mode": "optional", "api_keys": {"enabled": True}}
    tools = {"tools": ["transfer"]}
    folder = tmp_path_factory.mktemp("grants")
    with approval_site(folder, "bank", agents=agents, approval={"park_seconds": 0}, servers_approval=tools) as it:
        it.agent = KeyedAgent(it, api_key(it, "nightly-payments"))
        it.signer = Signer.arrive(it)
        yield it


@pytest_asyncio.fixture(loop_scope="session")
async def page(site, browser):
    """The person's browser, signed in, with their passkey."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    key = await add_authenticator(page)
    await key.take_over(site.person.key.passkeys[0])
    name, _, value = site.signer.headers["cookie"].partition("=")
    await context.add_cookies([{"name": name, "value": value, "url": site.signer.origin}])
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: "Content Security Policy" in said.text and troubles.append(said.text))
    yield page
    await context.close()
    assert troubles == []


def friday():
    now = datetime.now(UTC)
    return (now + timedelta(days=(4 - now.weekday()) % 7 + 1)).strftime("%Y-%m-%dT18:00")


async def transfer(site, amount, to=ACCOUNT):
    return await asyncio.to_thread(site.agent.call, "transfer", to=to, amount=amount)


@requirement("VA-183")
async def test_three_transfers_until_friday_and_taken_back(site, page):
    told = await transfer(site, 25)
    await page.goto(told["error"]["data"]["approval"]["url"])
    await page.get_by_role("link", name="Let this agent make such calls without you").click()
    # The form has the call: this agent, this account.
    await page.locator("#draft").wait_for()
    assert "nightly-payments" in await page.locator("#agent option:checked").inner_text()
    assert await page.locator('[name="value.to"]').input_value() == ACCOUNT
    await page.locator('[name="rule.amount"]').select_option("anything")
    await page.locator("#calls").fill("3")
    await page.locator("#until").fill(friday())
    await page.locator("#sum-of").select_option("amount")
    await page.locator("#sum").fill("100")
    await page.get_by_role("button", name="Show what I would sign").click()
    terms = await page.locator("#terms").inner_text()
    for line in (f'exactly "{ACCOUNT}"', "at most 3", "amount of all these calls together: at most 100", friday()[:10]):
        assert line in terms, line
    assert "No other argument may be there." in terms
    # What is changed now is not what was shown.
    await page.locator("#calls").fill("4")
    assert not await page.locator("#preview").is_visible()
    await page.locator("#calls").fill("3")
    await page.get_by_role("button", name="Show what I would sign").click()
    await page.get_by_role("button", name="Sign with passkey").click()
    await page.locator("#grant").wait_for()
    assert "3 of 3" in await page.locator("dl.facts").first.inner_text()

    assert "result" in await transfer(site, 40)
    assert "result" in await transfer(site, 40)
    assert reason(await transfer(site, 20.01)) == "missing_evidence"
    assert reason(await transfer(site, 1, to="DE02 1001 0010 0006 8201 02")) == "missing_evidence"
    await page.reload()
    left = await page.locator("dl.facts").first.inner_text()
    assert "1 of 3" in left
    assert "20 of 100" in left

    await page.goto(f"{site.signer.origin}/grants")
    await page.get_by_role("link", name="Show the grant for transfer").click()
    await page.get_by_role("button", name="Revoke it now").click()
    await page.get_by_text("revoked", exact=True).wait_for()
    assert reason(await transfer(site, 1)) == "missing_evidence"
