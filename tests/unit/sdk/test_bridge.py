"""The bridge's page over plain HTTP: what a stranger on this machine or on the web could try."""

import asyncio
import contextlib
import json
import re
import socket
from html import unescape

import aiohttp
import pytest
from msgspec import structs

from callgate.sdk.authenticators import Cancelled, CreationPrompt, NoPasskey, Prompt, TimedOut
from callgate.sdk.authenticators.browser import ANSWER_BYTES, BrowserAuthenticator
from support.table import rows

OPTIONS = {"challenge": "AAAA", "rpId": "localhost", "allowCredentials": [], "userVerification": "required"}
RESPONSE = {"id": "x", "response": {"signature": "y", "userHandle": None}}


def prompt(text="Delete it?", *, expires_at=1_030.0, **options):
    return Prompt(
        display_text=text,
        tool="delete_resource",
        server="files",
        request_options=OPTIONS | options,
        expires_at=expires_at,
    )


class RawClient:
    """A program that speaks to the bridge as a browser would, or would not."""

    def __init__(self, address, session):
        self.address = address
        self.origin, self.path = re.fullmatch(r"(http://localhost:\d+)(/[\w-]{43})", address).groups()
        self._session = session

    async def get(self, path=None, **headers):
        async with self._session.get(self.origin + (self.path if path is None else path), headers=headers) as reply:
            return reply.status, await reply.text(), reply.headers

    async def load(self):
        """What the page was told."""
        status, text, _ = await self.get()
        assert status == 200
        return json.loads(unescape(re.search(r'data-visit="([^"]*)"', text)[1]))

    async def post(self, body, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Origin": self.origin, "Content-Type": "application/json"} | headers
        async with self._session.post(self.address, data=data, headers=headers) as reply:
            return reply.status


@contextlib.asynccontextmanager
async def asked(question=None, **more):
    """A question under way: the visitor, and the task that waits for the answer."""
    said = asyncio.Queue()
    opened = asyncio.Queue()
    loop = asyncio.get_running_loop()
    authenticator = BrowserAuthenticator(
        open_page=lambda address: loop.call_soon_threadsafe(opened.put_nowait, address),
        say=said.put_nowait,
        clock=lambda: 1_000.0,
        **more,
    )
    question = question or prompt()
    ask = authenticator.create if isinstance(question, CreationPrompt) else authenticator.get
    task = asyncio.create_task(ask(question))
    async with asyncio.timeout(10), aiohttp.ClientSession() as session:
        address = await opened.get()
        assert (await said.get()).endswith(f" {address}")
        try:
            yield RawClient(address, session), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_answer_comes_back_as_it_was_given():
    async with asked() as (visitor, task):
        told = await visitor.load()
        assert await visitor.post({"token": told["token"], "response": RESPONSE}) == 204
        assert await task == RESPONSE


@rows("text", ["a\r\nb\x00\tc  d\n", "\n\n first", "<b>&amp;</b>'\"{{visit}}", "\u202eevil", "\ud800", "x" * 200_000])
async def test_the_page_is_told_the_text_as_it_is(text):
    async with asked(prompt(text)) as (visitor, _):
        told = await visitor.load()
        assert told["text"] == text
        assert told["facts"] == [["Server", "files"], ["Tool", "delete_resource"]]
        assert told["options"] == OPTIONS


async def test_the_page_is_told_what_the_client_sends():
    """The text is the server's, who may say something else."""
    question = structs.replace(prompt("Read a file?"), arguments={"path": "/\u202eetc", "deep": [1, None, "\\"]})
    async with asked(question) as (visitor, _):
        told = dict((await visitor.load())["facts"])
    assert told["Arguments"] == r'{"path": "/\u202eetc", "deep": [1, null, "\\"]}'
    async with asked(structs.replace(question, arguments={})) as (visitor, _):
        assert dict((await visitor.load())["facts"])["Arguments"] == "none"


async def test_the_page_is_at_the_port_that_a_server_expects():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NoPasskey, match=f"port {port} of this machine is taken"):
            await BrowserAuthenticator(port=port, say=lambda _: None, clock=lambda: 1_000.0).get(prompt())
    async with asked(port=port) as (visitor, task):
        assert visitor.origin == f"http://localhost:{port}"
        told = await visitor.load()
        assert await visitor.post({"token": told["token"], "response": RESPONSE}) == 204
        assert await task == RESPONSE


async def test_the_page_opens_once():
    async with asked() as (visitor, _):
        await visitor.load()
        status, text, _ = await visitor.get()
        assert status == 410
        assert "data-visit" not in text


async def test_a_browser_that_loads_ahead_does_not_use_the_page_up():
    async with asked() as (visitor, _):
        assert (await visitor.get(None, **{"Sec-Purpose": "prefetch;prerender"}))[0] == 503
        await visitor.load()


@rows("path", ["/", "/favicon.ico", "/page.html", "/../page.html", "/" + "A" * 43, "/page.js/", "//page.js"])
async def test_nothing_else_is_there(path):
    async with asked() as (visitor, _):
        assert (await visitor.get(path))[0] == 404


async def test_every_answer_forbids_what_the_page_does_not_need():
    async with asked() as (visitor, _):
        for path in (None, None, "/page.js", "/page.css", "/nowhere"):
            _, text, headers = await visitor.get(path)
            assert headers["Content-Security-Policy"] == (
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
            )
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert "server" not in {name.lower() for name in headers}
            assert not re.search(r"<script[^>]*>[^<]|\son\w+=|style=|https?://", text)


@rows("host", ["127.0.0.1:{port}", "localhost", "localhost:1", "evil.example:{port}", "LOCALHOST.:{port}"])
async def test_another_host_name_gets_nothing(host):
    async with asked() as (visitor, _):
        port = visitor.origin.rpartition(":")[2]
        assert (await visitor.get(None, Host=host.format(port=port)))[0] == 403
        await visitor.load()


@rows("origin", ["http://evil.example", "null", "http://localhost", "https://localhost:1"])
async def test_another_page_cannot_answer(origin):
    async with asked() as (visitor, task):
        token = (await visitor.load())["token"]
        assert await visitor.post({"token": token, "cancelled": True}, Origin=origin) == 403
        assert not task.done()


async def test_who_has_not_seen_the_page_cannot_answer():
    async with asked() as (visitor, task):
        assert await visitor.post({"token": "", "cancelled": True}) == 403
        await visitor.load()
        assert await visitor.post({"token": visitor.path[1:], "response": RESPONSE}) == 403
        assert await visitor.post({"token": "\ud800", "response": RESPONSE}) in (400, 403)
        assert not task.done()


@rows(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 50_000, 400),
        ({"response": RESPONSE}, 400),
        ({"token": "TOKEN"}, 400),
        ({"token": "TOKEN", "response": "text"}, 400),
        ({"token": "TOKEN", "response": RESPONSE, "cancelled": True}, 400),
        (b" " * (ANSWER_BYTES + 1), 413),
    ],
)
async def test_what_is_no_answer_is_refused_and_the_page_can_still_answer(body, status):
    async with asked() as (visitor, task):
        token = (await visitor.load())["token"]
        if isinstance(body, dict) and "token" in body:
            body = body | {"token": token}
        assert await visitor.post(body) == status
        assert await visitor.post({"token": token, "response": RESPONSE}) == 204
        assert await task == RESPONSE


async def test_a_form_cannot_answer():
    async with asked() as (visitor, _):
        token = (await visitor.load())["token"]
        answer = {"token": token, "cancelled": True}
        assert await visitor.post(answer, **{"Content-Type": "text/plain"}) == 415


async def test_the_person_can_say_no():
    async with asked() as (visitor, task):
        token = (await visitor.load())["token"]
        assert await visitor.post({"token": token, "cancelled": True}) == 204
        with pytest.raises(Cancelled):
            await task


async def test_a_browser_that_cannot_is_told_of():
    async with asked() as (visitor, task):
        token = (await visitor.load())["token"]
        await visitor.post({"token": token, "error": "NotSupportedError"})
        with pytest.raises(NoPasskey, match="NotSupportedError"):
            await task


async def test_nobody_is_waited_for_longer_than_the_time_given():
    async with asked(timeout=0.05) as (_, task):
        with pytest.raises(TimedOut):
            await task


async def test_a_challenge_that_is_over_opens_nothing():
    opened = []
    authenticator = BrowserAuthenticator(open_page=opened.append, clock=lambda: 1_030.0, say=opened.append)
    with pytest.raises(TimedOut):
        await authenticator.get(prompt())
    assert opened == []


async def test_passkeys_of_another_domain_are_told_apart_with_advice():
    opened = []
    authenticator = BrowserAuthenticator(open_page=opened.append, say=opened.append, clock=lambda: 1_000.0)
    with pytest.raises(NoPasskey, match=r"example\.com") as caught:
        await authenticator.get(prompt(rpId="example.com"))
    assert "--authenticator usb" in caught.value.advice
    creation = CreationPrompt(
        server="files", user="ann", creation_options={"rp": {"id": "example.com"}}, expires_at=1_030.0
    )
    with pytest.raises(NoPasskey, match=r"example\.com"):
        await authenticator.create(creation)
    assert opened == []


async def test_an_opener_that_breaks_leaves_the_address(caplog):
    said = asyncio.Queue()

    def broken(_address):
        raise OSError("no browser")

    authenticator = BrowserAuthenticator(open_page=broken, say=said.put_nowait, clock=lambda: 1_000.0, timeout=5)
    task = asyncio.create_task(authenticator.get(prompt()))
    async with asyncio.timeout(10), aiohttp.ClientSession() as session:
        visitor = RawClient((await said.get()).split()[-1], session)
        token = (await visitor.load())["token"]
        await visitor.post({"token": token, "response": RESPONSE})
        assert await task == RESPONSE
    assert "no browser was opened" in caplog.text


async def test_every_page_has_secrets_of_its_own():
    seen = set()
    for _ in range(3):
        async with asked() as (visitor, _):
            seen |= {visitor.path[1:], (await visitor.load())["token"]}
    assert len(seen) == 6
    assert all(len(secret) == 43 for secret in seen)


async def test_the_page_is_gone_after_the_answer():
    async with asked() as (visitor, task):
        token = (await visitor.load())["token"]
        await visitor.post({"token": token, "response": RESPONSE})
        await task
        with pytest.raises(aiohttp.ClientConnectionError):
            await visitor.get()
