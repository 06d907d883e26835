"""Agents' sessions: what each has taken in, and one of them as a picture and as a list of its steps."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.console.desk import Desk, TrustDesk
from callgate.console.flow import draw
from callgate.console.rendering import lines_of
from callgate.errors import Reason, Refused
from callgate.trust.model import Session
from callgate.trust.picture import Node, Picture, session_tags

_ROWS: Final = 100


class Sessions:
    """Everybody who signs in may look; nothing can be changed here."""

    def __init__(self, desk: Desk, trust: TrustDesk) -> None:
        self._desk = desk
        self._trust = trust

    async def show(self, request: Request) -> Response:
        person = await self._desk.visitor(request)
        found = await self._trust.service.sessions(limit=_ROWS)
        return await self._desk.show(
            "sessions",
            person,
            rows=[(one, session_tags(one.label)) for one in found],
            most=_ROWS,
            stamp=_stamp(found),
        )

    async def stamp(self, request: Request) -> Response:
        """Changes with every step of every session that is shown."""
        await self._desk.signed_in(request)
        return JSONResponse({"stamp": _stamp(await self._trust.service.sessions(limit=_ROWS))})

    async def one(self, request: Request) -> Response:
        person = await self._desk.visitor(request)
        try:
            picture = await self._trust.service.view(request.path_params["key"])
        except Refused as refused:
            page = "text/html" in request.headers.get("accept", "")
            if refused.reason is not Reason.AGENT_SESSION_UNKNOWN or not page:
                raise
            return await self._desk.show("session_unknown", person, status=404, refused=refused)
        return await self._desk.show(
            "session",
            person,
            picture=picture,
            drawing=draw(picture),
            steps=[_entry(node, picture) for node in picture.calls],
            flagged=[node for node in picture.nodes if node.kind == "result" and node.warnings],
            command=shlex.join(["callgate", "session", "declassify", picture.session.key, "--note", "WHY"]),
            stamp=str(picture.session.version),
        )

    async def version(self, request: Request) -> Response:
        await self._desk.signed_in(request)
        found = await self._trust.service.shelf.session(request.path_params["key"])
        if found is None:
            raise Refused(Reason.AGENT_SESSION_UNKNOWN)
        return JSONResponse({"stamp": str(found.version)})


def _entry(node: Node, picture: Picture) -> dict[str, Any]:
    """One step as the list has it, with every value and not only those that are drawn."""
    return {
        "node": node,
        "why": lines_of(node.why),
        "values": picture.values.get(node.seq, ()),
        "result": picture.result(node.seq),
    }


def _stamp(found: Sequence[Session]) -> str:
    text = "\n".join(f"{one.key} {one.version} {one.seen_at}" for one in found)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def routes(desk: Desk) -> list[Route]:
    if desk.trust is None:
        return []
    page = Sessions(desk, desk.trust)
    return [
        Route("/sessions", page.show),
        Route("/sessions/stamp", page.stamp),
        Route("/sessions/{key}", page.one),
        Route("/sessions/{key}/stamp", page.version),
    ]
