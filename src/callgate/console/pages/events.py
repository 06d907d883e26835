"""`/events`: what waits, told as it changes (server-sent events, WHATWG HTML §9.2), and once at `/events/now`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from callgate.approval.model import ConsoleSession
from callgate.console.desk import Desk
from callgate.console.events import News, Newsroom
from callgate.errors import Reason, Refused, StoreError

# A proxy that sees nothing for a minute hangs up.
_HEARTBEAT_SECONDS: Final = 15.0
# A session that has ended ends its streams after so long at the latest; nothing is told on them meanwhile.
_LOOK_SECONDS: Final = 5.0
# Then the browser comes again, to the console of the configuration that is in force by then.
_LIFE_SECONDS: Final = 600.0
_RETRY: Final = b"retry: 2000\n\n"
_BEAT: Final = b":\n\n"
_encode: Final = msgspec.json.Encoder().encode


class Stream(Response):
    """One open page. It holds no queue: whoever is slow is told how things are by then."""

    media_type = "text/event-stream"

    def __init__(self, desk: Desk, room: Newsroom, request: Request, session: ConsoleSession) -> None:
        super().__init__()
        self._desk = desk
        self._room = room
        self._request = request
        self._session = session

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._room.heard_by(self._session.user):
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")],
                }
            )
            # Who leaves gives their place back at once, not at the next sign of life.
            telling = asyncio.ensure_future(self._tell(send))
            leaving = asyncio.ensure_future(_gone(receive))
            try:
                await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                telling.cancel()
                leaving.cancel()
                ended = await asyncio.gather(telling, leaving, return_exceptions=True)
            if not isinstance(ended[0], BaseException):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        told = ""
        spoke = looked = time.monotonic()
        until = looked + _LIFE_SECONDS
        await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
        with contextlib.suppress(StoreError):
            while time.monotonic() < until:
                edition = self._room.edition
                news = await self._room.news(self._session)
                if news.stamp != told or time.monotonic() - looked >= _LOOK_SECONDS:
                    looked = time.monotonic()
                    if not await self._still_there():
                        return
                    # By now they may see less, or more.
                    news = await self._room.news(self._session)
                body = b"" if news.stamp == told else _event(news)
                if body or time.monotonic() - spoke >= _HEARTBEAT_SECONDS:
                    told, spoke = news.stamp, time.monotonic()
                    await send({"type": "http.response.body", "body": body or _BEAT, "more_body": True})
                await self._room.after(edition, _LOOK_SECONDS)

    async def _still_there(self) -> bool:
        session = await self._desk.person(self._request)
        if session is None or session.user != self._session.user:
            return False
        self._session = session
        return True


class Events:
    """For who is signed in."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._room = Newsroom(desk)

    async def stream(self, request: Request) -> Response:
        session = await self._come_in(request)
        if request.method != "GET":
            raise Refused(Reason.METHOD_NOT_ALLOWED, advice="Use GET.")
        self._room.check_room(session.user)
        return Stream(self._desk, self._room, request, session)

    async def now(self, request: Request) -> Response:
        """The same once, for a page whose stream does not come through."""
        session = await self._come_in(request)
        return JSONResponse(msgspec.to_builtins(await self._room.news(session)))

    async def _come_in(self, request: Request) -> ConsoleSession:
        # Another program's page on this machine is of the same site: it sends the cookie, and would take the places.
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refused(Reason.FORGED_REQUEST, "The browser says that another site sent this request.")
        return await self._desk.signed_in(request)


def _event(news: News) -> bytes:
    return b"event: change\ndata: " + _encode(news) + b"\n\n"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def routes(desk: Desk) -> list[Route]:
    page = Events(desk)
    return [Route("/events", page.stream), Route("/events/now", page.now)]
