"""Results that are kept back: what is suspicious about each, what it says, and a person's word on it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import ConsoleSession
from callgate.console.bodies import Body, Note
from callgate.console.desk import Desk, TrustDesk
from callgate.console.marking import Marks
from callgate.console.rendering import statement
from callgate.console.signed import Act
from callgate.trust.model import Quarantined
from callgate.trust.service import Settled

_ROWS: Final = 100


class _Settle(Body, frozen=True):
    note: Note = ""


class Quarantine:
    """What is held is sealed in the store; it is opened for the page of one result only."""

    def __init__(self, desk: Desk, trust: TrustDesk) -> None:
        self._desk = desk
        self._trust = trust

    async def show(self, request: Request) -> Response:
        person = await self._desk.visitor(request)
        held = await self._trust.service.holding(limit=_ROWS)
        return await self._desk.show(
            "quarantine",
            person,
            held=held,
            most=_ROWS,
            stamp=_stamp(held),
        )

    async def stamp(self, request: Request) -> Response:
        await self._desk.signed_in(request)
        return JSONResponse({"stamp": _stamp(await self._trust.service.holding(limit=_ROWS))})

    async def one(self, request: Request) -> Response:
        person = await self._desk.visitor(request)
        view = await self._trust.service.show(request.path_params["handle"])
        return await self._desk.show(
            "held",
            person,
            held=view.held,
            view=view,
            texts=[Marks().lines("", text) for text in view.texts],
            raw=statement(view.raw),
            may_decide=self._trust.may_decide(person),
        )

    async def drop(self, request: Request) -> Response:
        person, body = await self._desk.change(request, _Settle)
        return await self._settle(request, person, body, "dropped")

    async def ready(self, request: Request, person: ConsoleSession, _body: _Settle) -> str:
        self._trust.check(person)
        view = await self._trust.service.show(request.path_params["handle"])
        return f"Give the agent the result {view.held.handle} that was held back"

    async def release(self, request: Request, person: ConsoleSession, body: _Settle) -> Response:
        return await self._settle(request, person, body, "released")

    async def _settle(self, request: Request, person: ConsoleSession, body: _Settle, state: Settled) -> Response:
        self._trust.check(person)
        handle = request.path_params["handle"]
        held = await self._trust.settle(handle, state, by=person.user, note=body.note.strip())
        return JSONResponse({"state": held.state})


def _stamp(held: Sequence[Quarantined]) -> str:
    return hashlib.sha256("\n".join(one.handle for one in held).encode()).hexdigest()[:16]


def routes(desk: Desk) -> list[Route]:
    if desk.trust is None:
        return []
    page = Quarantine(desk, desk.trust)
    return [
        Route("/quarantine", page.show),
        Route("/quarantine/stamp", page.stamp),
        Route("/quarantine/{handle}", page.one),
        Route("/quarantine/{handle}/drop", page.drop, methods=["POST"]),
        *Act(desk, "quarantine/release", _Settle, page.ready, page.release).routes("/quarantine/{handle}/release"),
    ]
