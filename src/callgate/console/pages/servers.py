"""Servers: what is configured, who each proves to be, how its tools stand, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.audit.reading import CallEntry, Search, lost, search
from callgate.audit.storage import Filter
from callgate.config import ServerSection
from callgate.console.cards import key_of
from callgate.console.context import ConsoleContext, GatewayPage, GatewayParts
from callgate.console.statistics import Recent, chart, hourly_counts, in_log, out_of_time, rows
from callgate.errors import Reason, Refused
from callgate.pinning.review.views import ServerStatus
from callgate.store.audit import AuditTables

_DAY: Final = 24
_CALLS: Final = 10
# How a call ends that its server did not answer as it should.
FAILED: Final = ("lost", "refused_upstream")
# How far back failures are looked for, in records, and how many are looked at.
_RECORDS: Final = 20_000
_MOST: Final = 200
_RECENT_MS: Final = 3_600_000


class ServersPage(GatewayPage):
    """Everybody who signs in may look; the configuration is changed where the gateway runs."""

    def __init__(self, context: ConsoleContext, gateway: GatewayParts) -> None:
        super().__init__(context, gateway)
        self._servers = Recent(lambda _: list_servers(context, gateway), context.now)
        self._tally = hourly_counts(gateway.store, context.now)

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        counts = (await self._tally.counts()).within(_DAY)
        found = await self._servers.get()
        return await self._context.show(
            "servers",
            session,
            rows=[(one, *counts.of_server(one.name)) for one in found],
            wrapped=not self._gateway.config.servers,
            path=self._gateway.path,
        )

    async def one(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        name = request.path_params["name"]
        found = next((one for one in await self._servers.get() if one.name == name), None)
        if found is None:
            raise Refused(Reason.PAGE_UNKNOWN, "There is no such server.", advice="The servers' page lists them.")
        counts = (await self._tally.counts()).within(_DAY)
        own = type(counts)([one for one in counts.calls if one.server == name], [], counts.hour, counts.complete)
        table, enough = rows(own, _DAY, 1), out_of_time()
        latest = await in_log(
            self._gateway.store,
            lambda tables: search(tables, Search(Filter(server=name)), limit=_CALLS, tired=enough),
        )
        return await self._context.show(
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
        config, server = self._gateway.config, row.server or (ServerSection() if row.wrapped else None)
        if server is None:
            return []
        made: list[tuple[str, Any, str]] = [
            ("Tools need a review", _mode(config.pinning.mode), "pinning.mode"),
            ("Reviewed together with", server.pinning.group or "every server without a group", "pinning.group"),
            ("Flow of data is checked", _mode(config.trust.mode), "trust.mode"),
            ("Its word on its own labels", "believed" if server.trust.trusted else "only tightens", "trust.trusted"),
            ("Tools that need a person", ", ".join(server.approval.patterns) or "none by name", "approval.tools"),
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


def routes(context: ConsoleContext) -> list[Route]:
    if context.gateway is None:
        return []
    page = ServersPage(context, context.gateway)
    return [Route("/servers", page.show), Route("/servers/{name}", page.one)]


class ServerRow(msgspec.Struct, frozen=True):
    """One server: as configured (None: only met), every identity it was met under, and its newest failed calls.
    `wrapped`: clients start it, and no configuration names it."""

    name: str
    server: ServerSection | None
    met: Sequence[ServerStatus] = ()
    failed: Sequence[CallEntry] = ()
    wrapped: bool = False

    @property
    def status(self) -> ServerStatus | None:
        """As it is now: the connected identity, or the one met last."""
        return next((one for one in self.met if one.connected), self.met[0] if self.met else None)

    @property
    def troubles(self) -> list[str]:
        """What is wrong with it, in words."""
        said = [one.seen.problem for one in self.met if one.seen.problem]
        if self.failed:
            count = len(self.failed)
            said.append(f"{count} {'call' if count == 1 else 'calls'} of the last hour had no proper answer from it")
        return said

    @property
    def notes(self) -> list[str]:
        """What could be better about it: nothing is broken."""
        return [said for one in self.met for said in (*one.seen.warnings, *one.oddities)]


async def list_servers(context: ConsoleContext, gateway: GatewayParts) -> list[ServerRow]:
    """All servers. A thousand tools are judged for it, so pages keep the answer for a few seconds."""
    configured = gateway.config.servers
    met: dict[str, list[ServerStatus]] = {}
    if context.tools is not None:
        for one in await context.tools.pins.statuses(context.tools.configured()):
            for name in one.seen.called:
                met.setdefault(name, []).append(one)
    failed: dict[str, list[CallEntry]] = {}
    for entry in await in_log(gateway.store, lambda tables: _failed_calls(tables, context.now())):
        failed.setdefault(entry.decision.server, []).append(entry)
    names = [*configured, *sorted(name for name in met if name not in configured)]
    return [
        ServerRow(
            name,
            configured.get(name),
            tuple(met.get(name, ())),
            tuple(failed.get(name, ())),
            # A gateway for wrapped servers has none configured; in front of both, those are that are connected.
            wrapped=name not in configured
            and any(one.seen.target and (one.connected or not configured) for one in met[name]),
        )
        for name in names
    ]


def _failed_calls(tables: AuditTables, now: int) -> list[CallEntry]:
    since = now - _RECENT_MS
    found = lost(tables, FAILED, max(0, tables.newest() - _RECORDS), _MOST)
    return [one for one in found if one.decision.at >= since]
