"""Agents' sessions, one of them as a picture and as a list of its steps; and results that are kept back."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import ConsoleSession
from callgate.console.context import ConsoleContext, Page, TrustReviews
from callgate.console.flow import draw
from callgate.console.marking import TextMarks
from callgate.console.rendering import lines_of, statement
from callgate.console.requests import Note, change, signed
from callgate.errors import Reason, Refused
from callgate.trust.model import Quarantined
from callgate.trust.model import Session as AgentSession
from callgate.trust.picture import Node, Picture, session_tags
from callgate.trust.service import Settled

_ROWS: Final = 100


class SessionsPage(Page):
    """Everybody who signs in may look; who may decide lets results go that are kept back.

    What is held is sealed in the store; it is opened for the page of one result only.
    """

    def __init__(self, context: ConsoleContext, trust: TrustReviews) -> None:
        super().__init__(context)
        self._trust = trust

    async def show(self, request: Request) -> Response:
        person = await self._context.visitor(request)
        found = await self._trust.service.sessions(limit=_ROWS)
        return await self._context.show(
            "sessions",
            person,
            rows=[(one, session_tags(one.label)) for one in found],
            most=_ROWS,
            stamp=_stamp(found),
        )

    async def stamp(self, request: Request) -> Response:
        """Changes with every step of every session that is shown."""
        await self._context.signed_in(request)
        return JSONResponse({"stamp": _stamp(await self._trust.service.sessions(limit=_ROWS))})

    async def one(self, request: Request) -> Response:
        person = await self._context.visitor(request)
        try:
            picture = await self._trust.service.view(request.path_params["key"])
        except Refused as refused:
            page = "text/html" in request.headers.get("accept", "")
            if refused.reason is not Reason.AGENT_SESSION_UNKNOWN or not page:
                raise
            return await self._context.show("session_unknown", person, status=404, refused=refused)
        return await self._context.show(
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
        await self._context.signed_in(request)
        found = await self._trust.service.shelf.session(request.path_params["key"])
        if found is None:
            raise Refused(Reason.AGENT_SESSION_UNKNOWN)
        return JSONResponse({"stamp": str(found.version)})

    # ---- results that are kept back ----

    async def list_held(self, request: Request) -> Response:
        person = await self._context.visitor(request)
        held = await self._trust.service.holding(limit=_ROWS)
        return await self._context.show(
            "quarantine",
            person,
            held=held,
            most=_ROWS,
            stamp=_held_stamp(held),
        )

    async def held_stamp(self, request: Request) -> Response:
        await self._context.signed_in(request)
        return JSONResponse({"stamp": _held_stamp(await self._trust.service.holding(limit=_ROWS))})

    async def held(self, request: Request) -> Response:
        person = await self._context.visitor(request)
        view = await self._trust.service.show(request.path_params["handle"])
        return await self._context.show(
            "held",
            person,
            held=view.held,
            view=view,
            texts=[TextMarks().lines("", text) for text in view.texts],
            raw=statement(view.raw),
            may_decide=self._trust.may_decide(person),
        )

    async def drop(self, request: Request, session: ConsoleSession, note: Note = "") -> Response:
        return await self._settle(request, session, note, "dropped")

    async def ready(self, request: Request, session: ConsoleSession) -> str:
        self._trust.check(session)
        view = await self._trust.service.show(request.path_params["handle"])
        return f"Give the agent the result {view.held.handle} that was held back"

    async def release(self, request: Request, session: ConsoleSession, note: Note = "") -> Response:
        return await self._settle(request, session, note, "released")

    async def _settle(self, request: Request, session: ConsoleSession, note: str, state: Settled) -> Response:
        self._trust.check(session)
        held = await self._trust.settle(request.path_params["handle"], state, by=session.user, note=note.strip())
        return JSONResponse({"state": held.state})


def _entry(node: Node, picture: Picture) -> dict[str, Any]:
    """One step as the list has it, with every value and not only those that are drawn."""
    return {
        "node": node,
        "why": lines_of(node.why),
        "values": picture.values.get(node.seq, ()),
        "result": picture.result(node.seq),
    }


def _stamp(found: Sequence[AgentSession]) -> str:
    text = "\n".join(f"{one.key} {one.version} {one.seen_at}" for one in found)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _held_stamp(held: Sequence[Quarantined]) -> str:
    return hashlib.sha256("\n".join(one.handle for one in held).encode()).hexdigest()[:16]


def routes(context: ConsoleContext) -> list[Route]:
    if context.trust is None:
        return []
    page = SessionsPage(context, context.trust)
    return [
        Route("/sessions", page.show),
        Route("/sessions/stamp", page.stamp),
        Route("/sessions/{key}", page.one),
        Route("/sessions/{key}/stamp", page.version),
        Route("/quarantine", page.list_held),
        Route("/quarantine/stamp", page.held_stamp),
        Route("/quarantine/{handle}", page.held),
        change(context, "/quarantine/{handle}/drop", page.drop),
        *signed(context, "quarantine/release", page.ready, page.release, path="/quarantine/{handle}/release"),
    ]
