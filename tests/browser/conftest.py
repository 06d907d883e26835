"""One Chromium for all tests of the console; for each a console, a page and an authenticator of its own.

One width and scheme in `make test`, all of them in `make verify`.
"""

import contextlib
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page

from support.browser import PATIENCE_MS, VirtualAuthenticator, add_authenticator, chromium
from support.console import Browsing, LiveConsole, live_console, whole_console

DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "has_touch": True}


@dataclass
class Stage:
    """A person at a browser, and the console they look at."""

    console: LiveConsole
    context: BrowserContext
    page: Page
    key: VirtualAuthenticator
    troubles: list = field(default_factory=list)

    async def person(self, user="anna") -> Browsing:
        """Somebody with a passkey in this browser's authenticator, not signed in."""
        person = await self.console.sign_in(user)
        await self.key.take_over(person.key.passkeys[0])
        return person

    async def signed_in(self, user="anna") -> Browsing:
        """The same, signed in."""
        person = await self.person(user)
        secret = person.cookie[self.console.cookie]
        await self.context.add_cookies([{"name": self.console.cookie, "value": secret, "url": self.console.origin}])
        return person

    async def open(self, path):
        await self.page.goto(f"{self.console.origin}{path}")

    async def waiting(self, arguments=None, **options):
        """A call that waits, its page open before a person who is signed in."""
        await self.signed_in()
        asked = await (self.console.ask(**options) if arguments is None else self.console.ask(arguments, **options))
        await self.open(f"/approve/{asked.id}")
        return asked

    async def shows(self, selector, page=None):
        """Wait until a page that a script or link led to shows this, its own scripts running: before, clicks are lost."""
        page = page or self.page
        await page.locator(selector).wait_for()
        await page.wait_for_load_state("load")

    async def becomes(self, phase, page=None):
        """Wait until the page shows this state of the call."""
        await self.shows(f'#call[data-phase="{phase}"]', page)

    async def problem(self):
        """What the page complains about."""
        box = self.page.locator("#problem:not([hidden])")
        await box.wait_for()
        return await box.inner_text()

    def watch(self, page):
        """No script may fail, and nothing may break the content security policy, on any page of any test."""
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("console", lambda said: "Content Security Policy" in said.text and self.troubles.append(said.text))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    async with chromium() as running:
        yield running


@contextlib.asynccontextmanager
async def staged(browser, options=None, **authenticator):
    given = {"describe_server": lambda _: "https://tools.example/mcp"} | (options or {})
    async with live_console(**given) as console, watched(browser, console, {}, **authenticator) as stage:
        yield stage


@contextlib.asynccontextmanager
async def watched(browser, console, look, **authenticator):
    """Somebody before a console that runs; `look` are options of the browser's context."""
    context = await browser.new_context(**look)
    try:
        page = await context.new_page()
        stage = Stage(console, context, page, await add_authenticator(page, **authenticator))
        stage.watch(page)
        yield stage
        assert stage.troubles == []
    finally:
        await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(browser):
    async with staged(browser) as ready:
        yield ready


@pytest.fixture
def stage_with(browser):
    """For another authenticator than a security key that verifies its user."""
    return lambda **authenticator: staged(browser, **authenticator)


@pytest.fixture
def stage_of(browser):
    """For a console with further options, such as the pins of tools."""
    return lambda **options: staged(browser, options)


@pytest.fixture(params=[pytest.param(DESK, id="desk"), pytest.param(PHONE, id="phone", marks=pytest.mark.verify)])
def screen(request):
    """Options of the browser's context: a desk, and in `make verify` a phone at night too."""
    return request.param


@pytest.fixture
def whole_stage(browser, tmp_path):
    """For a console with everything that a gateway shows; `text` is its configuration, options the browser's context's."""

    @contextlib.asynccontextmanager
    async def made(text="", **look):
        async with whole_console(tmp_path, text) as console, watched(browser, console, look) as stage:
            yield stage

    return made
