"""A person's own passkeys and recovery codes; what they do with them is in passkeys.py."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.approval.model import reaches
from callgate.approval.overview import passkey_row
from callgate.approval.reach import demanded, except_for, how_to_add, lacking
from callgate.console.desk import Desk


class Me:
    """Everything of one person, nothing of anybody else."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        shelf = self._desk.approvals.shelf
        held, codes, demands = await asyncio.gather(
            shelf.credentials(session.user), shelf.recovery_codes(session.user), self._desk.demands()
        )
        without = lacking(held, demands or (), session.user) if reaches(session.role, "approver") else []
        return await self._desk.show(
            "me",
            session,
            passkeys=[passkey_row(one) for one in held],
            approves={one.id: except_for(one, demands) for one in held} if demands else {},
            lacks=demanded(without),
            how=how_to_add(without[0].policy, "“Add another device”") if without else "",
            codes=codes,
            brings_codes=self._desk.approvals.settings.recovery_codes,
        )


def routes(desk: Desk) -> list[Route]:
    return [Route("/me", Me(desk).show)]
