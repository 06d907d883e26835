"""Signing in with a passkey, and out again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from callgate.console.bodies import Body, Signed
from callgate.console.desk import Desk
from callgate.console.pace import Pace
from callgate.errors import Reason, Refused


class _Options(Body, frozen=True):
    user: Annotated[str, Meta(max_length=256)] | None = None


class SignIn:
    """Passkeys that know their user need no name; older security keys do.

    Anybody may ask for a challenge, and each is a row in the store: a flood is turned away before it gets there.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pace = Pace(60, 300, desk.clock)

    async def show(self, request: Request) -> Response:
        if await self._desk.person(request) is not None:
            return RedirectResponse("/", status_code=303)
        return self._desk.sign_in_page(onward="/")

    async def options(self, request: Request) -> Response:
        body = await self._desk.open_change(request, _Options)
        self._pace.step(body.user or "")
        try:
            issued = await self._desk.approvals.begin_sign_in(body.user or None)
        except Refused as refused:
            raise _failed(refused) from None
        return JSONResponse(issued.result)

    async def finish(self, request: Request) -> Response:
        body = await self._desk.open_change(request, Signed)
        try:
            session, secret = await self._desk.approvals.finish_sign_in(body.evidence)
        except Refused as refused:
            raise _failed(refused) from None
        await self._desk.leave(request)
        response = JSONResponse({"user": session.user})
        self._desk.enter(response, session, secret)
        return response

    async def leave(self, request: Request) -> Response:
        await self._desk.change(request, Body)
        await self._desk.leave(request)
        response = JSONResponse({})
        self._desk.forget(response)
        return response


def _failed(refused: Refused) -> Refused:
    """One answer to everything that may be wrong with the person or the passkey: who is known here is not told."""
    return refused if refused.reason is Reason.APPROVAL_LIMIT else Refused(Reason.SIGN_IN_FAILED)


def routes(desk: Desk) -> list[Route]:
    page = SignIn(desk)
    return [
        Route("/sign-in", page.show),
        Route("/sign-in", page.finish, methods=["POST"]),
        Route("/sign-in/options", page.options, methods=["POST"]),
        Route("/sign-out", page.leave, methods=["POST"]),
    ]
