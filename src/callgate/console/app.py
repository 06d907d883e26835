"""The console's ASGI application: mounted by the gateway beside `/mcp`, or served alone."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callgate.approval.service import Approvals
from callgate.console.context import (
    NOTHING,
    ConsoleContext,
    Demands,
    GatewayParts,
    ToolReviews,
    TrustReviews,
)
from callgate.console.guard import HEADERS, ConsoleOrigin, check_host
from callgate.console.pages import PAGES
from callgate.errors import Reason, Refused, StoreError, place
from callgate.pinning.service import Pins
from callgate.trust.service import TrustService

log = logging.getLogger("callgate.console")


class Console:
    """Checks every request, gives it to its page, and sends every answer with the same headers."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._routes: Sequence[BaseRoute] = [
            *(route for page in PAGES for route in page.routes(context)),
            *context.assets.routes(),
        ]
        self._router = Router(self._routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        request = Request(scope, receive)
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message)
            await send(message)

        try:
            answer = await self._answer(request)
            await answer(scope, receive, guarded)
        except Exception as error:
            # Fail closed: what nobody thought of is refused, and its text, which may quote a secret, stays here.
            log.error("request failed", extra={"fields": {"error": place(error)}})
            if started:
                raise
            await self._context.refusal(request, Refused(Reason.INTERNAL_ERROR))(scope, receive, guarded)

    async def _answer(self, request: Request) -> ASGIApp:
        try:
            if not self._is_static(request):
                check_host(request, self._context.address)
            return await self._dispatch(request)
        except Refused as refused:
            if onward := refused.data.get("onward"):
                return self._context.sign_in_page(onward=onward, status=401)
            return await self._refusal(request, refused)
        except StoreError as error:
            log.error("store failed", extra={"fields": {"error": place(error)}})
            return self._context.refusal(request, Refused(Reason.STORE_UNAVAILABLE))

    def _is_static(self, request: Request) -> bool:
        # The page that sends people to the right address needs its stylesheet under the wrong one.
        host = request.headers.get("host", "")
        return str(request.scope["path"]).startswith("/static/") and self._context.address.is_this_machine(host)

    async def _dispatch(self, request: Request) -> Response:
        found = Match.NONE
        for route in self._routes:
            match, child = route.matches(request.scope)
            found = max(found, match, key=lambda one: one.value)
            if match is Match.FULL:
                request.scope.update(child)
                answer: Response = await child["endpoint"](request)
                return answer
        if found is Match.PARTIAL:
            raise Refused(Reason.METHOD_NOT_ALLOWED, advice="Use the buttons of the page.")
        raise Refused(Reason.PAGE_UNKNOWN)

    async def _refusal(self, request: Request, refused: Refused) -> Response:
        if refused.reason is Reason.HOST_NOT_ALLOWED:
            host = request.headers.get("host", "")
            if request.method == "GET" and self._context.address.is_this_machine(host):
                return self._context.page("elsewhere", status=421, path=quote(request.scope["path"]))
            return self._context.refusal(request, refused)
        session, waits = None, NOTHING
        with contextlib.suppress(StoreError, Refused):
            session = await self._context.person(request)
            if "text/html" in request.headers.get("accept", ""):
                waits = await self._context.tools_wait(session)
        return self._context.refusal(request, refused, session, waits)


def _add_headers(message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS:
        headers[name] = value
    headers.setdefault("cache-control", "no-store")


def console_app(
    approvals: Approvals,
    *,
    origin: str,
    secure: bool,
    describe_server: Callable[[str], str] = lambda _: "",
    clock: Callable[[], float] = time.time,
    pins: Pins | None = None,
    reviewers: tuple[str, ...] = (),
    configured: Callable[[], Mapping[str, str] | None] = lambda: None,
    trust: TrustService | None = None,
    gateway: GatewayParts | None = None,
    demands: Demands | None = None,
) -> Console:
    """The console over a service; `origin` is what browsers see, such as `http://localhost:8700`.

    `describe_server` gives a line on a server beside its name (its address, its command), or nothing. With `pins` it
    reviews tools too: `reviewers` may decide on them (empty: whoever signs in), `configured` gives the servers of the
    configuration with their groups. With `trust` it shows agents' sessions, and the same `reviewers` decide on
    results that are held back. With `gateway` it has the pages of a whole gateway. `demands` gives the tools that do
    not take every passkey, so that people are told when they enrol one.
    """
    approvals.page_origin = origin
    tools = None if pins is None else ToolReviews(pins, reviewers, configured)
    seen = None if trust is None else TrustReviews(trust, reviewers)
    address = ConsoleOrigin(origin, secure)
    known = {} if demands is None else {"demands": demands}
    context = ConsoleContext(
        approvals,
        address,
        describe_server=describe_server,
        clock=clock,
        tools=tools,
        trust=seen,
        gateway=gateway,
        **known,
    )
    return Console(context)
