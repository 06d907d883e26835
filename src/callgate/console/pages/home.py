"""The first page: what waits for this person, what happened lately, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.audit.reading import CallEntry, Search, search
from callgate.audit.storage import Filter
from callgate.console.charts import chart, rows, shares
from callgate.console.desk import Desk
from callgate.console.logbook import in_log, tired
from callgate.console.rooms import Rooms
from callgate.console.tally import HOURS, tally_of
from callgate.console.troubles import Servers
from callgate.errors import AuditError, Reason

_DAY: Final = 24
_REASONS: Final = 5
_REFUSALS: Final = 6
_FRESH_MS: Final = 3_000
_SECONDS: Final = 0.05


class Home:
    """A person's view of the whole gateway."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lately = None if desk.rooms is None else Lately(desk, desk.rooms)

    async def show(self, request: Request) -> Response:
        session = await self._desk.person(request)
        if session is None:
            return self._desk.sign_in_page(onward="/")
        if self._lately is None:
            return await self._desk.show("home", session, lately=None)
        week = request.query_params.get("span") == "7d"
        return await self._desk.show("home", session, lately=await self._lately.values(week=week))


class Lately:
    """What happened: counted by the hour, the newest refusals, and servers in trouble."""

    def __init__(self, desk: Desk, rooms: Rooms) -> None:
        self._desk = desk
        self._rooms = rooms
        self._tally = tally_of(rooms.store, desk.now)
        self._servers = Servers(desk, rooms)
        self._refused: tuple[int, Sequence[CallEntry]] | None = None

    async def values(self, *, week: bool) -> dict[str, Any]:
        hours, each = (HOURS, 6) if week else (_DAY, 1)
        counts = (await self._tally.counts()).within(hours)
        table = rows(counts, hours, each)
        return {
            "week": week,
            "complete": counts.complete,
            "rows": table,
            "allowed": chart([(one.at, one.allowed) for one in table]),
            "refused": chart([(one.at, one.refused) for one in table]),
            "asked": chart([(one.at, one.asked) for one in table]),
            "approved": sum(one.approved for one in table),
            "reasons": shares(counts.reasons(), _REASONS),
            "newest": [(one, meaning(one.decision.reason)) for one in await self._refusals()],
            "troubled": [one for one in await self._servers.rows() if one.troubles],
            "servers": len(self._rooms.config.servers),
        }

    async def _refusals(self) -> Sequence[CallEntry]:
        now = self._desk.now()
        if self._refused is None or not 0 <= now - self._refused[0] < _FRESH_MS:
            wanted, enough = Search(Filter(verdict="refuse")), tired(_SECONDS)
            try:
                found = await in_log(
                    self._rooms.store, lambda tables: search(tables, wanted, limit=_REFUSALS, tired=enough)
                )
            except AuditError:
                return []  # the log's own page says what is wrong with it
            self._refused = now, found.entries
        return self._refused[1]


def meaning(reason: str | None) -> str:
    """What a reason on record means, where this version knows it."""
    return Reason(reason).meaning if reason in set(Reason) else ""


def routes(desk: Desk) -> list[Route]:
    return [Route("/", Home(desk).show)]
