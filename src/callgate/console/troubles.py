"""Servers as the console shows them: what is configured, what was met, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from callgate.audit.reading import CallEntry, lost
from callgate.config import Server
from callgate.console.desk import Desk
from callgate.console.logbook import in_log
from callgate.console.rooms import Rooms
from callgate.pinning.review.views import ServerStatus
from callgate.store.audit import AuditTables

# How a call ends that its server did not answer as it should.
FAILED: Final = ("lost", "refused_upstream")
# How far back failures are looked for, in records, and how many are looked at.
_RECORDS: Final = 20_000
_MOST: Final = 200
_RECENT_MS: Final = 3_600_000
_FRESH_MS: Final = 3_000


class ServerRow(msgspec.Struct, frozen=True):
    """One server: as configured (None: only met), every identity it was met under, and its newest failed calls."""

    name: str
    server: Server | None
    met: Sequence[ServerStatus] = ()
    failed: Sequence[CallEntry] = ()

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


class Servers:
    """All servers, looked up at most every few seconds: a thousand tools are judged for it."""

    def __init__(self, desk: Desk, rooms: Rooms) -> None:
        self._desk = desk
        self._rooms = rooms
        self._last: tuple[int, list[ServerRow]] | None = None

    async def rows(self) -> list[ServerRow]:
        now = self._desk.now()
        if self._last is None or not 0 <= now - self._last[0] < _FRESH_MS:
            self._last = now, await self._look()
        return self._last[1]

    async def _look(self) -> list[ServerRow]:
        configured = self._rooms.config.servers
        met: dict[str, list[ServerStatus]] = {}
        if self._desk.tools is not None:
            for one in await self._desk.tools.pins.statuses(self._desk.tools.configured()):
                for name in one.seen.called:
                    met.setdefault(name, []).append(one)
        failed: dict[str, list[CallEntry]] = {}
        for entry in await in_log(self._rooms.store, self._failed):
            failed.setdefault(entry.decision.server, []).append(entry)
        names = [*configured, *sorted(name for name in met if name not in configured)]
        return [
            ServerRow(name, configured.get(name), tuple(met.get(name, ())), tuple(failed.get(name, ())))
            for name in names
        ]

    def _failed(self, tables: AuditTables) -> list[CallEntry]:
        since = self._desk.now() - _RECENT_MS
        found = lost(tables, FAILED, max(0, tables.newest() - _RECORDS), _MOST)
        return [one for one in found if one.decision.at >= since]
