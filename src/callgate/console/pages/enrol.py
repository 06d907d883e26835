"""Enrolling a passkey with a ticket, which the page takes from the address's fragment: no server log ever sees it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.action import to_iso
from callgate.approval.reach import choice, reach
from callgate.console.bodies import Body, Name, Secret
from callgate.console.desk import Desk
from callgate.errors import Reason, Refused


class _WithTicket(Body, frozen=True):
    ticket: Secret


class _Finish(Body, frozen=True):
    response: dict[str, Any]
    name: Name = ""


class Enrol:
    """Look at the ticket, use it up for a registration, store the passkey that answers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: Request) -> Response:
        return self._desk.page("enrol", await self._desk.person(request))

    async def look(self, request: Request) -> Response:
        """Whom the ticket is for; it stays unused, so that the page can be left and opened again."""
        body = await self._desk.open_change(request, _WithTicket)
        ticket = await self._desk.approvals.look_at_ticket(body.ticket)
        if ticket is None:
            raise Refused(
                Reason.ENROLMENT_NOT_AUTHORISED,
                "This link was used before, or its time is over.",
                advice="Ask for a new one; whoever runs the gateway makes it with `callgate enroll USER`.",
            )
        user, demands = await self._desk.approvals.shelf.user(ticket.user), await self._desk.demands()
        return JSONResponse(
            {
                "user": ticket.user,
                "displayName": user.display_name if user else "",
                "purpose": ticket.purpose,
                "expiresAt": to_iso(ticket.expires_at),
                "choice": "" if user is None or demands is None else choice(user, demands, whom="you"),
            }
        )

    async def begin(self, request: Request) -> Response:
        body = await self._desk.open_change(request, _WithTicket)
        return JSONResponse(await self._desk.approvals.begin_enrolment(body.ticket))

    async def finish(self, request: Request) -> Response:
        body = await self._desk.open_change(request, _Finish)
        enrolled = await self._desk.approvals.finish_enrolment(body.response, name=body.name.strip(), codes=True)
        # The passkey was made this very moment, with the person verified: that is what signing in would ask for.
        session, secret = await self._desk.approvals.session_for(enrolled.credential)
        await self._desk.leave(request)
        demands = await self._desk.demands()
        told = "" if demands is None else reach(enrolled.user, enrolled.credential, demands, whom="you")
        response = JSONResponse({"user": session.user, "codes": list(enrolled.codes), "reach": told})
        self._desk.enter(response, session, secret)
        return response


def routes(desk: Desk) -> list[Route]:
    page = Enrol(desk)
    return [
        Route("/enrol", page.show),
        Route("/enrol/look", page.look, methods=["POST"]),
        Route("/enrol/begin", page.begin, methods=["POST"]),
        Route("/enrol/finish", page.finish, methods=["POST"]),
    ]
