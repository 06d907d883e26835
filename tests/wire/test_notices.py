"""A call is parked by a real gateway, and who should know of it is told: on the console's stream, in a terminal, by webhook."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator

import aiohttp
import pytest

from callgate.store import Block, set_block
from support.fork_server import CALLGATE
from support.listening import Receiver, Watcher, listening_to, receiving, watching
from support.persons import ApprovalSite, approval_site
from support.raw import piped
from support.sessions import Guest, until
from support.table import rows
from support.terminal import Terminal
from support.webhooks import SECRET, verify


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[ApprovalSite]:
    notify = {"webhook": receiver.url, "secret": SECRET, "events": ["approval_waiting", "kill_switch"]}
    with approval_site(tmp_path_factory.mktemp("notices"), notify=notify) as running:
        yield running


@pytest.fixture(scope="module")
def watcher(site: ApprovalSite) -> Iterator[Watcher]:
    with watching("-c", str(site.gateway.config), "--json") as running:
        running.json("watching")
        yield running
        assert running.end(signal.SIGINT) == 0


@contextlib.asynccontextmanager
async def parked(site: ApprovalSite, identity: str, way: str = "web"):
    """A call that waits for ann at the gateway, or at another process on the same store (`wrap`)."""
    if way == "wrap":
        with piped(site.wrap_argv("pipe")) as process:
            await asyncio.to_thread(call_over, process, identity)
            yield
            await refuse(site)
        return
    guest = await asyncio.to_thread(Guest.arrive, site.gateway.url(way), "legacy")
    calling = asyncio.create_task(asyncio.to_thread(guest.call, "wipe", id=identity))
    try:
        yield
    finally:
        await refuse(site)
        await calling


def call_over(process: subprocess.Popen[bytes], identity: str) -> None:
    """Greet the server as a client of the handshake era does, and make the call; its answer is left where it is."""
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
    for message in (
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": {"name": "wipe", "arguments": {"id": identity}}},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
        if message.get("id") == 0:
            process.stdout.readline()


async def refuse(site: ApprovalSite) -> None:
    """Nobody is left waiting for the next test."""
    request = await site.person.waiting()
    with contextlib.suppress(Exception):
        await site.person.approvals.refuse(request.id, by="ann", note="not today")


async def cookie(site: ApprovalSite) -> dict[str, str]:
    approvals = site.person.approvals
    (credential,) = await approvals.shelf.credentials("ann")
    _, secret = await approvals.session_for(credential)
    return {f"callgate_session_{site.gateway.port}": secret}


@rows("way", ["web", "wrap"])
async def test_what_any_process_on_the_store_parks_is_told_in_every_way(site, watcher, receiver, way):
    """`wrap` is another process than the one whose console tells of it."""
    server = "pipe" if way == "wrap" else "web"
    async with listening_to(site_origin(site), await cookie(site)) as stream:
        assert (await stream.next())["approvals"] == 0
        async with parked(site, f"hidden-{way}", way):
            request = await site.person.waiting()
            page = f"{request.page}/approve/{request.id}"

            news = await stream.until(lambda told: told["approvals"] == 1)
            assert news["newest"] == [{"id": request.id, "tool": "wipe", "server": server}]

            seen = await aside(watcher.json, "approval")
            assert (seen["state"], seen["new"], seen["id"], seen["tool"]) == ("waiting", True, request.id, "wipe")
            assert seen["page"] == page

            message = await aside(receiver.next)
            told = verify(SECRET, message.headers, message.body)
            assert (told["event"], told["request"], told["user"]) == ("approval_waiting", request.id, "ann")
            assert (told["server"], told["tool"], told["page"]) == (server, "wipe", page)
            assert message.headers["webhook-id"] == request.id
            # Arguments stay here unless the operator wants them sent.
            assert f"hidden-{way}" not in str(news) + str(seen) + str(message)
        await stream.until(lambda told: told["approvals"] == 0)
        ended = await aside(watcher.json, "approval")
        assert (ended["state"], ended["new"], ended["id"], ended["by"]) == ("refused", False, request.id, "ann")


async def test_the_same_call_again_waits_for_the_same_approval_and_is_no_news(site, receiver):
    guest = await aside(Guest.arrive, site.gateway.url("web"), "legacy")
    before = len(waits(site))
    calls = [call_later(guest, "again")]
    first = (await aside(receiver.next)).json["request"]
    calls.append(call_later(guest, "again"))
    await aside(until, lambda: len(waits(site)) == before + 2)
    calls.append(call_later(guest, "other"))
    assert (await aside(receiver.next)).json["request"] != first
    await refuse(site)
    await refuse(site)
    await asyncio.gather(*calls)
    assert receiver.got.empty()


def waits(site: ApprovalSite) -> list[dict]:
    return site.gateway.events("a call waits for a person")


def call_later(guest: Guest, identity: str) -> asyncio.Task:
    return asyncio.create_task(asyncio.to_thread(guest.call, "wipe", id=identity))


async def test_calls_are_told_as_they_end_and_when_they_are_refused_and_so_is_the_kill_switch(site, watcher, receiver):
    guest = await aside(Guest.arrive, site.gateway.url("web"), "legacy")
    async with listening_to(site_origin(site), await cookie(site)) as stream:
        assert (await stream.next())["switch"] is False
        await aside(guest.call, "look", id="x")
        while (seen := await aside(watcher.json, "call"))["tool"] != "look":
            pass
        assert (seen["state"], seen["verdict"], seen["server"]) == ("done", "allow", "web")
        assert seen["ms"] > 0

        await aside(set_block, site.store, Block(on=True, at=7, by="ann", note="smoke"), None)
        try:
            await stream.until(lambda told: told["switch"])
            message = await aside(receiver.next)
            told = verify(SECRET, message.headers, message.body)
            assert (told["event"], told["on"], told["by"], told["note"]) == ("kill_switch", True, "ann", "smoke")
            assert message.headers["webhook-id"] == "switch-7"
            assert (await aside(watcher.json, "switch"))["note"] == "smoke"
            # The gateway has heard of it too: it is the one that sent the message.
            await aside(guest.call, "look", id="y")
            seen = await aside(watcher.json, "call")
            assert (seen["state"], seen["verdict"], seen["reason"]) == ("refused", "refuse", "blocked_by_policy")
        finally:
            await aside(set_block, site.store, Block(on=False, at=8, by="ann"), None)
        await stream.until(lambda told: not told["switch"])
        assert (await aside(receiver.next)).json["on"] is False


async def test_on_a_terminal_the_bell_rings_once_and_ctrl_c_ends_it(site):
    # Narrow, and yet the link is whole: it is there to be opened.
    with Terminal([CALLGATE, "watch", "-c", str(site.gateway.config)], columns=60) as terminal:
        await aside(terminal.expect, "Ctrl-C ends this.")
        async with parked(site, "bell"):
            request = await site.person.waiting()
            await aside(terminal.expect, f"/approve/{request.id}")
        await aside(terminal.expect, "by ann")
        terminal.press("\x03")
        assert await aside(terminal.end) == 0
        assert terminal.raw.count("\a") == 1


async def test_a_gateway_that_stops_ends_its_streams(site):
    """The last one here: the gateway is gone afterwards."""
    async with listening_to(site_origin(site), await cookie(site)) as stream:
        await stream.next()
        stopping = asyncio.create_task(aside(site.gateway.stop))
        with pytest.raises((EOFError, aiohttp.ClientPayloadError)):
            await stream.next()
        assert await stopping == 0


def site_origin(site: ApprovalSite) -> str:
    return f"http://localhost:{site.gateway.port}"


async def aside(work, *arguments, **named):
    return await asyncio.to_thread(work, *arguments, **named)
