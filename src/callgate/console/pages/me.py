"""A person's own passkeys and recovery codes; what they do with them is in passkeys.py."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.approval.overview import passkeys
from callgate.console.desk import Desk


class Me:
    """Everything of one person, nothing of anybody else."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        shelf = self._desk.approvals.shelf
        held, codes = await asyncio.gather(passkeys(shelf, session.user), shelf.recovery_codes(session.user))
        return await self._desk.show("me", session, passkeys=held, codes=codes)


def routes(desk: Desk) -> list[Route]:
    return [Route("/me", Me(desk).show)]
