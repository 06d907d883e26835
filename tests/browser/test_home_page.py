"""The first page: signing in and out, waiting calls, looking after passkeys."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_sign_in_and_out(stage):
    await stage.person()
    await stage.open("/")
    await stage.page.click("#with-passkey")
    await stage.shows(".places")
    await stage.page.click("#sign-out")
    await stage.shows("#with-passkey")
    await stage.open("/")
    await stage.shows("#with-passkey")
    assert await stage.context.cookies() == []


async def test_sign_in_with_a_key_that_does_not_know_its_user(stage_with):
    async with stage_with(resident_key=False) as stage:
        ticket = await stage.console.approvals.ticket("anna", by="operator")
        await stage.open(f"/enrol#{ticket}")
        await stage.page.click("#create button")
        await stage.page.locator("#continue").wait_for()
        await stage.context.clear_cookies()
        await stage.page.click("#continue")
        await stage.shows("#with-passkey")
        await stage.page.click("text=My security key needs my name")
        await stage.page.fill("#user", "anna")
        await stage.page.keyboard.press("Enter")
        await stage.shows(".places")


async def test_sign_in_without_the_person_verified(stage):
    await stage.person()
    await stage.key.verify_user(False)
    await stage.open("/")
    await stage.page.click("#with-passkey")
    assert "No passkey was used" in await stage.problem()
    assert await stage.context.cookies() == []


async def test_calls_appear_by_themselves_and_lead_to_their_page(stage):
    await stage.signed_in()
    await stage.open("/approvals")
    assert "Nothing waits" in await stage.page.locator("h1").inner_text()
    asked = await stage.console.ask()
    await stage.page.locator(".call").wait_for()
    preview = 'resourceId: "prod/customers-eu" · cascade: true · limit: 250'
    assert await stage.page.locator(".call-preview").inner_text() == preview
    assert "1 call waits" in await stage.page.locator("h1").inner_text()
    await stage.page.click(".call a")
    await stage.becomes("waiting")
    assert stage.page.url.endswith(asked.id)
    await stage.console.approvals.refuse(asked.id, by="anna", note="")
    await stage.open("/approvals")
    assert "Refused" in await stage.page.locator("section", has_text="Decided lately").inner_text()


async def test_rename_a_passkey(stage):
    person = await stage.signed_in()
    await stage.open("/me")
    await stage.page.click("[data-rename]")
    assert await stage.page.input_value("#new-name") == "Test key"
    await stage.page.fill("#new-name", "Key on my ring")
    await stage.page.keyboard.press("Enter")
    await stage.page.locator("th", has_text="Key on my ring").wait_for()
    assert (await stage.console.approvals.shelf.credential(person.credential.id)).name == "Key on my ring"


async def test_revoke_asks_first_and_ends_the_session(stage):
    person = await stage.signed_in()
    await stage.open("/me")
    await stage.page.click("[data-revoke]")
    box = stage.page.locator("#revoke")
    assert "Test key" in await box.inner_text()
    assert "your only one" in await box.inner_text()
    assert await stage.page.evaluate("document.activeElement.textContent") == "Cancel"
    await stage.page.keyboard.press("Escape")
    assert not await revoked(stage, person)
    await stage.page.click("[data-revoke]")
    await box.locator("button[type=submit]").click()
    await stage.shows("#with-passkey")
    assert await revoked(stage, person)
    await stage.page.click("#with-passkey")
    assert "failed" in await stage.problem()


async def revoked(stage, person):
    return (await stage.console.approvals.shelf.credential(person.credential.id)).revoked_at is not None


async def test_revoking_a_lost_passkey_takes_a_signature_of_another(stage):
    lost = await stage.console.sign_in()
    await stage.console.approvals.rename(lost.credential.id, "Lost key", by="anna")
    person = await stage.signed_in()
    await stage.key.verify_user(False)
    await stage.open("/me")
    await stage.page.click(f'[data-revoke="{lost.credential.id}"]')
    box = stage.page.locator("#revoke")
    assert "Lost key" in await box.inner_text()
    assert "sign with another" in await box.inner_text()
    await box.locator("button[type=submit]").click()
    await box.locator(".form-error", has_text="Nothing was revoked").wait_for()
    assert not await revoked(stage, lost)
    await stage.key.verify_user(True)
    await box.locator("button[type=submit]").click()
    await stage.page.locator("th", has_text="Lost key").wait_for(state="detached")
    await stage.shows("#me")
    assert await revoked(stage, lost)
    assert not await revoked(stage, person)
    assert await stage.page.locator("[data-revoke]").count() == 1


async def test_who_closes_the_question_has_revoked_nothing(stage):
    person = await stage.signed_in()
    await stage.key.simulate_presence(False)
    await stage.open("/me")
    await stage.page.click("[data-revoke]")
    box = stage.page.locator("#revoke")
    await box.locator("button[type=submit]").click()
    await box.locator("#revoke-status", has_text="asking for your passkey").wait_for()
    await box.locator("[data-close]").click()
    await stage.key.simulate_presence(True)
    # The passkey is free again for the next question, and the first one is forgotten.
    await stage.page.click("#add-device")
    await stage.page.locator("#ticket:not([hidden])").wait_for()
    assert not await revoked(stage, person)


async def test_at_the_wrong_address_the_way_to_the_right_one_keeps_the_ticket(stage):
    ticket = await stage.console.approvals.ticket("anna", by="operator")
    await stage.page.goto(f"http://127.0.0.1:{stage.console.port}/enrol#{ticket}")
    await stage.page.click("#elsewhere[href*='#']")
    await stage.page.locator("#create").wait_for()


async def test_a_browser_without_passkeys_is_told(stage):
    await stage.page.add_init_script("delete window.PublicKeyCredential")
    await stage.open("/sign-in")
    await stage.page.click("#with-passkey")
    assert "cannot use passkeys" in await stage.problem()


async def test_a_browser_without_the_json_forms_of_webauthn(stage):
    """Older browsers have only the binary ones."""
    await stage.page.add_init_script(
        "for (const name of ['parseCreationOptionsFromJSON', 'parseRequestOptionsFromJSON'])"
        " delete PublicKeyCredential[name]; delete PublicKeyCredential.prototype.toJSON;"
    )
    await stage.open(f"/enrol#{await stage.console.approvals.ticket('anna', by='operator')}")
    await stage.page.click("#create button")
    await stage.page.click("#continue")
    asked = await stage.console.ask()
    await stage.open(f"/approve/{asked.id}")
    await stage.page.click("#approve")
    await stage.becomes("approved")
