"""What operators change, each with a passkey, and how it is refused: by the role, without the passkey, on a stale page;
on a desk and on a phone.
"""

import contextlib

import pytest

from callgate.console.cards import key_of
from support.agent_sessions import HANDLE
from support.reviewing import FILES_ID

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def looking(screen, whole_stage):
    """An operator who is signed in, and an approver who is there too."""

    @contextlib.asynccontextmanager
    async def made():
        async with whole_stage(**screen) as stage:
            await stage.signed_in("anna")
            await stage.console.sign_in("bert", role="approver")
            yield stage

    return made


async def role_of(stage, name):
    return (await stage.console.approvals.user(name)).role


async def test_the_kill_switch_goes_on_at_once_and_off_with_a_passkey(looking):
    async with looking() as stage:
        page, switch = stage.page, stage.console.gateway.switch
        await stage.open("/approvals")
        await page.click(".switch")
        await stage.shows("#turn")
        await page.fill("#turn-note", "odd transfers")
        await page.click("#turn button")
        await stage.shows('#turn[data-on="yes"]')
        assert switch.engaged
        assert "odd transfers" in await page.locator("#settings").inner_text()
        assert "Stopped" in await page.locator(".switch").inner_text()
        # Without the passkey everything stays refused.
        await stage.key.verify_user(False)
        await page.click("#turn button")
        assert "Nothing was changed" in await stage.problem()
        assert switch.engaged
        await stage.open("/approvals")
        assert "Every call is refused" in await page.locator("#stopped").inner_text()
        await stage.key.verify_user(True)
        await stage.open("/settings")
        await page.click("#turn button")
        await stage.shows('#turn[data-on="no"]')
        assert not switch.engaged


async def test_a_switch_that_somebody_turned_since_stays_as_it_is(looking):
    async with looking() as stage:
        page, console = stage.page, stage.console
        await console.post("/switch/on", {"note": "first"}, console.people["anna"])
        await stage.open("/settings")
        console.clock.ahead += 5
        await console.post("/switch/on", {"note": "second"}, console.people["bert"])
        await page.click("#turn button")
        assert "no longer so" in await stage.problem()
        assert console.gateway.switch.engaged


async def test_somebody_is_invited_and_enrols_with_the_link(looking):
    async with looking() as stage:
        page = stage.page
        await stage.open("/people")
        await page.click("#invite-open")
        await page.fill("#invite-name", "carl")
        await page.select_option("#invite-role", "viewer")
        await stage.key.verify_user(False)
        await page.click("#invite [type=submit]")
        await page.locator("#invite .form-error", has_text="No passkey was used").wait_for()
        assert await stage.console.approvals.shelf.user("carl") is None
        await stage.key.verify_user(True)
        await page.click("#invite [type=submit]")
        await page.locator("#ticket:not([hidden])").wait_for()
        link = await page.locator("#ticket-link").inner_text()
        assert await role_of(stage, "carl") == "viewer"
        await page.reload()
        assert link not in await page.content()
        await stage.context.clear_cookies()
        await page.goto(link)
        await page.locator("#create").wait_for()
        assert "carl" in await page.locator("main").inner_text()


async def test_a_role_is_changed_with_a_passkey_and_not_without(looking):
    async with looking() as stage:
        page = stage.page
        await stage.open("/people")
        await page.click('a[href="/people/bert"]')
        await stage.shows("#person")
        await page.check('input[value="operator"]')
        await stage.key.verify_user(False)
        await page.click("#role button")
        assert "No passkey was used" in await stage.problem()
        assert await role_of(stage, "bert") == "approver"
        await stage.key.verify_user(True)
        await page.click("#role button")
        await stage.shows('#person[data-role="operator"]')
        assert await role_of(stage, "bert") == "operator"
        # A page that shows what is no longer so.
        await stage.console.approvals.set_role("bert", "viewer", by="olga")
        await page.check('input[value="approver"]')
        await page.click("#role button")
        assert "viewer by now" in await stage.problem()
        assert await role_of(stage, "bert") == "viewer"


async def test_a_passkey_is_revoked_and_a_person_removed_after_a_question(looking):
    async with looking() as stage:
        page, shelf = stage.page, stage.console.approvals.shelf
        await stage.open("/people/bert")
        await page.click("[data-revoke]")
        assert await page.evaluate("document.activeElement.textContent") == "Cancel"
        await page.click("#sure [data-close]")
        assert len(await shelf.credentials("bert")) == 1
        await page.click("[data-revoke]")
        await page.click("#sure [type=submit]")
        await stage.shows("#link")
        assert len(await shelf.credentials("bert")) == 0
        await page.click("#link")
        await page.locator("#ticket:not([hidden])").wait_for()
        await page.click("#remove")
        await page.click("#sure [type=submit]")
        await stage.shows("#people")
        assert await shelf.user("bert") is None


async def test_the_last_operator_cannot_step_down(looking):
    async with looking() as stage:
        await stage.open("/people/anna")
        await stage.page.check('input[value="viewer"]')
        await stage.page.click("#role button")
        assert "Nobody would be left" in await stage.problem()
        assert await role_of(stage, "anna") == "operator"


async def test_a_tool_is_approved_with_a_passkey_and_not_without(looking):
    async with looking() as stage:
        page, pins = stage.page, stage.console.pins
        await stage.open(f"/tools/{key_of(FILES_ID)}/{key_of('list_files')}")
        await stage.key.verify_user(False)
        await page.click('[data-act="approve"]')
        assert "Nothing was decided" in await stage.problem()
        assert (await pins.find(FILES_ID, "list_files")).state == "new"
        await stage.key.verify_user(True)
        await page.click('[data-act="approve"]')
        await page.locator(".badge.approved").wait_for()
        assert (await pins.find(FILES_ID, "list_files")).state == "approved"


async def test_a_held_result_is_released_with_a_passkey_and_not_without(looking):
    async with looking() as stage:
        page, trust = stage.page, stage.console.trust
        await stage.open(f"/quarantine/{HANDLE}")
        await page.click('[data-settle="released"]')
        await stage.key.verify_user(False)
        await page.click("#settle-send")
        await page.locator("#settle .form-error", has_text="Nothing was released").wait_for()
        assert (await trust.shelf.held(HANDLE)).state == "held"
        await stage.key.verify_user(True)
        await page.click("#settle-send")
        await stage.shows('#held[data-state="released"]')
        assert (await trust.shelf.held(HANDLE)).decided_by == "anna"


async def test_demoted_while_the_pages_are_open(looking):
    async with looking() as stage:
        page, console = stage.page, stage.console
        await console.approvals.set_role("bert", "operator", by="operator")
        await stage.open(f"/tools/{key_of(FILES_ID)}/{key_of('list_files')}")
        other = await stage.context.new_page()
        stage.watch(other)
        await other.goto(f"{console.origin}/people/bert")
        await console.approvals.set_role("anna", "viewer", by="bert")
        await page.click('[data-act="approve"]')
        assert "may not decide" in await stage.problem()
        await other.check('input[value="viewer"]')
        await other.click("#role button")
        await other.locator("#problem:not([hidden])", has_text="look at this, not change it").wait_for()
        await page.reload()
        assert await page.locator("[data-act]").count() == 0
        await stage.open("/settings")
        assert await page.locator("#turn").count() == 0


async def test_a_page_of_an_earlier_session_is_refused(looking):
    """Its token is not that of the session by now."""
    async with looking() as stage:
        console = stage.console
        await stage.open("/people/bert")
        _, secret = await console.approvals.session_for(console.people["anna"].credential)
        await stage.context.add_cookies([{"name": console.cookie, "value": secret, "url": console.origin}])
        await stage.page.check('input[value="operator"]')
        await stage.page.click("#role button")
        assert "token" in await stage.problem()
        assert await role_of(stage, "bert") == "approver"


async def test_an_open_page_shows_that_somebody_else_stopped_everything(looking):
    async with looking() as stage:
        await stage.open("/settings")
        await stage.page.locator("html[data-live]").wait_for()
        await stage.console.post("/switch/on", {"note": "from afar"}, stage.console.people["bert"])
        await stage.shows('#turn[data-on="yes"]')
        assert "from afar" in await stage.page.locator("#settings").inner_text()
