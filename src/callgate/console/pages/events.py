"""`/events`: what waits, told as it changes (server-sent events, WHATWG HTML §9.2), and once at `/events/now`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from callgate.approval.display import escape
from callgate.approval.model import ConsoleSession
from callgate.approval.overview import phase
from callgate.console.cards import key_of
from callgate.console.context import ConsoleContext, Page
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
# Streams of one person, and of all people: each holds a connection and is looked up for.
PER_PERSON: Final = 8
IN_ALL: Final = 256
# With a store that tells of changes the clock is for what runs out; without one it is all there is.
_TOLD_SECONDS: Final = 5.0
_UNTOLD_SECONDS: Final = 0.5
# A busy gateway writes all the time; nobody needs to hear of it more often than this.
_BREATH_SECONDS: Final = 0.2
_MOST: Final = 1000
_NEWEST: Final = 5
_NAME_CHARS: Final = 80


class EventStream(Response):
    """One open page. It holds no queue: whoever is slow is told how things are by then."""

    media_type = "text/event-stream"

    def __init__(self, context: ConsoleContext, feed: ChangeFeed, request: Request, session: ConsoleSession) -> None:
        super().__init__()
        self._context = context
        self._feed = feed
        self._request = request
        self._session = session

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._feed.followed_by(self._session.user):
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")],
                }
            )
            # Who leaves gives their place back at once, not at the next sign of life.
            telling = asyncio.ensure_future(self._tell(send))
            leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
            try:
                await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                telling.cancel()
                leaving.cancel()
                ended = await asyncio.gather(telling, leaving, return_exceptions=True)
            if not isinstance(ended[0], BaseException):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        sent = ""
        spoke = looked = time.monotonic()
        until = looked + _LIFE_SECONDS
        await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
        with contextlib.suppress(StoreError):
            while time.monotonic() < until:
                version = self._feed.version
                news = await self._feed.news(self._session)
                if news["stamp"] != sent or time.monotonic() - looked >= _LOOK_SECONDS:
                    looked = time.monotonic()
                    if not await self._still_there():
                        return
                    # By now they may see less, or more.
                    news = await self._feed.news(self._session)
                body = b"" if news["stamp"] == sent else _event(news)
                if body or time.monotonic() - spoke >= _HEARTBEAT_SECONDS:
                    sent, spoke = news["stamp"], time.monotonic()
                    await send({"type": "http.response.body", "body": body or _BEAT, "more_body": True})
                await self._feed.wait_after(version, _LOOK_SECONDS)

    async def _still_there(self) -> bool:
        session = await self._context.person(self._request)
        if session is None or session.user != self._session.user:
            return False
        self._session = session
        return True


class EventsPage(Page):
    """For who is signed in."""

    def __init__(self, context: ConsoleContext) -> None:
        super().__init__(context)
        self._feed = ChangeFeed(context)

    async def stream(self, request: Request) -> Response:
        session = await self._authenticate(request)
        if request.method != "GET":
            raise Refused(Reason.METHOD_NOT_ALLOWED, advice="Use GET.")
        self._feed.check_limit(session.user)
        return EventStream(self._context, self._feed, request, session)

    async def now(self, request: Request) -> Response:
        """The same once, for a page whose stream does not come through."""
        session = await self._authenticate(request)
        return JSONResponse(await self._feed.news(session))

    async def _authenticate(self, request: Request) -> ConsoleSession:
        # Another program's page on this machine is of the same site: it sends the cookie, and would take the places.
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refused(Reason.FORGED_REQUEST, "The browser says that another site sent this request.")
        return await self._context.signed_in(request)


def _event(news: dict[str, Any]) -> bytes:
    return b"event: change\ndata: " + _encode(news) + b"\n\n"


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def routes(context: ConsoleContext) -> list[Route]:
    page = EventsPage(context)
    return [Route("/events", page.stream), Route("/events/now", page.now)]


class ChangeFeed:
    """Looks only while somebody listens. One for each console."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._listening: Counter[str] = Counter()
        self._version = 0
        self._cached: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """Counts on whenever something may have changed."""
        return self._version

    def check_limit(self, user: str) -> None:
        """Refused where this person, or all together, have as many streams as there may be."""
        if self._listening[user] >= PER_PERSON or self._listening.total() >= IN_ALL:
            raise Refused(
                Reason.APPROVAL_LIMIT,
                "Too many pages follow what happens here.",
                advice="Close some of them; this one asks now and then instead.",
                data={"retryAfter": 30},
            )

    @contextlib.contextmanager
    def followed_by(self, user: str) -> Iterator[None]:
        """Around a stream."""
        self._listening[user] += 1
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name="callgate-console-events")
        try:
            yield
        finally:
            self._listening[user] -= 1
            if not self._listening[user]:
                del self._listening[user]
            if not self._listening:
                self._following.cancel()
                self._following = None
                self._cached.clear()

    async def wait_after(self, version: int, seconds: float) -> None:
        """Wait for a newer version, not longer than that."""
        if self._version != version:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def news(self, session: ConsoleSession) -> dict[str, Any]:
        """How much waits for this person, as of the newest version or later; `stamp` is another one whenever it is."""
        key = (session.user, session.role)
        async with self._lock:
            version = self._version
            known = self._cached.get(key)
            if known is not None and known[0] == version and self._following is not None:
                return known[1]
            made = await self._compute(session)
            if self._following is not None:
                self._cached[key] = version, made
            return made

    async def _compute(self, session: ConsoleSession) -> dict[str, Any]:
        context, now = self._context, self._context.now()
        found = await context.approvals.shelf.requests(session.user, states=("waiting",), limit=_MOST)
        waiting = [one for one in found if phase(one, now) == "waiting"]
        waits = await context.tools_wait(session)
        texts, versions = "", list[dict[str, Any]]()
        if context.tools is not None and context.tools.may_decide(session):
            brief = await context.tools.brief()
            texts = brief.stamp
            versions = [
                {"id": key_of(server_id), "server": _name(names), "tools": count}
                for server_id, names, count in brief.versions[:_NEWEST]
            ]
        switch = await self._blocked()
        marks = [str(waits.held), texts, str(switch), *(one.id for one in waiting)]
        return {
            "approvals": len(waiting),
            "tools": waits.total,
            "held": waits.held,
            "switch": switch,
            "stamp": hashlib.sha256("\0".join(marks).encode()).hexdigest()[:16],
            # As a notification may show them on a locked screen: the arguments of a call stay on its page.
            "newest": [
                {"id": one.id, "tool": _name(one.tool), "server": _name(one.server)} for one in waiting[:_NEWEST]
            ],
            "versions": versions,
        }

    async def _blocked(self) -> bool:
        gateway = self._context.gateway
        if gateway is None:
            return False
        await gateway.switch.refresh()
        return gateway.switch.engaged

    async def _follow(self) -> None:
        poke = asyncio.Event()
        unwatch = self._watch(poke)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_UNTOLD_SECONDS if unwatch is None else _TOLD_SECONDS):
                        await poke.wait()
                poke.clear()
                self._version += 1
                out, self._changed = self._changed, asyncio.Event()
                out.set()
                await asyncio.sleep(_BREATH_SECONDS)
        finally:
            if unwatch is not None:
                unwatch()

    def _watch(self, poke: asyncio.Event) -> Callable[[], None] | None:
        """What other processes and our own do to the store; None where it cannot tell."""
        if self._context.gateway is None:
            return None
        loop = asyncio.get_running_loop()

        def changed() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(poke.set)

        return self._context.gateway.store.watch(changed)


def _name(text: str) -> str:
    """A name from a server or its list, on one line, with what misleads the eye written out."""
    shown = escape(text[:_NAME_CHARS])
    return shown if len(text) <= _NAME_CHARS else f"{shown}…"
