"""A person lets a device answer, sees what it answered, and takes it away again."""

import pytest

from support.devices import Phone, ask
from support.registry import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")


@requirement("VA-181")
async def test_a_device_is_enrolled_answers_and_is_revoked(stage, tmp_path):
    page, console = stage.page, stage.console
    await stage.signed_in()
    await stage.open("/me")
    phone = await Phone.made(console, "anna")
    await page.click("#answer-device")
    await page.fill("#device-line", f"  {phone.device.line()}\n")
    # Without the passkey nothing is enrolled, and another person's line neither.
    await stage.key.verify_user(False)
    await page.click("#enrol-device [type=submit]")
    await page.locator("#enrol-device .form-error", has_text="No passkey was used").wait_for()
    await stage.key.verify_user(True)
    await page.screenshot(path=tmp_path / "dialog.png")
    line = phone.device.line()
    await page.fill("#device-line", (await Phone.made(console, "ben")).device.line())
    await page.click("#enrol-device [type=submit]")
    await page.locator("#enrol-device .form-error", has_text="for somebody else").wait_for()
    assert await console.approvals.shelf.credentials("anna", method="device") == []
    await page.fill("#device-line", line)
    await page.click("#enrol-device [type=submit]")
    await page.locator("[data-device]").wait_for()
    assert "Pixel" in await page.locator("#me").inner_text()
    # The page says that the device can answer, and afterwards that it did, without a passkey.
    asked = await ask(console)
    await stage.open(f"/approve/{asked.id}")
    assert "You can also answer on Pixel, without a passkey" in await page.locator("#decide").inner_text()
    await page.screenshot(path=tmp_path / "waiting.png", full_page=True)
    assert (await phone.answer(asked)).json == {"state": "approved"}
    await stage.becomes("approved")
    assert "anna approved on the device “Pixel”, without a passkey" in await page.locator("#call").inner_text()
    await page.screenshot(path=tmp_path / "approved.png", full_page=True)
    other = await ask(console, arguments={"resourceId": "other"})
    assert (await phone.answer(other, "no")).json == {"state": "refused"}
    await stage.open(f"/approve/{other.id}")
    assert "anna refused on the device “Pixel”, without a passkey" in await page.locator("#call").inner_text()
    # Revoked with the passkey; what it had approved goes with it.
    await stage.open("/me")
    await page.screenshot(path=tmp_path / "me.png", full_page=True)
    await page.click("[data-device]")
    assert "Revoke this device?" in await page.locator("#revoke").inner_text()
    assert "only one" not in await page.locator("#revoke").inner_text()
    await page.click("#revoke [type=submit]")
    await page.locator("[data-device]").wait_for(state="detached")
    assert (await phone.ask("waiting")).reason == "unknown_credential"
    await stage.open(f"/approve/{asked.id}")
    assert "the passkey or device that approved this call was revoked" in await page.locator("#call").inner_text()
