"""The way back for who lost every passkey: a recovery code gives a ticket for one new enrolment, and nothing else."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.console.bodies import Body, Secret, Word
from callgate.console.desk import Desk
from callgate.console.pace import Pace
from callgate.errors import Reason, Refused


class _Code(Body, frozen=True):
    user: Word
    code: Secret


class Recover:
    """Five tries a minute with one name; many in all, so that nobody keeps everybody else out with wrong codes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pace = Pace(5, 300, desk.clock)

    async def show(self, request: Request) -> Response:
        return self._desk.page("recover", await self._desk.person(request))

    async def exchange(self, request: Request) -> Response:
        body = await self._desk.open_change(request, _Code)
        self._pace.step(body.user)
        try:
            ticket = await self._desk.approvals.recover(body.user, body.code.strip())
        except Refused as refused:
            if refused.reason not in (Reason.USER_UNKNOWN, Reason.ENROLMENT_NOT_AUTHORISED):
                raise
            raise Refused(
                Reason.ENROLMENT_NOT_AUTHORISED,
                "Name and code do not belong together, or the code was used before.",
                advice="Look at both again; each code works once.",
            ) from None
        return JSONResponse({"ticket": ticket})


def routes(desk: Desk) -> list[Route]:
    page = Recover(desk)
    return [Route("/recover", page.show), Route("/recover", page.exchange, methods=["POST"])]
