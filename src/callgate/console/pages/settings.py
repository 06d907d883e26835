"""The kill switch; and what the gateway runs with, to be read."""

from __future__ import annotations

import asyncio
import platform
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate._version import __version__
from callgate.approval.model import ConsoleSession
from callgate.audit.seal import key_rows
from callgate.config import Config, show
from callgate.console.bodies import Body, Note
from callgate.console.desk import Desk
from callgate.console.rooms import Rooms
from callgate.console.signed import Act
from callgate.console.tree import tree
from callgate.errors import KeyringError, Reason, Refused
from callgate.keyring import Keyring
from callgate.store import Block, read_block, turn_block
from callgate.store.migrate import version


class _Stop(Body, frozen=True):
    note: Note = ""


class _GoOn(Body, frozen=True):
    # When the switch was turned on, as the page showed it: whoever stops everything anew has a new reason.
    since: Annotated[int, Meta(ge=0, le=2**53)]
    note: Note = ""


class Settings:
    """Anybody who approves may stop everything at once; to go on again takes an operator and their passkey."""

    def __init__(self, desk: Desk, rooms: Rooms) -> None:
        self._desk = desk
        self._rooms = rooms

    async def show(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        stored, schema, keys = await asyncio.gather(
            self._rooms.store.read(read_block), self._rooms.store.read(version), asyncio.to_thread(self._keys)
        )
        config = self._rooms.config
        return await self._desk.show(
            "settings",
            session,
            stored=stored,
            config=config,
            path=self._rooms.path,
            sections=_sections(config),
            store=self._rooms.store.kind,
            schema=schema,
            keys=keys,
            versions={"Callgate": __version__, "Python": platform.python_version(), "System": platform.system()},
        )

    def _keys(self) -> list[dict[str, Any]]:
        keyring = self._rooms.log.keyring
        try:
            return key_rows(keyring) if isinstance(keyring, Keyring) else []
        except KeyringError:
            # The log says what is wrong with them; the switch is on this page and has to be reached.
            return []

    async def stop(self, request: Request) -> Response:
        session, body = await self._desk.change(request, _Stop)
        self._desk.at_least(session, "approver")
        return await self._turn(session, body.note, on=True)

    async def ready(self, _request: Request, session: ConsoleSession, body: _GoOn) -> str:
        self._desk.at_least(session, "operator")
        stored = await self._rooms.store.read(read_block)
        if not stored.on or stored.at != body.since:
            raise Refused(Reason.PAGE_OUTDATED)
        return "Let calls through again"

    async def go_on(self, _request: Request, session: ConsoleSession, body: _GoOn) -> Response:
        return await self._turn(session, body.note, on=False)

    async def _turn(self, session: ConsoleSession, said: str, *, on: bool) -> Response:
        note = said.strip()
        state = Block(on=on, at=self._desk.now(), by=session.user, note=note)
        detail = {"note": note} if note else None
        row = self._rooms.log.admin(f"block_all.{'on' if on else 'off'}", session.user, detail)
        await turn_block(self._rooms.store, state, row)
        await self._rooms.switch.refresh()
        return JSONResponse({"on": self._rooms.switch.engaged})


def _sections(config: Config) -> list[tuple[str, Any]]:
    """The configuration as `callgate config show` prints it, secrets masked, a tree for each section."""
    return [
        (name, tree(msgspec.json.encode(value if isinstance(value, dict) else {name: value})))
        for name, value in show(config).items()
    ]


def routes(desk: Desk) -> list[Route]:
    if desk.rooms is None:
        return []
    page = Settings(desk, desk.rooms)
    return [
        Route("/settings", page.show),
        Route("/switch/on", page.stop, methods=["POST"]),
        *Act(desk, "switch/off", _GoOn, page.ready, page.go_on).routes("/switch/off"),
    ]
