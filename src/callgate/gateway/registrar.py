"""Keeps the books of what was met: lists as they come, what changed in them, and who is told of it.

The gate does not wait for it. What could not be written is written with the next list.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from callgate.audit import AdminRecord, AuditLog
from callgate.errors import CallgateError, place
from callgate.gateway.toolsets import Meeting
from callgate.pinning.model import Change, ServerSeen
from callgate.pinning.sighting import sighting
from callgate.pinning.storage import PinShelf

log = logging.getLogger("callgate.pinning")

_WAITING_MAX: Final = 1_000
_TOUCH_SECONDS: Final = 10.0
_TOLD_MAX: Final = 1_000
_TOLD_BYTES: Final = 65_536
_WAITING_FEW: Final = 16
_WAITING_BYTES: Final = 64 * 1024 * 1024
_REMEMBERED: Final = 4_096
_BY: Final = "gateway"

K = TypeVar("K")
V = TypeVar("V")
# Told of everything that changed, with the server's name: the metrics, a webhook.
Tell = Callable[[str, str, dict[str, Any]], None]


class Registrar:
    """One for each gateway process; `start` it, and `stop` it when the last list was read."""

    def __init__(
        self,
        shelf: PinShelf,
        audit: AuditLog,
        *,
        tell: Tell,
        growth_percent: Callable[[], float],
        settled: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._audit = audit
        self._tell = tell
        self._growth = growth_percent
        # What to type to review what waits.
        self.command = "callgate review"
        # Told when a list was written that is not as before.
        self._settled = settled
        self._clock = clock
        self._waiting: OrderedDict[tuple[str, str, str, str], Meeting] = OrderedDict()
        self._news = asyncio.Event()
        # A server may call itself something else every time: the oldest are forgotten.
        self._written: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()
        # By name and lineage: two servers that one program makes are not each other's past.
        self._sizes: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._ending = False

    def met(self, meeting: Meeting) -> None:
        """A whole list was read."""
        place_, digest = meeting.place, meeting.toolset.listing.digest
        written = self._written.get((place_.name, meeting.identity.server_id))
        now = self._clock()
        if not meeting.fresh and written is not None and written[0] == digest and now - written[1] < _TOUCH_SECONDS:
            return
        # With its digest: a list that was there for a moment only is written all the same.
        key = (place_.name, meeting.identity.server_id, meeting.line if meeting.fresh else "", digest)
        self._waiting[key] = meeting
        if len(self._waiting) > _WAITING_MAX or self._held() > _WAITING_BYTES:
            (name, *_), _ = self._waiting.popitem(last=False)
            log.error("list not kept for review: too many wait", extra={"fields": {"server": name}})
        self._news.set()

    def _held(self) -> int:
        """How many bytes of lists wait; those that several lines showed count once."""
        if len(self._waiting) <= _WAITING_FEW:
            return 0
        return sum({id(one.toolset.listing): one.toolset.listing.size for one in self._waiting.values()}.values())

    async def start(self) -> None:
        self._ending = False
        for seen in reversed(await self._shelf.servers()):
            self._sizes[seen.name, seen.lineage] = seen.size
        self._task = asyncio.create_task(self._work(), name="callgate-registrar")

    async def stop(self) -> None:
        """Write what waits, the list at hand among it, then end."""
        if self._task is None:
            return
        self._ending = True
        self._news.set()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None

    async def _work(self) -> None:
        while not self._ending:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                _, meeting = self._waiting.popitem(last=False)
                await self._write_quietly(meeting)

    async def _write_quietly(self, meeting: Meeting) -> None:
        try:
            await self._write(meeting)
        except CallgateError as error:
            fields = {"server": meeting.place.name, "error": str(error)}
            log.warning("tools not kept for review", extra={"fields": fields})
        except Exception as error:  # noqa: BLE001 - one list that breaks us must not keep the others from being written
            fields = {"server": meeting.place.name, "error": place(error)}
            log.error("tools not kept for review", extra={"fields": fields})

    async def _write(self, meeting: Meeting) -> None:
        now = round(self._clock() * 1000)
        listing, at = meeting.toolset.listing, meeting.place
        key = (at.name, meeting.identity.server_id)
        again = key in self._written and self._written[key][0] == listing.digest
        if again and self._clock() - self._written[key][1] < _TOUCH_SECONDS:
            # One more line with the list that was written a moment ago.
            self._note_check(meeting, now)
            return
        seen = sighting(meeting.identity, listing, now, name=at.name, group=at.group, target=at.target)
        changes = await self._shelf.saw(seen.server, seen.tools, whole=seen.whole)
        server = seen.server
        _remember(self._written, key, (listing.digest, self._clock()))
        if meeting.fresh or not again:
            self._note_check(meeting, now)
        self._grown(server)
        for change in changes:
            self._changed(server, change)
        if changes or not again:
            self._settled()
        pending = len(meeting.toolset.pending)
        if pending and (not again or meeting.fresh):
            fields = {"server": server.name, "tools": pending, "command": self.command}
            log.warning("tools wait for review", extra={"fields": fields})

    def _note_check(self, meeting: Meeting, now: int) -> None:
        """What every tool of a connection came to."""
        standings = meeting.toolset.standings
        told: dict[str, str] = {}
        room = _TOLD_BYTES
        for name in sorted(standings)[:_TOLD_MAX]:
            room -= len(name)
            if room < 0:
                break
            told[name] = standings[name].state.value
        detail = {
            "server": meeting.place.name,
            "server_id": meeting.identity.server_id,
            "line": meeting.line or None,
            "toolset": meeting.toolset.version,
            "count": meeting.toolset.listing.count,
            "problem": meeting.toolset.listing.problem or None,
            "tools": told,
        }
        self._record("pinning.checked", detail, now)

    def _grown(self, server: ServerSeen) -> None:
        """A list that costs more than before is worth a word, even if all of it was approved."""
        key = (server.name, server.lineage)
        before = self._sizes.get(key)
        _remember(self._sizes, key, server.size)
        if not before or server.size <= before * (1 + self._growth() / 100):
            return
        detail = {"server": server.name, "server_id": server.server_id, "before": before, "after": server.size}
        self._alert(server.name, "grown", detail)

    def _changed(self, server: ServerSeen, change: Change) -> None:
        detail: dict[str, Any] = {
            "server": server.name,
            "server_id": server.server_id,
            "tool": change.tool,
            "what": change.what,
            "before": change.before or None,
            "after": change.after or None,
        }
        if change.members:
            detail["members"] = list(change.members)
        if change.what == "new":
            self._tell(server.name, "new", detail)
            return
        self._alert(server.name, change.what, detail)

    def _alert(self, server: str, what: str, detail: dict[str, Any]) -> None:
        log.warning("tools grown" if what == "grown" else "tool changed", extra={"fields": dict(detail)})
        action = "pinning.grown" if what == "grown" else "pinning.changed"
        self._record(action, detail, round(self._clock() * 1000))
        self._tell(server, what, detail)

    def _record(self, action: str, detail: dict[str, Any], now: int) -> None:
        record = AdminRecord(at=now, action=action, by=_BY, detail=detail)
        try:
            self._audit.store.append_soon(self._audit.row(record))
        except (CallgateError, TypeError, ValueError) as error:
            log.error("not on record", extra={"fields": {"action": action, "error": str(error)}})

    def odd_arguments(self, server: str, tool: str, call: str, what: tuple[str, ...]) -> None:
        """Arguments that look like something that should not leave."""
        self._alert_arguments(server, {"server": server, "tool": tool, "call": call, "found": list(what)})

    def _alert_arguments(self, server: str, detail: dict[str, Any]) -> None:
        log.warning("odd arguments", extra={"fields": dict(detail)})
        self._record("pinning.arguments", detail, round(self._clock() * 1000))
        self._tell(server, "arguments", detail)


def _remember(where: OrderedDict[K, V], key: K, value: V) -> None:
    where[key] = value
    where.move_to_end(key)
    while len(where) > _REMEMBERED:
        where.popitem(last=False)
