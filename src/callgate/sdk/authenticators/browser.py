"""A passkey in the person's browser, reached by a page on http://localhost that lives as long as the question.

SEP-2672 §8.4.5 names this way for clients that are no browser. Browsers bind passkeys to a domain, so it works for
servers whose passkeys are bound to `localhost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import html
import json
import logging
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from hmac import compare_digest
from importlib.resources import files
from typing import Any, Final

import msgspec
import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from callgate.approval.action import to_base64url
from callgate.approval.display import escape
from callgate.errors import place
from callgate.sdk.authenticators import CeremonyCancelled, CeremonyTimedOut, CreationPrompt, NoPasskey, Prompt

log = logging.getLogger("callgate.sdk")

LOCALHOST: Final = "localhost"
_NAME: Final = 32
_PORTS: Final = 8
ANSWER_BYTES: Final = 262_144
ANSWER_SECONDS: Final = 10.0
_PAGE: Final = files("callgate.sdk.authenticators") / "page"
_ASSETS: Final = {"/page.js": "text/javascript", "/page.css": "text/css"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "publickey-credentials-get=(self), publickey-credentials-create=(self)",
}


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class BrowserAuthenticator:
    """Opens a one-time page in the person's browser, where they read what will be done and sign it.

    `open_page` opens an address (None: nothing is opened), `say` tells the person where the page is. The wait ends
    when the challenge does, and after `timeout` seconds at the latest. `port` is for servers that take signatures from
    one origin only, such as http://localhost:5173; by default any free one.
    """

    shows = True

    def __init__(
        self,
        *,
        open_page: Callable[[str], object] | None = webbrowser.open,
        say: Callable[[str], None] = _to_stderr,
        timeout: float = 300.0,
        port: int = 0,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._open = open_page
        self._say = say
        self._timeout = timeout
        self._port = port
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
            facts=(("Server", prompt.server), ("Tool", prompt.tool), *_sent(prompt)),
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
            raise CeremonyTimedOut("the time to sign was over before the page could be opened")
        path, token = to_base64url(self._random(_NAME)), to_base64url(self._random(_NAME))
        visit = Visit(path=path, token=token, expires_at=self._clock() + left, **shown)
        async with _serve_page(visit, self._port) as (bridge, address):
            self._say(f"Open this page to go on: {address}")
            self._open_in_a_thread(address)
            try:
                async with asyncio.timeout(left):
                    answer = await bridge.answer
            except TimeoutError:
                raise CeremonyTimedOut("nobody answered in the browser in time") from None
        return _read(answer)

    def _open_in_a_thread(self, address: str) -> None:
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


def _read(answer: PageAnswer) -> dict[str, Any]:
    if answer.cancelled:
        raise CeremonyCancelled("cancelled in the browser")
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
async def _serve_page(visit: Visit, wanted: int = 0) -> AsyncIterator[tuple[Bridge, str]]:
    """The page, listening; it is gone when this ends."""
    sockets = _bind(wanted)
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


def _bind(wanted: int = 0) -> list[socket.socket]:
    """The same port on 127.0.0.1 and ::1: a browser may take either for localhost, so neither is left to others."""
    for _ in range(1 if wanted else _PORTS):
        try:
            four = socket.create_server(("127.0.0.1", wanted))
        except OSError:
            break
        try:
            return [four, socket.create_server(("::1", four.getsockname()[1]), family=socket.AF_INET6)]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [four]
            four.close()
    if wanted:
        raise NoPasskey(f"port {wanted} of this machine is taken", advice="End what uses it, or name another port.")
    raise NoPasskey("no port is free on this machine", advice="Close some programs and try again.")


def _sent(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    return () if prompt.arguments is None else (("Arguments", shown_arguments(prompt.arguments)),)


def shown_arguments(arguments: dict[str, Any]) -> str:
    """What this client sends, in one line; what misleads the eye is written out."""
    return "\\".join(map(escape, json.dumps(arguments, ensure_ascii=False).split("\\"))) if arguments else "none"


class Visit(msgspec.Struct, frozen=True, rename="camel"):
    """What the page shows and asks. `path` and `token` are secrets: one opens the page, the other answers for it."""

    path: str
    token: str
    kind: str
    title: str
    text: str
    facts: tuple[tuple[str, str], ...]
    action: str
    done: str
    options: dict[str, Any]
    expires_at: float

    @property
    def page(self) -> str:
        """The page; JSON in ASCII keeps every character as it is, which HTML's own rules would not."""
        values = msgspec.to_builtins(self)
        # The page knows its own address; nobody has to read it in there.
        del values["path"]
        template = (_PAGE / "page.html").read_text(encoding="utf-8")
        return template.replace("{{visit}}", html.escape(json.dumps(values)))


class PageAnswer(msgspec.Struct, frozen=True):
    """What the page sends back: one of the three members."""

    token: str
    response: dict[str, Any] | None = None
    cancelled: bool = False
    error: str | None = None


class Bridge:
    """The ASGI app for one visit; `answer` is set when the page has answered."""

    def __init__(self, visit: Visit, port: int) -> None:
        self.answer: asyncio.Future[PageAnswer] = asyncio.get_running_loop().create_future()
        self._visit = visit
        self._host = f"localhost:{port}"
        self._shown = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            response = await self._reply(Request(scope, receive))
        except HTTPException as no:
            response = Response(no.detail, no.status_code, media_type="text/plain", headers=_HEADERS)
        await response(scope, receive, send)

    async def _reply(self, request: Request) -> Response:
        # Another name in Host is another page's: DNS that was made to point here (rebinding).
        if request.headers.getlist("host") != [self._host]:
            raise HTTPException(403, "This page is only for localhost.")
        path = request.url.path
        if compare_digest(path.encode(), f"/{self._visit.path}".encode()):
            return self._show(request) if request.method == "GET" else await self._take(request)
        if path in _ASSETS and request.method == "GET":
            text = (_PAGE / path.removeprefix("/")).read_text(encoding="utf-8")
            return Response(text, media_type=_ASSETS[path], headers=_HEADERS)
        raise HTTPException(404, "There is nothing here.")

    def _show(self, request: Request) -> Response:
        # A browser that loads ahead of the person must not use the page up.
        if "prefetch" in request.headers.get("sec-purpose", request.headers.get("purpose", "")):
            raise HTTPException(503, "Not ahead of time.")
        if self._shown or self.answer.done():
            raise HTTPException(410, "This page was opened before. Run the command again for a new one.")
        self._shown = True
        return Response(self._visit.page, media_type="text/html", headers=_HEADERS)

    async def _take(self, request: Request) -> Response:
        if request.method != "POST":
            raise HTTPException(405, "GET or POST.")
        if request.headers.getlist("origin") != [f"http://{self._host}"]:
            raise HTTPException(403, "Only the page itself may answer.")
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415, "An answer is JSON.")
        answer = _parse(await _read_body(request))
        if not compare_digest(answer.token.encode(errors="replace"), self._visit.token.encode()):
            raise HTTPException(403, "Only the page itself may answer.")
        if self.answer.done():
            raise HTTPException(410, "This was answered before.")
        self.answer.set_result(answer)
        return Response(status_code=204, headers=_HEADERS)


async def _read_body(request: Request) -> bytes:
    """The body, bounded in size and time."""
    body = bytearray()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > ANSWER_BYTES:
                    raise HTTPException(413, "An answer is shorter.")
    except (TimeoutError, ClientDisconnect):
        raise HTTPException(408, "An answer comes sooner.") from None
    return bytes(body)


def _parse(body: bytes) -> PageAnswer:
    try:
        answer = msgspec.json.decode(body, type=PageAnswer)
    except (msgspec.DecodeError, RecursionError):
        raise HTTPException(400, "This is not an answer.") from None
    if (answer.response is not None) + answer.cancelled + (answer.error is not None) != 1:
        raise HTTPException(400, "An answer says one thing.")
    return answer
