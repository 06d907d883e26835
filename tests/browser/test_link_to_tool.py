"""The whole way through real processes, as shipped: set-up link, passkey, an SDK client's call, the page, the tool."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import mcp_types as types
import pytest
import pytest_asyncio
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from playwright.async_api import Page

from support.browser import PATIENCE_MS, VirtualAuthenticator, add_authenticator
from support.fork_server import CALLGATE
from support.gateway import approve_listed, list_tools
from support.registry import requirement
from support.table import rows

pytestmark = pytest.mark.asyncio(loop_scope="session")

VAULT = Path(__file__).resolve().parent.parent / "support" / "vault.py"
LINK = re.compile(r"(http://localhost:\d+)/enrol#\S+")


@dataclass
class Way:
    """A person at a browser, and a gateway in front of a server with dangerous tools."""

    origin: str
    page: Page
    key: VirtualAuthenticator
    folder: Path

    @property
    def url(self):
        return f"{self.origin}/servers/vault/mcp"

    def client(self, mode="legacy", **more):
        return Client(self.url, mode=mode, read_timeout_seconds=60, **more)

    def ran(self, name):
        """How often the server's tool was called with this id."""
        received = [json.loads(line) for line in (self.folder / "received").read_text().splitlines()]
        calls = [one["params"]["arguments"] for one in received if one.get("method") == "tools/call"]
        return calls.count({"id": name})

    async def open_call(self, tool="wipe", phase="waiting"):
        """The page of a call, found from the console's first page as a person would; calls appear as they come."""
        await self.page.goto(self.origin)
        await self.page.click('.places a[href="/approvals"]')
        await self.page.get_by_role("link", name=f"{tool} on vault", exact=True).first.click()
        await self.page.locator(f'#call[data-phase="{phase}"]').wait_for()


@contextmanager
def serving(folder, **approval):
    """A gateway as a person starts it; yields the link that it prints for the first one."""
    lines = ["[gateway]", 'listen = "127.0.0.1:0"', "[store]", 'url = "sqlite:///callgate.db"', "[approval]"]
    # Browsers are slow on a busy machine: the call waits for its person all the same.
    settings = {"user": "anna", "park_seconds": 120, **approval}
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    command = json.dumps([sys.executable, "-I", "-S", str(VAULT), "stdio", str(folder)])
    lines += ["[servers.vault]", f"command = {command}", 'approval = { tools = ["wipe*"] }']
    (folder / "callgate.toml").write_text("\n".join(lines))
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [CALLGATE, "serve", "-c", str(folder / "callgate.toml")], stdout=terminal, stderr=subprocess.DEVNULL
    )
    os.close(terminal)
    try:
        with os.fdopen(reader, errors="replace") as screen:
            yield next(found for line in screen if (found := LINK.search(line)))
    finally:
        process.terminate()
        process.wait(timeout=20)


@asynccontextmanager
async def set_up(browser, folder, **approval):
    """The gateway runs, and its first person has followed the link."""
    with serving(folder, **approval) as link:
        context = await browser.new_context()
        try:
            page = await context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            key = await add_authenticator(page)
            await page.goto(link[0])
            await page.click("#create button")
            await page.locator("#codes li").first.wait_for()
            await page.click("#continue")
            await page.locator("#home").wait_for()
            way = Way(link[1], page, key, folder)
            await asyncio.to_thread(list_tools, way.url)
            await asyncio.to_thread(approve_listed, folder / "callgate.toml")
            yield way
        finally:
            await context.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def way(browser, tmp_path_factory):
    """One gateway and one person; each test has a call of its own, and none leaves one of `wipe` waiting."""
    async with set_up(browser, tmp_path_factory.mktemp("way")) as ready:
        yield ready


@requirement("VA-003", "VA-173")
async def test_an_approved_call_runs_once(way):
    async with way.client() as client:
        call = asyncio.create_task(client.call_tool("wipe", {"id": "north"}))
        await way.open_call()
        assert '"north"' in await way.page.locator("#display-text").text_content()
        assert way.ran("north") == 0
        await way.page.click("#approve")
        result = await call
    assert not result.is_error
    assert way.ran("north") == 1
    await way.page.locator('#call[data-phase="used"]').wait_for()


async def test_a_refusal_reaches_the_agent(way):
    async with way.client() as client:
        call = asyncio.create_task(client.call_tool("wipe", {"id": "south"}))
        await way.open_call()
        await way.page.click("#refuse-open")
        await way.page.fill("#note", "Not before Friday.")
        await way.page.click("#refuse-form button[type=submit]")
        with pytest.raises(MCPError) as refused:
            await call
    assert refused.value.error.data["reason"] == "approval_refused"
    assert "Not before Friday." in refused.value.error.message
    assert way.ran("south") == 0


async def test_without_verification_of_the_person_nothing_runs(way):
    async with way.client() as client:
        call = asyncio.create_task(client.call_tool("wipe_all", {"id": "west"}))
        await way.open_call("wipe_all")
        await way.key.verify_user(False)
        await way.page.click("#approve")
        await way.page.locator("#problem:not([hidden])").wait_for()
        await way.key.verify_user(True)
        assert way.ran("west") == 0
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


@pytest.mark.verify
async def test_a_call_that_nobody_decides_expires(browser, tmp_path):
    async with set_up(browser, tmp_path, request_seconds=5, park_seconds=60) as way, way.client() as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("wipe", {"id": "east"})
        assert refused.value.error.data["reason"] == "approval_expired"
        await way.open_call(phase="expired")
        assert await way.page.locator("#approve").count() == 0
        assert way.ran("east") == 0


@rows("mode", ["legacy", LATEST_MODERN_VERSION])
async def test_a_client_that_opens_addresses_leads_its_person_to_the_page(way, mode):
    async def elicit(_context, params):
        await way.page.goto(params.url)
        await way.page.click("#approve")
        return types.ElicitResult(action="accept")

    async with way.client(mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("wipe", {"id": f"centre {mode}"})
    assert not result.is_error
    assert way.ran(f"centre {mode}") == 1
