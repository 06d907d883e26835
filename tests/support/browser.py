"""A real Chromium with a virtual authenticator in it (CDP domain WebAuthn), for tests of pages that use passkeys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from playwright.async_api import Browser, CDPSession, Page, Playwright, async_playwright

from callgate.sdk.authenticators.software import Passkey
from support.browser_server import endpoint

# The first is the same engine without the windows and services around it: half the work for a test.
NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE_MS: Final = 20_000


# tests/conftest.py hides CALLGATE_* from the code under test, so the choice is read when this module is loaded.
_CHOSEN: Final = os.environ.get("CALLGATE_CHROMIUM")


def find_chromium(playwright: Playwright) -> str:
    """CALLGATE_CHROMIUM, then the PATH, then Playwright's own; the test fails with one line if there is none."""
    found = _CHOSEN or next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
    if not Path(found).is_file():
        pytest.fail(
            "there is no Chromium for the browser tests: apt-get install chromium-headless-shell", pytrace=False
        )
    return found


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The Chromium of this run; what is opened in it here is closed at the end, and nobody else's.

    WebAuthn needs pages on http://localhost, not on 127.0.0.1.
    """
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect(await asyncio.to_thread(endpoint, find_chromium(playwright)))
        try:
            yield browser
        finally:
            await browser.close()


@dataclass(frozen=True)
class VirtualAuthenticator:
    """An authenticator that one page's browser believes to have."""

    cdp: CDPSession
    id: str

    async def credentials(self) -> list[dict[str, Any]]:
        """Its passkeys as CDP tells them: credentialId (padded base64), signCount, isResidentCredential and so on."""
        answer = await self.cdp.send("WebAuthn.getCredentials", {"authenticatorId": self.id})
        found: list[dict[str, Any]] = answer["credentials"]
        return found

    async def verify_user(self, verified: bool) -> None:
        """Whether the next user verification succeeds."""
        await self.cdp.send("WebAuthn.setUserVerified", {"authenticatorId": self.id, "isUserVerified": verified})

    async def simulate_presence(self, present: bool) -> None:
        """Whether the next question for a touch is answered at once, or never."""
        await self.cdp.send("WebAuthn.setAutomaticPresenceSimulation", {"authenticatorId": self.id, "enabled": present})

    async def take_over(self, passkey: Passkey) -> None:
        """Put in a passkey of a software authenticator, so that the browser can sign with it."""
        private = passkey.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        credential = {
            "credentialId": b64encode(passkey.id).decode(),
            "isResidentCredential": True,
            "rpId": passkey.rp_id,
            "privateKey": b64encode(private).decode(),
            "userHandle": b64encode(passkey.handle).decode(),
            "signCount": passkey.counter,
        }
        await self.cdp.send("WebAuthn.addCredential", {"authenticatorId": self.id, "credential": credential})


async def add_authenticator(
    page: Page,
    *,
    transport: str = "usb",
    has_user_verification: bool = True,
    is_user_verified: bool = True,
    resident_key: bool = True,
) -> VirtualAuthenticator:
    """Give a page an authenticator; it lasts as long as the page, over all its navigations."""
    cdp = await page.context.new_cdp_session(page)
    await cdp.send("WebAuthn.enable", {"enableUI": False})
    options = {
        "protocol": "ctap2",
        "transport": transport,
        "hasResidentKey": resident_key,
        "hasUserVerification": has_user_verification,
        "isUserVerified": is_user_verified,
        "automaticPresenceSimulation": True,
    }
    answer = await cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return VirtualAuthenticator(cdp, str(answer["authenticatorId"]))
