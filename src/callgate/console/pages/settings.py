"""The kill switch, and the configuration in force."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import Session
from callgate.console.bodies import Body, Note
from callgate.console.desk import Desk
from callgate.console.rooms import Rooms
from callgate.console.signed import Act
from callgate.store import Block, read_block, turn_block


class _Turn(Body, frozen=True):
    note: Note = ""


class Settings:
    """Anybody who approves may stop everything at once; to go on again takes an operator and their passkey."""

    def __init__(self, desk: Desk, rooms: Rooms) -> None:
        self._desk = desk
        self._rooms = rooms

    async def show(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        return await self._desk.show(
            "settings",
            session,
            stored=await self._rooms.store.read(read_block),
            config=self._rooms.config,
            path=self._rooms.path,
        )

    async def stop(self, request: Request) -> Response:
        session, body = await self._desk.change(request, _Turn)
        self._desk.at_least(session, "approver")
        return await self._turn(session, body, on=True)

    async def ready(self, _request: Request, session: Session, _body: _Turn) -> str:
        self._desk.at_least(session, "operator")
        return "Let calls through again"

    async def go_on(self, _request: Request, session: Session, body: _Turn) -> Response:
        return await self._turn(session, body, on=False)

    async def _turn(self, session: Session, body: _Turn, *, on: bool) -> Response:
        note = body.note.strip()
        state = Block(on=on, at=self._desk.now(), by=session.user, note=note)
        detail = {"note": note} if note else None
        row = self._rooms.log.admin(f"block_all.{'on' if on else 'off'}", session.user, detail)
        await turn_block(self._rooms.store, state, row)
        await self._rooms.switch.refresh()
        return JSONResponse({"on": self._rooms.switch.engaged})


def routes(desk: Desk) -> list[Route]:
    if desk.rooms is None:
        return []
    page = Settings(desk, desk.rooms)
    return [
        Route("/settings", page.show),
        Route("/switch/on", page.stop, methods=["POST"]),
        *Act(desk, "switch/off", _Turn, page.ready, page.go_on).routes("/switch/off"),
    ]
