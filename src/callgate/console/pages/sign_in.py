"""Signing in with a passkey and out again, enrolling one with a ticket, and the way back for who lost every passkey."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from callgate.approval.action import to_iso
from callgate.approval.reach import choice, reach
from callgate.console.context import ConsoleContext, Page
from callgate.console.guard import AttemptLimit
from callgate.console.requests import Name, Secret, SignedBody, Word, change, open_change
from callgate.errors import Reason, Refused


class SignInPage(Page):
    """Passkeys that know their user need no name; older security keys do.

    Anybody may ask for a challenge, and each is a row in the store: a flood is turned away before it gets there. Of
    wrong recovery codes it takes five a minute with one name, and many in all. One that is right always works: nobody
    locks its owner out with wrong ones, and no code is short enough to be guessed.
    """

    def __init__(self, context: ConsoleContext) -> None:
        super().__init__(context)
        self._pace = AttemptLimit(60, 300, context.clock)
        self._code_pace = AttemptLimit(5, 300, context.clock)

    async def show(self, request: Request) -> Response:
        if await self._context.person(request) is not None:
            return RedirectResponse("/", status_code=303)
        return self._context.sign_in_page(onward="/")

    async def options(self, request: Request, user: Annotated[str, Meta(max_length=256)] | None = None) -> Response:
        self._pace.step(user or "", "" if request.client is None else request.client.host)
        try:
            issued = await self._context.approvals.begin_sign_in(user or None)
        except Refused as refused:
            raise _sign_in_failed(refused) from None
        return JSONResponse(issued.result)

    async def finish(self, request: Request, body: SignedBody) -> Response:
        try:
            session, secret = await self._context.approvals.finish_sign_in(body.evidence)
        except Refused as refused:
            raise _sign_in_failed(refused) from None
        await self._context.leave(request)
        response = JSONResponse({"user": session.user})
        self._context.enter(response, session, secret)
        return response

    async def leave(self, request: Request) -> Response:
        await self._context.leave(request)
        response = JSONResponse({})
        self._context.forget(response)
        return response

    # ---- enrolling ----

    async def enrol(self, request: Request) -> Response:
        return self._context.page("enrol", await self._context.person(request))

    async def look_at_ticket(self, ticket: Secret) -> Response:
        """Whom the ticket is for; it stays unused, so that the page can be left and opened again."""
        found = await self._context.approvals.look_at_ticket(ticket)
        if found is None:
            raise Refused(
                Reason.ENROLMENT_NOT_AUTHORISED,
                "This link was used before, or its time is over.",
                advice="Ask for a new one; whoever runs the gateway makes it with `callgate enroll USER`.",
            )
        user, demands = await self._context.approvals.shelf.user(found.user), await self._context.demands()
        return JSONResponse(
            {
                "user": found.user,
                "displayName": user.display_name if user else "",
                "purpose": found.purpose,
                "expiresAt": to_iso(found.expires_at),
                "choice": "" if user is None or demands is None else choice(user, demands, whom="you"),
            }
        )

    async def begin_enrolment(self, ticket: Secret) -> Response:
        return JSONResponse(await self._context.approvals.begin_enrolment(ticket))

    async def enrolled(self, request: Request, response: dict[str, Any], name: Name = "") -> Response:
        enrolled = await self._context.approvals.finish_enrolment(response, name=name.strip(), codes=True)
        # The passkey was made this very moment, with the person verified: that is what signing in would ask for.
        session, secret = await self._context.approvals.session_for(enrolled.credential)
        await self._context.leave(request)
        demands = await self._context.demands()
        text = "" if demands is None else reach(enrolled.user, enrolled.credential, demands, whom="you")
        answer = JSONResponse({"user": session.user, "codes": list(enrolled.codes), "reach": text})
        self._context.enter(answer, session, secret)
        return answer

    # ---- recovering ----

    async def recover(self, request: Request) -> Response:
        return self._context.page("recover", await self._context.person(request))

    async def use_code(self, user: Word, code: Secret) -> Response:
        code = code.strip()
        if not await self._context.approvals.is_recovery_code(user, code):
            self._code_pace.step(user)
        try:
            ticket = await self._context.approvals.recover(user, code)
        except Refused as refused:
            if refused.reason not in (Reason.USER_UNKNOWN, Reason.ENROLMENT_NOT_AUTHORISED):
                raise
            raise Refused(
                Reason.ENROLMENT_NOT_AUTHORISED,
                "Name and code do not belong together, or the code was used before.",
                advice="Look at both again; each code works once.",
            ) from None
        return JSONResponse({"ticket": ticket})


def _sign_in_failed(refused: Refused) -> Refused:
    """One answer to everything that may be wrong with the person or the passkey: who is known here is not told."""
    return refused if refused.reason is Reason.APPROVAL_LIMIT else Refused(Reason.SIGN_IN_FAILED)


def routes(context: ConsoleContext) -> list[Route]:
    page = SignInPage(context)
    return [
        Route("/sign-in", page.show),
        open_change(context, "/sign-in", page.finish),
        open_change(context, "/sign-in/options", page.options),
        change(context, "/sign-out", page.leave),
        Route("/enrol", page.enrol),
        open_change(context, "/enrol/look", page.look_at_ticket),
        open_change(context, "/enrol/begin", page.begin_enrolment),
        open_change(context, "/enrol/finish", page.enrolled),
        Route("/recover", page.recover),
        open_change(context, "/recover", page.use_code),
    ]
