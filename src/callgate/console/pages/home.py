"""The first page: what waits for this person, what happened lately, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.audit.reading import CallEntry, Search, search
from callgate.audit.storage import Filter
from callgate.console.context import ConsoleContext, GatewayPage, GatewayParts
from callgate.console.pages.servers import list_servers
from callgate.console.statistics import HOURS, Recent, chart, hourly_counts, in_log, out_of_time, rows, shares
from callgate.errors import AuditError, Reason

_DAY: Final = 24
_REASONS: Final = 5
_REFUSALS: Final = 6
_SECONDS: Final = 0.05


class HomePage(GatewayPage):
    """A person's view of the whole gateway: counted by the hour, the newest refusals, and servers in trouble."""

    def __init__(self, context: ConsoleContext, gateway: GatewayParts) -> None:
        super().__init__(context, gateway)
        self._tally = hourly_counts(gateway.store, context.now)
        self._servers = Recent(lambda _: list_servers(context, gateway), context.now)
        self._refused = Recent(self._refusals, context.now)

    async def lately(self, *, week: bool) -> dict[str, Any]:
        """What happened in a day or a week."""
        hours, each = (HOURS, 6) if week else (_DAY, 1)
        counts = (await self._tally.counts()).within(hours)
        table, found = rows(counts, hours, each), await self._servers.get()
        return {
            "week": week,
            "complete": counts.complete,
            "rows": table,
            "allowed": chart([(one.at, one.allowed) for one in table]),
            "refused": chart([(one.at, one.refused) for one in table]),
            "asked": chart([(one.at, one.asked) for one in table]),
            "approved": sum(one.approved for one in table),
            "reasons": shares(counts.reasons(), _REASONS),
            "newest": [(one, reason_meaning(one.decision.reason)) for one in await self._refused.get()],
            "troubled": [one for one in found if one.troubles],
            "servers": len(found),
        }

    async def _refusals(self, _now: int) -> Sequence[CallEntry]:
        wanted, enough = Search(Filter(verdict="refuse")), out_of_time(_SECONDS)
        try:
            found = await in_log(
                self._gateway.store, lambda tables: search(tables, wanted, limit=_REFUSALS, tired=enough)
            )
        except AuditError:
            return []  # the log's own page says what is wrong with it
        return found.entries


def reason_meaning(reason: str | None) -> str:
    """What a reason on record means, where this version knows it."""
    return Reason(reason).meaning if reason in set(Reason) else ""


def routes(context: ConsoleContext) -> list[Route]:
    page = None if context.gateway is None else HomePage(context, context.gateway)

    async def show(request: Request) -> Response:
        session = await context.person(request)
        if session is None:
            return context.sign_in_page(onward="/")
        week = request.query_params.get("span") == "7d"
        return await context.show("home", session, lately=None if page is None else await page.lately(week=week))

    return [Route("/", show)]
