"""What a person does with their own passkeys: rename; with a signature, revoke one or add a further device."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import ConsoleSession, Credential
from callgate.console.bodies import Body, Signed
from callgate.console.desk import Desk
from callgate.errors import Reason, Refused


class _Rename(Body, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]


class Passkeys:
    """A session alone renames passkeys. It neither adds one nor takes one away: each needs a signature (§4.4.1)."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def rename(self, request: Request) -> Response:
        session, body = await self._desk.change(request, _Rename)
        passkey = await self._own(request, session)
        name = body.name.strip()
        if not name:
            raise Refused(Reason.INVALID_PARAMS, "A passkey needs a name.", advice="Type one.")
        await self._desk.approvals.rename(passkey.id, name, by=session.user)
        return JSONResponse({})

    async def revoke_options(self, request: Request) -> Response:
        session, _ = await self._desk.change(request, Body)
        passkey = await self._own(request, session)
        issued = await self._desk.approvals.begin_revocation(session.user, passkey.id)
        return JSONResponse(issued.result)

    async def revoke(self, request: Request) -> Response:
        session, body = await self._desk.change(request, Signed)
        passkey = await self._own(request, session)
        await self._desk.approvals.finish_revocation(session.user, passkey.id, body.evidence)
        response = JSONResponse({"signedOut": passkey.id == session.credential})
        if passkey.id == session.credential:
            self._desk.forget(response)
        return response

    async def device_options(self, request: Request) -> Response:
        session, _ = await self._desk.change(request, Body)
        issued = await self._desk.approvals.begin_device(session.user)
        return JSONResponse(issued.result)

    async def device(self, request: Request) -> Response:
        session, body = await self._desk.change(request, Signed)
        return JSONResponse({"ticket": await self._desk.approvals.finish_device(session.user, body.evidence)})

    async def _own(self, request: Request, session: ConsoleSession) -> Credential:
        found = await self._desk.approvals.shelf.credential(request.path_params["id"])
        if found is None or found.user != session.user or found.revoked_at is not None:
            raise Refused(Reason.PAGE_UNKNOWN, "You have no such passkey.", advice="Load the page again.")
        return found


def routes(desk: Desk) -> list[Route]:
    page = Passkeys(desk)
    return [
        Route("/passkeys/{id}/rename", page.rename, methods=["POST"]),
        Route("/passkeys/{id}/revoke/options", page.revoke_options, methods=["POST"]),
        Route("/passkeys/{id}/revoke", page.revoke, methods=["POST"]),
        Route("/device/options", page.device_options, methods=["POST"]),
        Route("/device", page.device, methods=["POST"]),
    ]
