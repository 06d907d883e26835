"""One visit of a browser to a page on this machine: shown once, answered once, and nothing else is served."""

from __future__ import annotations

import asyncio
import html
import json
from hmac import compare_digest
from importlib.resources import files
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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


class Visit(msgspec.Struct, frozen=True):
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
        told = {
            "token": self.token,
            "kind": self.kind,
            "title": self.title,
            "text": self.text,
            "facts": self.facts,
            "action": self.action,
            "done": self.done,
            "options": self.options,
            "expiresAt": self.expires_at,
        }
        template = (_PAGE / "page.html").read_text(encoding="utf-8")
        return template.replace("{{visit}}", html.escape(json.dumps(told)))


class Answer(msgspec.Struct, frozen=True):
    """What the page sends back: one of the three members."""

    token: str
    response: dict[str, Any] | None = None
    cancelled: bool = False
    error: str | None = None


class _No(Exception):
    """A request that is not answered as it would like."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.response = Response(text, status, media_type="text/plain", headers=_HEADERS)


class Bridge:
    """The ASGI app for one visit; `answer` is set when the page has answered."""

    def __init__(self, visit: Visit, port: int) -> None:
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._visit = visit
        self._host = f"localhost:{port}"
        self._shown = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            response = await self._reply(Request(scope, receive))
        except _No as no:
            response = no.response
        await response(scope, receive, send)

    async def _reply(self, request: Request) -> Response:
        # Another name in Host is another page's: DNS that was made to point here (rebinding).
        if request.headers.getlist("host") != [self._host]:
            raise _No(403, "This page is only for localhost.")
        path = request.url.path
        if compare_digest(path.encode(), f"/{self._visit.path}".encode()):
            return self._show(request) if request.method == "GET" else await self._take(request)
        if path in _ASSETS and request.method == "GET":
            text = (_PAGE / path.removeprefix("/")).read_text(encoding="utf-8")
            return Response(text, media_type=_ASSETS[path], headers=_HEADERS)
        raise _No(404, "There is nothing here.")

    def _show(self, request: Request) -> Response:
        # A browser that loads ahead of the person must not use the page up.
        if "prefetch" in request.headers.get("sec-purpose", request.headers.get("purpose", "")):
            raise _No(503, "Not ahead of time.")
        if self._shown or self.answer.done():
            raise _No(410, "This page was opened before. Run the command again for a new one.")
        self._shown = True
        return Response(self._visit.page, media_type="text/html", headers=_HEADERS)

    async def _take(self, request: Request) -> Response:
        if request.method != "POST":
            raise _No(405, "GET or POST.")
        if request.headers.getlist("origin") != [f"http://{self._host}"]:
            raise _No(403, "Only the page itself may answer.")
        if request.headers.get("content-type") != "application/json":
            raise _No(415, "An answer is JSON.")
        answer = _parse(await _read(request))
        if not compare_digest(answer.token.encode(errors="replace"), self._visit.token.encode()):
            raise _No(403, "Only the page itself may answer.")
        if self.answer.done():
            raise _No(410, "This was answered before.")
        self.answer.set_result(answer)
        return Response(status_code=204, headers=_HEADERS)


async def _read(request: Request) -> bytes:
    """The body, bounded in size and time."""
    body = bytearray()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > ANSWER_BYTES:
                    raise _No(413, "An answer is shorter.")
    except (TimeoutError, ClientDisconnect):
        raise _No(408, "An answer comes sooner.") from None
    return bytes(body)


def _parse(body: bytes) -> Answer:
    try:
        answer = msgspec.json.decode(body, type=Answer)
    except (msgspec.DecodeError, RecursionError):
        raise _No(400, "This is not an answer.") from None
    if (answer.response is not None) + answer.cancelled + (answer.error is not None) != 1:
        raise _No(400, "An answer says one thing.")
    return answer
