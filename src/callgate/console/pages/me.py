"""A person's own passkeys, devices and recovery codes, and what they do with them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import ConsoleSession, Credential, reaches
from callgate.approval.overview import live_grants, passkey_row, tickets
from callgate.approval.reach import demanded, except_for, how_to_add, lacking
from callgate.console.context import ConsoleContext, Page
from callgate.console.requests import SignedBody, change
from callgate.errors import Reason, Refused
from callgate.protocol import DEVICE

PasskeyName = Annotated[str, Meta(min_length=1, max_length=64)]


class MePage(Page):
    """Everything of one person, nothing of anybody else.

    A session alone renames passkeys. It neither adds one nor takes one away: each needs a signature (§4.4.1).
    """

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        shelf = self._context.approvals.shelf
        held, devices, codes, demands = await asyncio.gather(
            shelf.credentials(session.user),
            shelf.credentials(session.user, method=DEVICE),
            shelf.recovery_codes(session.user),
            self._context.demands(),
        )
        without = lacking(held, demands or (), session.user) if reaches(session.role, "approver") else []
        return await self._context.show(
            "me",
            session,
            passkeys=[passkey_row(one) for one in held],
            devices=[passkey_row(one) for one in devices],
            may_decide=reaches(session.role, "approver"),
            approves={one.id: except_for(one, demands) for one in held} if demands else {},
            lacks=demanded(without),
            how=how_to_add(without[0].policy, "“Add another device”") if without else "",
            codes=codes,
            links=await tickets(shelf, self._context.now(), session.user),
            grants=await live_grants(shelf, self._context.now(), session.user),
            brings_codes=self._context.approvals.settings.recovery_codes,
        )

    async def rename(self, request: Request, session: ConsoleSession, name: PasskeyName) -> Response:
        passkey = await self._own(request, session)
        name = name.strip()
        if not name:
            raise Refused(Reason.INVALID_PARAMS, "A passkey needs a name.", advice="Type one.")
        await self._context.approvals.rename(passkey.id, name, by=session.user)
        return JSONResponse({})

    async def revoke_options(self, request: Request, session: ConsoleSession) -> Response:
        passkey = await self._own(request, session)
        issued = await self._context.approvals.begin_revocation(session.user, passkey.id)
        return JSONResponse(issued.result)

    async def revoke(self, request: Request, session: ConsoleSession, body: SignedBody) -> Response:
        passkey = await self._own(request, session)
        await self._context.approvals.finish_revocation(session.user, passkey.id, body.evidence)
        response = JSONResponse({"signedOut": passkey.id == session.credential})
        if passkey.id == session.credential:
            self._context.forget(response)
        return response

    async def device_options(self, session: ConsoleSession) -> Response:
        issued = await self._context.approvals.begin_device(session.user)
        return JSONResponse(issued.result)

    async def device(self, session: ConsoleSession, body: SignedBody) -> Response:
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
        change(context, "/passkeys/{id}/rename", page.rename),
        change(context, "/passkeys/{id}/revoke/options", page.revoke_options),
        change(context, "/passkeys/{id}/revoke", page.revoke),
        change(context, "/device/options", page.device_options),
        change(context, "/device", page.device),
    ]
