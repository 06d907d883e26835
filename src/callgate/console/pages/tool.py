"""One tool: its text, every decision on it and every text it had; and one server: all of its tools."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.console.brief import Waits
from callgate.console.cards import Card, key_of
from callgate.console.desk import Desk, ToolDesk
from callgate.console.rendering import Shown, exact, statement
from callgate.errors import Reason, Refused
from callgate.pinning.model import Pin, ToolSeen
from callgate.pinning.review.views import Review, ServerView, ToolView
from callgate.trust.effects import EFFECTS

_ROWS: Final = 500
_DID: Final = {"approve": ("approved it", "good"), "block": ("blocked it", "bad"), "withdraw": ("withdrew it", "plain")}


class Tool:
    """What was decided of a tool is never lost: the page of it has the whole story."""

    def __init__(self, desk: Desk, tools: ToolDesk) -> None:
        self._desk = desk
        self._tools = tools

    async def show(self, request: Request) -> Response:
        server_key, tool_key = request.path_params["server"], request.path_params["tool"]
        session = await self._desk.visitor(request)
        review = await self._tools.review()
        server = _server(review, server_key)
        view = next((one for one in server.tools if key_of(one.tool) == tool_key), None)
        if view is None:
            raise Refused(Reason.PAGE_UNKNOWN, "This server has no such tool.", advice="Look for it on /tools.")
        pins = self._tools.pins
        return await self._desk.show(
            "tool",
            session,
            card=Card(view),
            server=server,
            may_decide=self._tools.may_decide(session),
            effects=EFFECTS,
            history=[_entry(pin) for pin in reversed(await pins.history(view.server_id, view.tool))],
            texts=[_text(one, view) for one in await pins.shelf.texts(view.server_id, view.tool)],
            waits=await self._desk.and_theirs(session, Waits.of(review)),
        )

    async def server(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        review = await self._tools.review()
        server = _server(review, request.path_params["server"])
        sheets = max(1, -(-len(server.tools) // _ROWS))
        text = request.query_params.get("sheet", "1")
        number = min(max(int(text), 1), sheets) if text.isascii() and text.isdigit() and len(text) < 6 else 1
        first = (number - 1) * _ROWS
        rows = [(view, key_of(view.tool)) for view in server.tools[first : first + _ROWS]]
        return await self._desk.show(
            "server",
            session,
            key=key_of(server.seen.server_id),
            server=server,
            rows=rows,
            first=first,
            number=number,
            sheets=sheets,
            waits=await self._desk.and_theirs(session, Waits.of(review)),
        )


def _server(review: Review, key: str) -> ServerView:
    for server in review.servers:
        if key_of(server.seen.server_id) == key:
            return server
    raise Refused(Reason.PAGE_UNKNOWN, "No such server was met here.", advice="Look for it on /tools.")


def _entry(pin: Pin) -> dict[str, Any]:
    did, tone = _DID[pin.action]
    return {
        "head": f"{pin.approved_by} {did}",
        "at": pin.approved_at,
        "note": statement(pin.note),
        "overrides": ", ".join(pin.overrides),
        "tone": tone,
        "hash": pin.approval_hash,
        "raw": _exact(pin.raw),
    }


def _text(seen: ToolSeen, view: ToolView) -> dict[str, Any]:
    now = seen.approval_hash == view.approval_hash and not seen.gone
    return {"seen": seen, "raw": _exact(seen.raw), "now": now}


def _exact(raw: bytes) -> Shown | None:
    return exact(raw) if raw else None


def routes(desk: Desk) -> list[Route]:
    if desk.tools is None:
        return []
    page = Tool(desk, desk.tools)
    return [Route("/tools/{server}", page.server), Route("/tools/{server}/{tool}", page.show)]
