"""The browser bridge in a real Chromium with a virtual authenticator."""

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import socket
import sys
import time

import msgspec
import pytest
import pytest_asyncio
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import base64url_to_bytes
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from callgate.sdk.authenticators import Cancelled, CreationPrompt, NoPasskey, Prompt
from callgate.sdk.authenticators.browser import BrowserAuthenticator
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.browser import PATIENCE_MS, add_authenticator
from support.clients import until
from support.registry import requirement
from support.sep_server import SepServer, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = 'Delete resource abc123?\n\n  path:  "/srv/‹data›"\n<script>alert(1)</script>\n' + "long line " * 500 + "\nend"


class Bridge:
    """The bridge, and the page of a browser that follows it."""

    def __init__(self, page):
        self.page = page
        self.opened = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self.authenticator = BrowserAuthenticator(
            open_page=lambda address: loop.call_soon_threadsafe(self.opened.put_nowait, address), say=lambda _: None
        )

    async def follow(self):
        async with asyncio.timeout(PATIENCE_MS / 1000):
            address = await self.opened.get()
        assert address.startswith("http://localhost:")
        await self.page.goto(address)
        return address

    @contextlib.asynccontextmanager
    async def asking(self, prompt):
        ask = self.authenticator.create if isinstance(prompt, CreationPrompt) else self.authenticator.get
        task = asyncio.create_task(ask(prompt))
        try:
            await self.follow()
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def origin(self):
        return self.page.url.rpartition("/")[0]

    async def status(self, expected):
        await self.page.get_by_role("status").filter(has_text=expected).wait_for()


def creation(*exclude):
    options = generate_registration_options(
        rp_id="localhost",
        rp_name="Here",
        user_name="ann",
        user_id=b"ann",
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in exclude],
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.PREFERRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
    )
    said = json.loads(options_to_json(options))
    prompt = CreationPrompt(server="files", user="ann", creation_options=said, expires_at=time.time() + 60)
    return options, prompt


def approval(*allow):
    options = generate_authentication_options(
        rp_id="localhost",
        allow_credentials=[PublicKeyCredentialDescriptor(id=one) for one in allow],
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    said = json.loads(options_to_json(options))
    prompt = Prompt(
        display_text=TEXT, tool="delete_resource", server="files", request_options=said, expires_at=time.time() + 60
    )
    return options, prompt


async def enrol(bridge):
    options, prompt = creation()
    async with bridge.asking(prompt) as task:
        origin = bridge.origin()
        await bridge.page.get_by_role("button", name="Make a passkey").click()
        await bridge.status("The passkey is made")
        answer = await task
    return verify_registration_response(
        credential=answer,
        expected_challenge=options.challenge,
        expected_rp_id="localhost",
        expected_origin=origin,
        require_user_verification=True,
    )


@pytest_asyncio.fixture(loop_scope="session")
async def bridge(browser):
    context = await browser.new_context()
    try:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        bridge = Bridge(page)
        bridge.virtual = await add_authenticator(page)
        bridge.problems = []
        page.on("pageerror", lambda error: bridge.problems.append(str(error)))
        page.on("console", lambda message: "Content Security" in message.text and bridge.problems.append(message.text))
        yield bridge
        assert bridge.problems == []
    finally:
        await context.close()


@requirement("VA-185", "VA-065", "VA-136")
async def test_a_passkey_is_made_and_then_signs_what_the_page_shows(bridge):
    registration = await enrol(bridge)
    options, prompt = approval(registration.credential_id)
    async with bridge.asking(prompt) as task:
        origin = bridge.origin()
        assert await bridge.page.locator("#text").text_content() == TEXT
        facts = await bridge.page.locator("dd").all_text_contents()
        assert facts == ["files", "delete_resource"]
        # Nothing is signed before the person asks for it.
        (before,) = await bridge.virtual.credentials()
        await bridge.page.get_by_role("button", name="Approve with passkey").click()
        await bridge.status("Approved")
        answer = await task
    (after,) = await bridge.virtual.credentials()
    assert after["signCount"] > before["signCount"] == registration.sign_count
    verified = verify_authentication_response(
        credential=answer,
        expected_challenge=options.challenge,
        expected_rp_id="localhost",
        expected_origin=origin,
        credential_public_key=registration.credential_public_key,
        credential_current_sign_count=registration.sign_count,
        require_user_verification=True,
    )
    assert verified.user_verified
    assert base64url_to_bytes(answer["response"]["userHandle"]) == b"ann"


async def test_the_text_is_seen_whole(bridge):
    _, prompt = approval()
    async with bridge.asking(prompt):
        shown = await bridge.page.locator("#text").evaluate(
            "e => ({style: getComputedStyle(e).whiteSpace, hidden: getComputedStyle(e).overflowY,"
            " cut: e.scrollWidth > e.clientWidth, inner: e.innerText})"
        )
        assert shown["style"] in ("pre-wrap", "break-spaces")
        assert shown["hidden"] == "auto"
        assert not shown["cut"]
        assert shown["inner"] == TEXT


async def test_the_person_can_say_no(bridge):
    _, prompt = approval()
    async with bridge.asking(prompt) as task:
        await bridge.page.get_by_role("button", name="Cancel").click()
        await bridge.status("Cancelled")
        with pytest.raises(Cancelled):
            await task


async def test_closing_the_page_says_no(bridge):
    _, prompt = approval()
    async with bridge.asking(prompt) as task:
        await bridge.page.goto("about:blank")
        async with asyncio.timeout(PATIENCE_MS / 1000):
            with pytest.raises(Cancelled):
                await task


async def test_a_second_load_is_refused(bridge):
    _, prompt = approval()
    async with bridge.asking(prompt) as task:
        other = await bridge.page.context.new_page()
        reply = await other.goto(bridge.page.url)
        assert reply.status == 410
        assert not task.done()


async def test_a_passkey_that_cannot_tell_who_uses_it_is_not_taken_but_can_be_tried_again(bridge):
    registration = await enrol(bridge)
    await bridge.virtual.verify_user(False)
    _, prompt = approval(registration.credential_id)
    async with bridge.asking(prompt) as task:
        button = bridge.page.get_by_role("button", name="Approve with passkey")
        await button.click()
        await bridge.status("The passkey was not used (NotAllowedError)")
        assert not task.done()
        await bridge.virtual.verify_user(True)
        await button.click()
        await bridge.status("Approved")
        assert (await task)["id"]


async def test_an_authenticator_that_is_enrolled_already_is_told_of(bridge):
    registration = await enrol(bridge)
    _, prompt = creation(registration.credential_id)
    async with bridge.asking(prompt) as task:
        await bridge.page.get_by_role("button", name="Make a passkey").click()
        with pytest.raises(NoPasskey, match="InvalidStateError"):
            await task


async def test_the_page_says_when_the_time_is_over(bridge):
    _, prompt = approval()
    async with bridge.asking(msgspec.structs.replace(prompt, expires_at=time.time() + 1.5)):
        await bridge.status("The time for this is over")
        assert await bridge.page.get_by_role("button", name="Approve with passkey").is_disabled()


async def test_no_other_page_can_hold_it_in_a_frame(bridge):
    _, prompt = approval()
    task = asyncio.create_task(bridge.authenticator.get(prompt))
    try:
        async with asyncio.timeout(PATIENCE_MS / 1000):
            address = await bridge.opened.get()
        await bridge.page.set_content(f"<iframe id=f src='{address}'></iframe>")
        frame = await (await bridge.page.wait_for_selector("#f")).content_frame()
        await frame.wait_for_load_state()
        assert await frame.locator("#yes").count() == 0
        assert any("frame-ancestors" in problem for problem in bridge.problems)
        bridge.problems.clear()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def command(*words, cwd, terminal=False, env=None):
    """`callgate call` in a process of its own; its standard input is a terminal if that is wished."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "callgate", "call", *words,
        stdin=theirs if terminal else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=cwd, env=os.environ | (env or {}),
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_MS / 1000 * 2):
            yield process, ours
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        os.close(ours)
        os.close(theirs)


async def until_said(process, pattern):
    """What the command writes for the person, up to this."""
    said = ""
    while not (found := re.search(pattern, said)):
        chunk = await process.stderr.read(4096)
        assert chunk, said
        said += chunk.decode()
    return said, found


ADDRESS = r"(http://localhost:\d+/\S+)\n"


@pytest_asyncio.fixture(loop_scope="session")
async def server(bridge):
    """A server on which the browser's passkey is enrolled."""
    software = SoftwareAuthenticator()
    server = SepServer()
    await server.enrol(software)
    await bridge.virtual.take_over(software.passkeys[0])
    async with serving(server) as url:
        server.url = url
        yield server


@requirement("VA-185", "VA-065", "VA-136")
async def test_a_call_from_the_terminal_is_approved_in_the_browser(bridge, server, tmp_path):
    async with command(server.url, "delete_resource", "resourceId=abc123", "--no-open", cwd=tmp_path) as (process, _):
        said, found = await until_said(process, ADDRESS)
        text = 'delete_resource\n  resourceId: "abc123"'
        assert f"needs your approval:\n\n{text}\n" in said
        await bridge.page.goto(found[1])
        assert await bridge.page.locator("#text").text_content() == text
        assert server.sent("tools/call") == []
        await bridge.page.get_by_role("button", name="Approve with passkey").click()
        await bridge.status("Approved")
        out, err = await process.communicate()
    assert process.returncode == 0, err
    assert out == b"delete_resource done\n"
    assert server.ran == [("delete_resource", {"resourceId": "abc123"})]


@requirement("VA-065")
async def test_a_server_that_expects_one_origin(bridge, tmp_path):
    """As the reference server does, which wants http://localhost:5173."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        origin = f"http://localhost:{free.getsockname()[1]}"
    software = SoftwareAuthenticator(origin)
    picky = SepServer(origin=origin)
    await picky.enrol(software)
    await bridge.virtual.take_over(software.passkeys[0])

    async def call(*options):
        words = (url, "delete_resource", "resourceId=x", "--no-open", *options)
        async with command(*words, cwd=tmp_path) as (process, _):
            _, found = await until_said(process, ADDRESS)
            await bridge.page.goto(found[1])
            assert '{"resourceId": "x"}' in await bridge.page.locator("body").text_content()
            await bridge.page.get_by_role("button", name="Approve with passkey").click()
            return found[1], await process.communicate()

    async with serving(picky) as url:
        _, (out, err) = await call()
        assert b"name its origin with --origin" in err
        assert picky.ran == []
        for option in ("--origin", "--port"):
            given = origin if option == "--origin" else origin.rpartition(":")[2]
            address, (out, err) = await call(option, given)
            assert address.startswith(f"{origin}/")
            assert out == b"delete_resource done\n", err
    assert len(picky.ran) == 2


async def test_a_call_from_the_terminal_is_cancelled_in_the_browser(bridge, server, tmp_path):
    async with command(server.url, "delete_resource", "resourceId=x", "--no-open", cwd=tmp_path) as (process, _):
        _, found = await until_said(process, ADDRESS)
        await bridge.page.goto(found[1])
        await bridge.page.get_by_role("button", name="Cancel").click()
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"cancelled in the browser" in err
    assert server.sent("tools/call") == []


async def test_the_persons_own_browser_is_opened_after_a_yes_in_the_terminal(bridge, server, tmp_path):
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o700)
    words = (server.url, "delete_resource", "resourceId=x", "--yes-no")
    async with command(*words, cwd=tmp_path, terminal=True, env={"BROWSER": f"{browser} %s"}) as (process, terminal):
        await until_said(process, r"Go on\? \[y/N\] ")
        assert not opened.exists()
        os.write(terminal, b"y\n")
        await until_said(process, ADDRESS)
        await until(opened.exists)
        await bridge.page.goto(opened.read_text())
        await bridge.page.get_by_role("button", name="Approve with passkey").click()
        out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"delete_resource done\n"), err


async def test_a_ctrl_c_ends_the_wait(bridge, server, tmp_path):
    async with command(server.url, "delete_resource", "resourceId=x", "--no-open", cwd=tmp_path) as (process, _):
        _, found = await until_said(process, ADDRESS)
        await bridge.page.goto(found[1])
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert process.returncode == 130
        assert b"Traceback" not in err
    assert server.sent("tools/call") == []
