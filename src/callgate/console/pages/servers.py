"""Servers: what is configured, who each proves to be, how its tools stand, and what is wrong with it."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.audit.reading import Search, search
from callgate.audit.storage import Filter
from callgate.console.cards import key_of
from callgate.console.charts import chart, rows
from callgate.console.desk import Desk
from callgate.console.logbook import in_log, tired
from callgate.console.rooms import Rooms
from callgate.console.tally import tally_of
from callgate.console.troubles import ServerRow, Servers
from callgate.errors import Reason, Refused

_DAY: Final = 24
_CALLS: Final = 10


class ServerPages:
    """Everybody who signs in may look; the configuration is changed where the gateway runs."""

    def __init__(self, desk: Desk, rooms: Rooms) -> None:
        self._desk = desk
        self._rooms = rooms
        self._servers = Servers(desk, rooms)
        self._tally = tally_of(rooms.store, desk.now)

    async def show(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        counts = (await self._tally.counts()).within(_DAY)
        found = await self._servers.rows()
        return await self._desk.show(
            "servers", session, rows=[(one, *counts.of_server(one.name)) for one in found], path=self._rooms.path
        )

    async def one(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        name = request.path_params["name"]
        found = next((one for one in await self._servers.rows() if one.name == name), None)
        if found is None:
            raise Refused(Reason.PAGE_UNKNOWN, "There is no such server.", advice="The servers' page lists them.")
        counts = (await self._tally.counts()).within(_DAY)
        own = type(counts)([one for one in counts.calls if one.server == name], [], counts.hour, counts.complete)
        table, enough = rows(own, _DAY, 1), tired()
        latest = await in_log(
            self._rooms.store,
            lambda tables: search(tables, Search(Filter(server=name)), limit=_CALLS, tired=enough),
        )
        return await self._desk.show(
            "servers_one",
            session,
            row=found,
            settings=self._in_force(found),
            keys={one.seen.server_id: key_of(one.seen.server_id) for one in found.met},
            allowed=chart([(one.at, one.allowed) for one in table]),
            refused=chart([(one.at, one.refused) for one in table]),
            table_rows=table,
            latest=latest.entries,
        )

    def _in_force(self, row: ServerRow) -> list[tuple[str, str, str]]:
        """What holds for this server: its name, its value, and the key that sets it."""
        config, server = self._rooms.config, row.server
        if server is None:
            return []
        made: list[tuple[str, Any, str]] = [
            ("Tools need a review", _mode(config.pinning.mode), "pinning.mode"),
            ("Reviewed together with", server.pinning.group or "every server without a group", "pinning.group"),
            ("Flow of data is checked", _mode(config.trust.mode), "trust.mode"),
            ("Its word on its own labels", "believed" if server.trust.trusted else "only tightens", "trust.trusted"),
            ("Tools that need a person", ", ".join(server.approval.tools) or "none by name", "approval.tools"),
            (
                "Who is asked",
                server.approval.user or config.approval.user or "the only person there is",
                "approval.user",
            ),
            ("Time to begin an answer", f"{server.timeout_seconds:g} s", "timeout_seconds"),
        ]
        return [(name, str(value), key) for name, value, key in made]


def _mode(mode: str) -> str:
    return {"off": "no", "enforce": "yes", "observe": "only watched"}.get(mode, mode)


def routes(desk: Desk) -> list[Route]:
    if desk.rooms is None:
        return []
    page = ServerPages(desk, desk.rooms)
    return [Route("/servers", page.show), Route("/servers/{name}", page.one)]
