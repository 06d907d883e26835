"""Calls that wait for this person, and what they decided lately."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.overview import RequestRow, requests
from callgate.console.brief import Waits
from callgate.console.desk import Desk
from callgate.console.rendering import Shown, statement

_RECENT: Final = 10
_PREVIEW: Final = 160


class Inbox:
    """What one person was asked, nothing of anybody else: the rows that the command line prints."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        shelf, now = self._desk.approvals.shelf, self._desk.now()
        waiting, asked, tools = await asyncio.gather(
            requests(shelf, now, session.user),
            requests(shelf, now, session.user, everything=True),
            self._desk.tools_wait(session),
        )
        return await self._desk.show(
            "approvals",
            session,
            waiting=[_card(row) for row in waiting],
            recent=[row for row in asked if row.state != "waiting"][:_RECENT],
            waits=tools,
            stamp=_stamp(waiting, tools),
        )

    async def stamp(self, request: Request) -> Response:
        """Changes whenever what waits does: open pages ask for it now and then."""
        session = await self._desk.signed_in(request)
        waiting = await requests(self._desk.approvals.shelf, self._desk.now(), session.user)
        stamp = _stamp(waiting, await self._desk.tools_wait(session))
        return JSONResponse({"waiting": len(waiting), "stamp": stamp})


def _card(row: RequestRow) -> dict[str, Any]:
    return {"row": row, "preview": _preview(row.text)}


def _preview(text: str) -> Shown:
    """Enough to tell two calls apart; the call's own page has all of it."""
    joined = ""
    for part in (line.strip() for line in text.split("\n")[1:] if line.strip()):
        between = " " if joined.endswith(":") else " · "
        joined += f"{between if joined else ''}{part}"
        if len(joined) > _PREVIEW:
            break
    return statement(joined if len(joined) <= _PREVIEW else f"{joined[:_PREVIEW]}…")


def _stamp(waiting: Sequence[RequestRow], tools: Waits) -> str:
    return hashlib.sha256(
        "\0".join([f"{tools.total} {tools.held}", *(row.id for row in waiting)]).encode()
    ).hexdigest()[:16]


def routes(desk: Desk) -> list[Route]:
    page = Inbox(desk)
    return [Route("/approvals", page.show), Route("/waiting", page.stamp)]
