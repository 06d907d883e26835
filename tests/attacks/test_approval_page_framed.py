"""Another site shows the approval page in a frame under its own buttons, to have them clicked through (clickjacking)."""

import contextlib

from aiohttp import web
from playwright.async_api import Error

from support.browser import PATIENCE_MS, chromium
from support.console import live_console
from support.table import rows

FRAMES = """<!doctype html><title>evil</title>
<iframe id=a src="{0}"></iframe><object id=b data="{0}"></object><embed id=c src="{0}">"""


@contextlib.asynccontextmanager
async def framing(address):
    async def page(_request):
        return web.Response(text=FRAMES.format(address), content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site._server.sockets[0].getsockname()[1]
    finally:
        await runner.cleanup()


async def shown(frame):
    """What is in a frame; nothing where the browser has taken it away by now."""
    try:
        return await frame.content()
    except Error:
        return ""


@rows("host", ["localhost", "127.0.0.1"])
async def test_the_page_does_not_show_itself_inside_another(host):
    async with live_console() as console, chromium() as browser:
        person = await console.sign_in()
        asked = await console.ask()
        context = await browser.new_context()
        await context.add_cookies(
            [{"name": console.cookie, "value": person.cookie[console.cookie], "url": console.origin}]
        )
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        address = f"{console.origin}/approve/{asked.id}"
        await page.goto(address)
        assert await page.locator("#approve").count() == 1, "by itself it does show"
        async with framing(address) as port:
            refused = []
            page.on("console", lambda said: refused.append(said.text))
            await page.goto(f"http://{host}:{port}/", wait_until="load")
            frames = [frame for frame in page.frames if frame is not page.main_frame]
            assert frames
            for frame in frames:
                assert not frame.url.startswith(console.origin)
                inside = await shown(frame)
                assert "delete_resource" not in inside
                assert 'id="approve"' not in inside
            assert any("frame-ancestors" in text or "X-Frame-Options" in text for text in refused)
        assert (await console.stored(asked)).state == "waiting"
