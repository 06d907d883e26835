"""Tool pinning of one gateway process: decisions kept fresh from the store, tool changes recorded, and the wiring."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from callgate.app.notifications import Webhook
from callgate.app.observations import ServerObservations
from callgate.audit import AdminRecord, AuditLog
from callgate.config import Config, Secret
from callgate.config import Pinning as Section
from callgate.errors import CallgateError, StoreUnavailable, place
from callgate.gate import Call, nothing_overdue
from callgate.keyring import Keyring
from callgate.pinning.identity import ServerRef
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import observed
from callgate.pinning.model import Change, PinningSettings, ServerIdentity, ServerSeen
from callgate.pinning.review.views import Labelling
from callgate.pinning.server_sets import ServerSets, SetFindings, decided, same
from callgate.pinning.service import Pins
from callgate.pinning.stage import PinningStage
from callgate.pinning.storage import PinRepository, ServerMarks
from callgate.pinning.toolsets import DecisionWatch, ListReading, Toolsets
from callgate.pipeline.list_changed import ListChangedNotifier
from callgate.store import SqlPins, Store
from callgate.store.following import Follower
from callgate.trust.proposing import label_line, propose_label

log = logging.getLogger("callgate.pinning")

READ_AGAIN_SECONDS: Final = 1.0
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
ReportChange = Callable[[str, str, dict[str, Any]], None]


class ToolChangeRecorder:
    """One for each gateway process; `start` it, and `stop` it when the last list was read."""

    def __init__(
        self,
        shelf: PinRepository,
        audit: AuditLog,
        *,
        tell: ReportChange,
        growth_percent: Callable[[], float],
        settled: Callable[[], None] = lambda: None,
        command: str = "callgate review",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._audit = audit
        self._tell = tell
        self._growth = growth_percent
        # What to type to review what waits.
        self._command = command
        # Told when a list was written that is not as before.
        self._settled = settled
        self._clock = clock
        self._waiting: OrderedDict[tuple[str, ...], ListReading] = OrderedDict()
        self._news = asyncio.Event()
        # A server may call itself something else every time: the oldest are forgotten.
        self._written: OrderedDict[tuple[str, str, str], tuple[str, float]] = OrderedDict()
        # By name and lineage: two servers that one program makes are not each other's past.
        self._sizes: OrderedDict[tuple[str, str], int] = OrderedDict()
        # When this gateway itself met which server, as it is written.
        self.own: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._ending = False

    def met(self, meeting: ListReading) -> None:
        """A whole list was read."""
        place_, digest = meeting.place, meeting.toolset.listing.digest
        written = self._written.get((place_.name, meeting.identity.server_id, meeting.kind))
        now = self._clock()
        if not meeting.fresh and written is not None and written[0] == digest and now - written[1] < _TOUCH_SECONDS:
            return
        # With its digest: a list that was there for a moment only is written all the same.
        key = (place_.name, meeting.identity.server_id, meeting.line if meeting.fresh else "", digest, meeting.kind)
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

    async def _write_quietly(self, meeting: ListReading) -> None:
        try:
            await self._write(meeting)
        except CallgateError as error:
            fields = {"server": meeting.place.name, "error": str(error)}
            log.warning("tools not kept for review", extra={"fields": fields})
        except Exception as error:  # noqa: BLE001 - one list that breaks us must not keep the others from being written
            fields = {"server": meeting.place.name, "error": place(error)}
            log.error("tools not kept for review", extra={"fields": fields})

    async def _write(self, meeting: ListReading) -> None:
        now = round(self._clock() * 1000)
        listing, at = meeting.toolset.listing, meeting.place
        key = (at.name, meeting.identity.server_id, meeting.kind)
        again = key in self._written and self._written[key][0] == listing.digest
        if again and self._clock() - self._written[key][1] < _TOUCH_SECONDS:
            # One more line with the list that was written a moment ago.
            self._note_check(meeting, now)
            return
        seen = observed(meeting.identity, listing, now, name=at.name, group=at.group, target=at.target)
        _remember(self.own, (meeting.identity.server_id, now), None)
        changes = await self._shelf.saw(seen.server, seen.tools, whole=seen.whole, kind=meeting.kind)
        server = seen.server
        _remember(self._written, key, (listing.digest, self._clock()))
        if meeting.fresh or not again:
            self._note_check(meeting, now)
        if meeting.kind == "tool":
            self._grown(server)
        for change in changes:
            self._changed(server, change)
        if changes or not again:
            self._settled()
        pending = len(meeting.toolset.pending)
        if pending and (not again or meeting.fresh):
            fields = {"server": server.name, "tools": pending, "command": self._command}
            log.warning("tools wait for review", extra={"fields": fields})

    def _note_check(self, meeting: ListReading, now: int) -> None:
        """What every tool of a connection came to."""
        standings = meeting.toolset.standings
        if meeting.kind != "tool" and not standings:
            return
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
        detail = {"server": server.name, "server_id": server.server_id, **change.detail}
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


KEY: Final = "pinning"
# Reviews know what tools do from the room of trust.
LABELLING: Final = Labelling(propose_label, label_line)
_AGAIN_SECONDS: Final = 2.0


def settings(section: Section) -> PinningSettings:
    """The room's settings as a configuration has them."""
    names = set(PinningSettings.__struct_fields__) - {"orphan_days"}
    return PinningSettings(**{name: getattr(section, name) for name in names})


class PinningRuntime:
    """Made once for a process. Lines, lists and places stay when the configuration changes."""

    def __init__(
        self,
        store: Store,
        audit: AuditLog,
        keyring: Keyring,
        *,
        gateway: str,
        tell: Callable[[str, str, dict[str, Any]], None],
        review: Callable[[], Awaitable[str]],
        command: str,
    ) -> None:
        self.shelf = SqlPins(store)
        self.settings = PinningSettings()
        # Where tools are reviewed, in words.
        self._review = review

        def keys() -> list[bytes]:
            return [key.secret for key in keyring.versions(KEY)]

        self.watch = DecisionWatch(
            self.shelf,
            keys,
            lambda refresh: Follower(store.watch, refresh, "callgate-pins"),
            decided=self._decided_since,
        )
        self._servers = Follower(store.watch, self._follow_servers, "callgate-servers")
        self._marks: ServerMarks = {}
        self.pins = Pins(self.shelf, keys, settings=self.settings, witness=audit.admin, labelling=LABELLING)
        # What was learnt of the servers in use, and who they were to an earlier gateway, by name, the last first.
        self._learnt: set[ServerObservations] = set()
        self._recalled: list[tuple[str, ServerIdentity]] = []
        self.company = ServerSets(
            self.shelf, gateway, most=lambda: self.settings.servers, hold=self._hold, altered=self._look_at_all
        )
        self._tell = tell
        self._webhook: Webhook | None = None
        self.registrar = ToolChangeRecorder(
            self.shelf,
            audit,
            tell=self._alert,
            growth_percent=lambda: self.settings.growth_percent,
            settled=self._decided,
            command=command,
        )
        self.bell = ListChangedNotifier()
        self._keyring = keyring
        self._looking: set[asyncio.Task[None]] = set()
        self._unseen = self._seeing = self._follows = self._started = False

    async def start(self) -> None:
        """Until this is done the decisions count as unknown, and nothing passes."""
        if await self.shelf.head() is None:
            # Only where nothing was sealed yet: a key that is missing later must be missed.
            await asyncio.to_thread(self._keyring.make, KEY)
        await self.watch.start()
        self._follows = True
        await self._servers.start()
        await self._recall(self._toolsets())
        await self.registrar.start()
        await self.company.start()
        self._started = True
        if self.company.behind:
            self._decided()

    async def _follow_servers(self) -> None:
        """What other gateways have met of the servers that are used here."""
        try:
            self._marks, met = await self.shelf.servers_since(self._marks)
        except CallgateError as error:
            log.warning("servers not read", extra={"fields": {"error": str(error)}})
            return
        except Exception as error:  # noqa: BLE001 - one reading that breaks must not end the others
            log.error("servers not read", extra={"fields": {"error": place(error)}})
            return
        for seen in (one for one in met if (one.server_id, one.last_seen) not in self.registrar.own):
            for toolsets in self._toolsets():
                toolsets.met_elsewhere(seen.name, seen)

    async def stop(self) -> None:
        for task in self._looking:
            task.cancel()
        await self.registrar.stop()
        await self.company.stop()
        await self._servers.stop()
        await self.watch.stop()
        if self._webhook is not None:
            await self._webhook.close()

    def furnish(
        self,
        config: Config,
        places: Mapping[str, ServerRef],
        learnt: ServerObservations,
        catch_up: Callable[[], Awaitable[None]] = nothing_overdue,
    ) -> PinningStage:
        """The stage of a configuration."""
        before, self.settings = self.settings, settings(config.pinning)
        self.pins.settings = self.settings
        toolsets = learnt.toolsets or self._open(learnt)
        if before.set_review != self.settings.set_review:
            self.company.distrust()
        if self._started:
            self._decided()
        self._follow_webhook(config.pinning.webhook)
        toolsets.configure(self.settings, places, config.limits.check_seconds)
        self._note_names()

        async def settle_in(server: str) -> None:
            await self.company.join(toolsets.place(server), toolsets.expected(server).server_id)

        return PinningStage(
            toolsets,
            stale=self.watch.is_stale,
            catch_up=catch_up,
            settle_in=settle_in,
            looked=self._looked,
            odd=self._odd,
            notifier=self.bell,
            review=self._review,
        )

    def _open(self, learnt: ServerObservations) -> Toolsets:
        toolsets = learnt.toolsets = Toolsets(
            self.watch, self.settings, met=partial(self._met, learnt), altered=self.bell.ring, sets=self.company
        )
        for name, identity in self._recalled:
            toolsets.recall(name, identity)
        self._learnt.add(learnt)
        return toolsets

    async def _recall(self, all_toolsets: Iterable[Toolsets]) -> None:
        """Who servers of a name were to this or another gateway."""
        self._recalled = [(name, seen.identity) for seen in await self.shelf.servers() for name in seen.called]
        for toolsets in all_toolsets:
            for name, identity in self._recalled:
                toolsets.recall(name, identity)

    async def enter(self, learnt: ServerObservations) -> None:
        """A wrapped server begins: others may have met it since this process began, and a person may have decided about
        its tools a moment ago."""
        if learnt.toolsets is not None:
            # What cannot be read is not known, and nothing passes that is not: each call is told so.
            with contextlib.suppress(StoreUnavailable):
                await self._recall([learnt.toolsets])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READ_AGAIN_SECONDS):
                await self.watch.read_again()

    async def leave(self, learnt: ServerObservations) -> None:
        """A wrapped server has ended: its place is free."""
        self._learnt.discard(learnt)
        if learnt.place is not None:
            await self.company.leave(learnt.place)
        self._note_names()
        if self._started:
            # What waited because of it need not wait any longer.
            self._decided()

    def _note_names(self) -> None:
        places = [at for toolsets in self._toolsets() for at in toolsets.places.values()]
        self.pins.configured = {at.name: at.group for at in places}

    def _toolsets(self) -> list[Toolsets]:
        return [learnt.toolsets for learnt in self._learnt if learnt.toolsets is not None]

    def _look_at_all(self) -> None:
        for toolsets in self._toolsets():
            toolsets.look_again()

    def waiting(self) -> dict[str, int]:
        """How many tools of each server wait for review."""
        return {name: count for toolsets in self._toolsets() for name, count in toolsets.waiting().items()}

    def _follow_webhook(self, url: Secret | None) -> None:
        old = self._webhook
        if (None if old is None else old.url) == url:
            return
        self._webhook = None if url is None else Webhook(url)
        if old is not None:
            self._later(old.close())

    def _alert(self, server: str, what: str, detail: dict[str, Any]) -> None:
        self._tell(server, what, detail)
        # A tool that is met for the first time waits for its review; that is no news for an alarm.
        if self._webhook is not None and what != "new":
            self._webhook.send({"event": f"tool_{what}" if what != "text" else "tool_changed", **detail})

    async def _looked(self, toolset: Toolset, tool: str) -> bool:
        return await self.company.catch_up(toolset.identity.server_id, tool, self.watch.book)

    def _met(self, learnt: ServerObservations, meeting: ListReading) -> None:
        self.registrar.met(meeting)
        if meeting.kind != "tool":
            return
        self._recall_marks(learnt, meeting)
        listing = meeting.toolset.listing
        learnt.listed(meeting.place.name, listing.digest, (tool.raw for tool in listing.tools.values()))
        self._later(self._join(meeting))

    def _recall_marks(self, learnt: ServerObservations, meeting: ListReading) -> None:
        """A tool that was approved while it asked for a person's approval goes on asking for it."""
        for name, standing in meeting.toolset.standings.items():
            pin = self.watch.book.pin(meeting.identity.server_id, name) if standing.open else None
            listed = meeting.toolset.listing.tools[name]
            if pin is not None and pin.raw and pin.beside.get("_meta") != listed.beside.get("_meta"):
                learnt.remember(meeting.place.name, msgspec.json.decode(pin.raw))

    async def _join(self, meeting: ListReading) -> None:
        """The place that was taken for whom the server was expected to be is that of whom it turned out to be."""
        try:
            await self.company.join(meeting.place, meeting.identity.server_id)
        except CallgateError as error:
            log.warning("no place for a server", extra={"fields": {"server": meeting.place.name, "error": str(error)}})
        except Exception as error:  # noqa: BLE001 - nobody waits for this; the next call asks for the place again
            fields = {"server": meeting.place.name, "error": place(error)}
            log.error("no place for a server", extra={"fields": fields})

    def _decided_since(self) -> None:
        """What was decided before anybody follows is looked at when that begins."""
        if self._follows:
            self._decided()

    def _decided(self) -> None:
        """Look again; however often it is said, one look is under way and one more waits at most."""
        self._unseen = True
        if not self._seeing:
            self._seeing = True
            self._later(self._look_quietly())

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_quietly(self) -> None:
        try:
            while self._unseen:
                self._unseen = False
                seen = await self.company.look_quietly()
                self._look_at_all()
                if not seen:
                    # What was decided meanwhile waits until then.
                    await asyncio.sleep(_AGAIN_SECONDS)
                    self._unseen = True
        finally:
            self._seeing = False

    async def _hold(self) -> SetFindings:
        pins = self.pins
        # What was tampered with is believed again only after the whole of it was read.
        await (pins.reread() if pins.book.broken else pins.refresh())
        before = decided(pins.book)
        held = await pins.held()
        if pins.book.broken:
            # Worked out from nothing: it says nothing of any tool.
            return SetFindings({}, {})
        after = decided(pins.book)
        # Of what was decided in the middle of it nobody can say which decision was looked at.
        return SetFindings(held, {key: pin for key, pin in before.items() if same(after.get(key), pin)})

    def _odd(self, call: Call, found: tuple[str, ...]) -> None:
        self.registrar.odd_arguments(call.context.server, call.tool, call.id, found)
