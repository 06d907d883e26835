"""Results that are kept back: what is suspicious about each, what it says, and a person's word on it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.console.bodies import Body, Note
from callgate.console.desk import Desk, TrustDesk
from callgate.console.marking import Marks
from callgate.console.rendering import statement
from callgate.trust.model import Quarantined

_ROWS: Final = 100


class _Settle(Body, frozen=True):
    state: Literal["released", "dropped"]
    note: Note = ""


class Quarantine:
    """What is held is sealed in the store; it is opened for the page of one result only."""

    def __init__(self, desk: Desk, trust: TrustDesk) -> None:
        self._desk = desk
        self._trust = trust

    async def show(self, request: Request) -> Response:
        person = await self._desk.person(request)
        if person is None:
            return self._desk.sign_in_page(onward="/quarantine", status=401)
        held = await self._trust.service.holding(limit=_ROWS)
        return self._desk.page(
            "quarantine",
            person,
            held=held,
            most=_ROWS,
            stamp=_stamp(held),
            tools_wait=await self._desk.tools_wait(person),
        )

    async def stamp(self, request: Request) -> Response:
        await self._desk.signed_in(request)
        return JSONResponse({"stamp": _stamp(await self._trust.service.holding(limit=_ROWS))})

    async def one(self, request: Request) -> Response:
        person = await self._desk.person(request)
        if person is None:
            return self._desk.sign_in_page(onward="/quarantine", status=401)
        view = await self._trust.service.show(request.path_params["handle"])
        return self._desk.page(
            "held",
            person,
            held=view.held,
            view=view,
            texts=[Marks().lines("", text) for text in view.texts],
            raw=statement(view.raw),
            may_decide=self._trust.may_decide(person),
            tools_wait=await self._desk.tools_wait(person),
        )

    async def settle(self, request: Request) -> Response:
        person, body = await self._desk.change(request, _Settle)
        self._trust.check(person)
        held = await self._trust.settle(
            request.path_params["handle"], body.state, by=person.user, note=body.note.strip()
        )
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
        Route("/quarantine/{handle}/settle", page.settle, methods=["POST"]),
    ]
