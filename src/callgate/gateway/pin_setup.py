"""Tool pinning of one gateway process: what a configuration makes of it, and what outlives a configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from callgate.audit import AuditLog
from callgate.config import Config, Secret
from callgate.config import Pinning as Section
from callgate.errors import CallgateError, place
from callgate.gate import Call
from callgate.gateway.bell import Bell
from callgate.gateway.company import Company, Looked, decided, same
from callgate.gateway.learnt import Learnt
from callgate.gateway.pin_check import Pinning
from callgate.gateway.pin_desk import PinDesk
from callgate.gateway.pin_watch import PinWatch
from callgate.gateway.places import Place
from callgate.gateway.registrar import Registrar
from callgate.gateway.toolsets import Meeting, Toolsets
from callgate.gateway.webhook import Webhook
from callgate.keyring import Keyring
from callgate.pinning.judging import Toolset
from callgate.pinning.model import Identity
from callgate.pinning.service import Pins
from callgate.pinning.settings import Settings
from callgate.pinning.views import Labelling
from callgate.store import SqlPins, Store
from callgate.trust.proposing import label_line, propose_label

log = logging.getLogger("callgate.pinning")

KEY: Final = "pinning"
# Reviews know what tools do from the room of trust.
LABELLING: Final = Labelling(propose_label, label_line)
_AGAIN_SECONDS: Final = 2.0


class Furnished(msgspec.Struct, frozen=True):
    """What one configuration needs at its door."""

    check: Pinning
    desk: PinDesk


def settings(section: Section) -> Settings:
    """The room's settings as a configuration has them."""
    names = set(Settings.__struct_fields__) - {"orphan_days"}
    return Settings(**{name: getattr(section, name) for name in names})


class PinOffice:
    """Made once for a process. Lines, lists and places stay when the configuration changes."""

    def __init__(
        self,
        store: Store,
        audit: AuditLog,
        keyring: Keyring,
        *,
        gateway: str,
        tell: Callable[[str, str, dict[str, Any]], None],
    ) -> None:
        self.shelf = SqlPins(store)
        self.settings = Settings()
        # Where tools are reviewed, in words; set by whoever listens.
        self.review: Callable[[], Awaitable[str]] = _in_a_terminal

        def keys() -> list[bytes]:
            return [key.secret for key in keyring.versions(KEY)]

        self.watch = PinWatch(self.shelf, keys, store.watch)
        self.pins = Pins(self.shelf, keys, settings=self.settings, witness=audit.admin, labelling=LABELLING)
        # What was learnt of the servers in use, and who they were to an earlier gateway, by name, the last first.
        self._learnt: set[Learnt] = set()
        self._recalled: list[tuple[str, Identity]] = []
        self.company = Company(self.shelf, gateway, most=lambda: self.settings.servers, hold=self._hold)
        self._tell = tell
        self._webhook: Webhook | None = None
        self.registrar = Registrar(
            self.shelf,
            audit,
            tell=self._alert,
            growth_percent=lambda: self.settings.growth_percent,
            settled=self._decided,
        )
        self.bell = Bell()
        self.company.altered = self._look_at_all
        self._keyring = keyring
        self._looking: set[asyncio.Task[None]] = set()
        self._unseen = self._seeing = self._started = False

    async def start(self) -> None:
        """Until this is done the decisions count as unknown, and nothing passes."""
        if await self.shelf.head() is None:
            # Only where nothing was sealed yet: a key that is missing later must be missed.
            await asyncio.to_thread(self._keyring.make, KEY)
        await self.watch.start()
        self.watch.decided = self._decided
        await self._recall(self._toolsets())
        await self.registrar.start()
        await self.company.start()
        self._started = True
        if self.company.behind:
            self._decided()

    async def stop(self) -> None:
        for task in self._looking:
            task.cancel()
        await self.registrar.stop()
        await self.company.stop()
        await self.watch.stop()
        if self._webhook is not None:
            await self._webhook.close()

    def furnish(self, config: Config, places: Mapping[str, Place], learnt: Learnt) -> Furnished:
        """The check and the desk of a configuration."""
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

        check = Pinning(
            toolsets,
            stale=self.watch.is_stale,
            settle_in=settle_in,
            looked=self._looked,
            place=lambda server: self.company.refused(toolsets.places[server]) if server in toolsets.places else "",
            odd=self._odd,
            review=self._where,
        )
        desk = PinDesk(toolsets, check, bell=self.bell, settle_in=settle_in, review=self._where)
        return Furnished(check, desk)

    def _open(self, learnt: Learnt) -> Toolsets:
        toolsets = learnt.toolsets = Toolsets(self.watch, self.settings, met=partial(self._met, learnt))
        toolsets.altered = self.bell.ring
        toolsets.sets = self.company
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

    async def enter(self, learnt: Learnt) -> None:
        """A wrapped server begins: others may have met it since this process began."""
        if learnt.toolsets is not None:
            await self._recall([learnt.toolsets])

    async def leave(self, learnt: Learnt) -> None:
        """A wrapped server has ended: its place is free."""
        self._learnt.discard(learnt)
        if learnt.place is not None:
            await self.company.leave(learnt.place)
        self._note_names()

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

    def _met(self, learnt: Learnt, meeting: Meeting) -> None:
        self.registrar.met(meeting)
        self._recall_marks(learnt, meeting)
        listing = meeting.toolset.listing
        learnt.listed(meeting.place.name, listing.digest, (tool.raw for tool in listing.tools.values()))
        self._later(self._join(meeting))

    def _recall_marks(self, learnt: Learnt, meeting: Meeting) -> None:
        """A tool that was approved while it asked for a person's approval goes on asking for it."""
        for name, standing in meeting.toolset.standings.items():
            pin = self.watch.book.pin(meeting.identity.server_id, name) if standing.open else None
            listed = meeting.toolset.listing.tools[name]
            if pin is not None and pin.raw and pin.beside.get("_meta") != listed.beside.get("_meta"):
                learnt.remember(meeting.place.name, msgspec.json.decode(pin.raw))

    async def _join(self, meeting: Meeting) -> None:
        """The place that was taken for whom the server was expected to be is that of whom it turned out to be."""
        try:
            await self.company.join(meeting.place, meeting.identity.server_id)
        except CallgateError as error:
            log.warning("no place for a server", extra={"fields": {"server": meeting.place.name, "error": str(error)}})
        except Exception as error:  # noqa: BLE001 - nobody waits for this; the next call asks for the place again
            fields = {"server": meeting.place.name, "error": place(error)}
            log.error("no place for a server", extra={"fields": fields})

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

    async def _where(self) -> str:
        return await self.review()

    async def _hold(self) -> Looked:
        pins = self.pins
        # What was tampered with is believed again only after the whole of it was read.
        await (pins.reread() if pins.book.broken else pins.refresh())
        before = decided(pins.book)
        held = await pins.held()
        if pins.book.broken:
            # Worked out from nothing: it says nothing of any tool.
            return Looked({}, {})
        after = decided(pins.book)
        # Of what was decided in the middle of it nobody can say which decision was looked at.
        return Looked(held, {key: pin for key, pin in before.items() if same(after.get(key), pin)})

    def _odd(self, call: Call, found: tuple[str, ...]) -> None:
        self.registrar.odd_arguments(call.context.server, call.tool, call.id, found)


async def _in_a_terminal() -> str:
    return "in a terminal with `callgate review`"
