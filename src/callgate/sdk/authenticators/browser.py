"""A passkey in the person's browser, reached by a page on http://localhost that lives as long as the question.

SEP-2672 §8.4.5 names this way for clients that are no browser. Browsers bind passkeys to a domain, so it works for
servers whose passkeys are bound to `localhost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import uvicorn

from callgate.approval.action import to_base64url
from callgate.errors import place
from callgate.sdk.authenticators.base import Cancelled, CreationPrompt, NoPasskey, Prompt, TimedOut
from callgate.sdk.authenticators.bridge import Answer, Bridge, Visit

log = logging.getLogger("callgate.sdk")

LOCALHOST: Final = "localhost"
_NAME: Final = 32
_PORTS: Final = 8


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class BrowserAuthenticator:
    """Opens a one-time page in the person's browser, where they read what will be done and sign it.

    `open_page` opens an address (None: nothing is opened), `say` tells the person where the page is. The wait ends
    when the challenge does, and after `timeout` seconds at the latest.
    """

    shows = True

    def __init__(
        self,
        *,
        open_page: Callable[[str], object] | None = webbrowser.open,
        say: Callable[[str], None] = _to_stderr,
        timeout: float = 300.0,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._open = open_page
        self._say = say
        self._timeout = timeout
        self._clock = clock
        self._random = random

    async def get(self, prompt: Prompt) -> dict[str, Any]:
        """Have the call approved in the browser."""
        _check_domain(prompt.request_options.get("rpId"))
        return await self._visit(
            prompt.expires_at,
            kind="get",
            title="Approve this call?",
            text=prompt.display_text,
            facts=(("Server", prompt.server), ("Tool", prompt.tool)),
            action="Approve with passkey",
            done="Approved. You can close this page.",
            options=prompt.request_options,
        )

    async def create(self, prompt: CreationPrompt) -> dict[str, Any]:
        """Have a passkey made in the browser."""
        party = prompt.creation_options.get("rp")
        _check_domain(party.get("id") if isinstance(party, dict) else None)
        return await self._visit(
            prompt.expires_at,
            kind="create",
            title="Make a passkey?",
            text="",
            facts=(("Server", prompt.server), ("For", prompt.user)),
            action="Make a passkey",
            done="The passkey is made. You can close this page.",
            options=prompt.creation_options,
        )

    async def _visit(self, expires_at: float, **shown: Any) -> dict[str, Any]:
        left = min(expires_at - self._clock(), self._timeout)
        if left <= 0:
            raise TimedOut("the time to sign was over before the page could be opened")
        path, token = to_base64url(self._random(_NAME)), to_base64url(self._random(_NAME))
        visit = Visit(path=path, token=token, expires_at=self._clock() + left, **shown)
        async with _served(visit) as (bridge, address):
            self._say(f"Open this page to go on: {address}")
            self._open_beside(address)
            try:
                async with asyncio.timeout(left):
                    answer = await bridge.answer
            except TimeoutError:
                raise TimedOut("nobody answered in the browser in time") from None
        return _read(answer)

    def _open_beside(self, address: str) -> None:
        """In a thread of its own: some browsers keep their caller until they are closed."""
        opener = self._open
        if opener is None:
            return

        def run() -> None:
            try:
                opener(address)
            except Exception as error:  # noqa: BLE001 - the address is printed: the person can open it
                log.warning("no browser was opened", extra={"fields": {"error": place(error)}})

        threading.Thread(target=run, name="callgate-browser", daemon=True).start()


def _check_domain(rp_id: object) -> None:
    if rp_id not in (None, LOCALHOST):
        raise NoPasskey(
            f"this server's passkeys are bound to {str(rp_id)[:253]!r}, and a page on localhost cannot use them",
            advice="Use a USB security key (`--authenticator usb`), or approve on the server's own page.",
        )


def _read(answer: Answer) -> dict[str, Any]:
    if answer.cancelled:
        raise Cancelled("cancelled in the browser")
    if answer.response is None:
        raise NoPasskey(
            f"the browser could not use a passkey for this ({str(answer.error)[:80]!r})",
            advice="Try another browser, or another passkey.",
        )
    return answer.response


class _Listener(uvicorn.Server):
    """uvicorn inside somebody else's program: signals are that program's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _served(visit: Visit) -> AsyncIterator[tuple[Bridge, str]]:
    """The page, listening; it is gone when this ends."""
    sockets = _bind()
    port = sockets[0].getsockname()[1]
    bridge = Bridge(visit, port)
    config = uvicorn.Config(
        bridge,
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=16,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    server = _Listener(config)
    task = asyncio.create_task(server.serve(sockets=sockets))
    try:
        yield bridge, f"http://{LOCALHOST}:{port}/{visit.path}"
    finally:
        server.should_exit = True
        await task
        for one in sockets:
            one.close()


def _bind() -> list[socket.socket]:
    """The same port on 127.0.0.1 and ::1: a browser may take either for localhost, so neither is left to others."""
    for _ in range(_PORTS):
        four = socket.create_server(("127.0.0.1", 0))
        try:
            return [four, socket.create_server(("::1", four.getsockname()[1]), family=socket.AF_INET6)]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [four]
            four.close()
    raise NoPasskey("no port is free on this machine", advice="Close some programs and try again.")
