"""A person's own passkeys and recovery codes, and what they do with them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import ConsoleSession, Credential, reaches
from callgate.approval.overview import passkey_row, tickets
from callgate.approval.reach import demanded, except_for, how_to_add, lacking
from callgate.console.context import ConsoleContext, Page
from callgate.console.requests import PageBody, SignedBody
from callgate.errors import Reason, Refused


class _Rename(PageBody, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]


class MePage(Page):
    """Everything of one person, nothing of anybody else.

    A session alone renames passkeys. It neither adds one nor takes one away: each needs a signature (§4.4.1).
    """

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        shelf = self._context.approvals.shelf
        held, codes, demands = await asyncio.gather(
            shelf.credentials(session.user), shelf.recovery_codes(session.user), self._context.demands()
        )
        without = lacking(held, demands or (), session.user) if reaches(session.role, "approver") else []
        return await self._context.show(
            "me",
            session,
            passkeys=[passkey_row(one) for one in held],
            approves={one.id: except_for(one, demands) for one in held} if demands else {},
            lacks=demanded(without),
            how=how_to_add(without[0].policy, "“Add another device”") if without else "",
            codes=codes,
            links=await tickets(shelf, self._context.now(), session.user),
            brings_codes=self._context.approvals.settings.recovery_codes,
        )

    async def rename(self, request: Request) -> Response:
        session, body = await self._context.change(request, _Rename)
        passkey = await self._own(request, session)
        name = body.name.strip()
        if not name:
            raise Refused(Reason.INVALID_PARAMS, "A passkey needs a name.", advice="Type one.")
        await self._context.approvals.rename(passkey.id, name, by=session.user)
        return JSONResponse({})

    async def revoke_options(self, request: Request) -> Response:
        session, _ = await self._context.change(request, PageBody)
        passkey = await self._own(request, session)
        issued = await self._context.approvals.begin_revocation(session.user, passkey.id)
        return JSONResponse(issued.result)

    async def revoke(self, request: Request) -> Response:
        session, body = await self._context.change(request, SignedBody)
        passkey = await self._own(request, session)
        await self._context.approvals.finish_revocation(session.user, passkey.id, body.evidence)
        response = JSONResponse({"signedOut": passkey.id == session.credential})
        if passkey.id == session.credential:
            self._context.forget(response)
        return response

    async def device_options(self, request: Request) -> Response:
        session, _ = await self._context.change(request, PageBody)
        issued = await self._context.approvals.begin_device(session.user)
        return JSONResponse(issued.result)

    async def device(self, request: Request) -> Response:
        session, body = await self._context.change(request, SignedBody)
        return JSONResponse({"ticket": await self._context.approvals.finish_device(session.user, body.evidence)})

    async def _own(self, request: Request, session: ConsoleSession) -> Credential:
        found = await self._context.approvals.shelf.credential(request.path_params["id"])
        if found is None or found.user != session.user or found.revoked_at is not None:
            raise Refused(Reason.PAGE_UNKNOWN, "You have no such passkey.", advice="Load the page again.")
        return found


def routes(context: ConsoleContext) -> list[Route]:
    page = MePage(context)
    return [
        Route("/me", page.show),
        Route("/passkeys/{id}/rename", page.rename, methods=["POST"]),
        Route("/passkeys/{id}/revoke/options", page.revoke_options, methods=["POST"]),
        Route("/passkeys/{id}/revoke", page.revoke, methods=["POST"]),
        Route("/device/options", page.device_options, methods=["POST"]),
        Route("/device", page.device, methods=["POST"]),
    ]
