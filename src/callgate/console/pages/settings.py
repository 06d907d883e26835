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
from callgate.audit.log import key_rows
from callgate.config import Config, show
from callgate.console.context import ConsoleContext, GatewayPage
from callgate.console.rendering import json_tree
from callgate.console.requests import Note, change, signed
from callgate.errors import KeyringError, Reason, Refused
from callgate.keyring import Keyring
from callgate.store import Block, read_block, turn_block
from callgate.store.migrate import version


class SettingsPage(GatewayPage):
    """Anybody who approves may stop everything at once; to go on again takes an operator and their passkey."""

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        stored, schema, keys = await asyncio.gather(
            self._gateway.store.read(read_block), self._gateway.store.read(version), asyncio.to_thread(self._keys)
        )
        config = self._gateway.config
        return await self._context.show(
            "settings",
            session,
            stored=stored,
            config=config,
            path=self._gateway.path,
            sections=_sections(config),
            store=self._gateway.store.kind,
            schema=schema,
            keys=keys,
            versions={"Callgate": __version__, "Python": platform.python_version(), "System": platform.system()},
        )

    def _keys(self) -> list[dict[str, Any]]:
        keyring = self._gateway.log.keyring
        try:
            return key_rows(keyring) if isinstance(keyring, Keyring) else []
        except KeyringError:
            # The log says what is wrong with them; the switch is on this page and has to be reached.
            return []

    async def stop(self, session: ConsoleSession, note: Note = "") -> Response:
        return await self._turn(session, note, on=True)

    async def ready(self, since: Annotated[int, Meta(ge=0, le=2**53)]) -> str:
        """`since`: when it was turned on, as the page showed it. Whoever stops everything anew has a new reason."""
        stored = await self._gateway.store.read(read_block)
        if not stored.on or stored.at != since:
            raise Refused(Reason.PAGE_OUTDATED)
        return "Let calls through again"

    async def go_on(self, session: ConsoleSession, note: Note = "") -> Response:
        return await self._turn(session, note, on=False)

    async def _turn(self, session: ConsoleSession, said: str, *, on: bool) -> Response:
        note = said.strip()
        state = Block(on=on, at=self._context.now(), by=session.user, note=note)
        detail = {"note": note} if note else None
        row = self._gateway.log.admin(f"block_all.{'on' if on else 'off'}", session.user, detail)
        await turn_block(self._gateway.store, state, row)
        await self._gateway.switch.refresh()
        return JSONResponse({"on": self._gateway.switch.engaged})


def _sections(config: Config) -> list[tuple[str, Any]]:
    """The configuration as `callgate config show` prints it, secrets masked, a tree for each section."""
    return [
        (name, json_tree(msgspec.json.encode(value if isinstance(value, dict) else {name: value})))
        for name, value in show(config).items()
    ]


def routes(context: ConsoleContext) -> list[Route]:
    if context.gateway is None:
        return []
    page = SettingsPage(context, context.gateway)
    return [
        Route("/settings", page.show),
        change(context, "/switch/on", page.stop, role="approver"),
        *signed(context, "switch/off", page.ready, page.go_on, role="operator"),
    ]
