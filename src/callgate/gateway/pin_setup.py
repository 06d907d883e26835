"""Tool pinning of one gateway process: what a configuration makes of it, and what outlives a configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

import msgspec

from callgate.audit import AuditLog
from callgate.config import Config, Secret
from callgate.config import Pinning as Section
from callgate.errors import CallgateError, place
from callgate.gate import Call
from callgate.gateway.bell import Bell
from callgate.gateway.company import Company, Looked, decided, same
from callgate.gateway.pin_check import Pinning
from callgate.gateway.pin_desk import PinDesk
from callgate.gateway.pin_watch import PinWatch
from callgate.gateway.places import Place
from callgate.gateway.registrar import Registrar
from callgate.gateway.toolsets import Meeting, Toolsets
from callgate.gateway.webhook import Webhook
from callgate.keyring import Keyring
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
        # Told of tools as they were approved, where the server says something else beside it by now.
        self.marked: Callable[[str, dict[str, Any]], None] = lambda _server, _entry: None
        # Told of each list that was read: the server's name, the list's digest, its entries as they came.
        self.listed: Callable[[str, str, Iterable[bytes]], None] = lambda _server, _digest, _entries: None
        # Where tools are reviewed, in words; set by whoever listens.
        self.review: Callable[[], Awaitable[str]] = _in_a_terminal

        def keys() -> list[bytes]:
            return [key.secret for key in keyring.versions(KEY)]

        self.watch = PinWatch(self.shelf, keys, store.watch)
        self.pins = Pins(self.shelf, keys, settings=self.settings, witness=audit.admin, labelling=LABELLING)
        self.toolsets = Toolsets(self.watch, self.settings, met=self._met)
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
        self.toolsets.altered = self.bell.ring
        self.toolsets.sets = self.company
        self.company.altered = self.toolsets.look_again
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
        for seen in await self.shelf.servers():
            for name in seen.called:
                self.toolsets.recall(name, seen.reported)
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

    def furnish(self, config: Config, places: Mapping[str, Place]) -> Furnished:
        """The check and the desk of a configuration."""
        before, self.settings = self.settings, settings(config.pinning)
        self.pins.settings = self.settings
        self.pins.configured = {name: at.group for name, at in places.items()}
        if before.set_review != self.settings.set_review:
            self.company.distrust()
        if self._started:
            self._decided()
        self._follow_webhook(config.pinning.webhook)
        self.toolsets.configure(self.settings, places, config.limits.check_seconds)
        check = Pinning(
            self.toolsets,
            stale=self.watch.is_stale,
            settle_in=self._settle_in,
            place=self.company.refused,
            odd=self._odd,
            review=self._where,
        )
        desk = PinDesk(self.toolsets, check, bell=self.bell, settle_in=self._settle_in, review=self._where)
        return Furnished(check, desk)

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

    def forget(self, server: str) -> None:
        self.toolsets.forget(server)
        self.company.forget(server)

    async def _settle_in(self, server: str) -> None:
        await self.company.join(self.toolsets.place(server), self.toolsets.expected(server).server_id)

    def _met(self, meeting: Meeting) -> None:
        self.registrar.met(meeting)
        self._recall_marks(meeting)
        listing = meeting.toolset.listing
        self.listed(meeting.place.name, listing.digest, (tool.raw for tool in listing.tools.values()))
        self._later(self._join(meeting))

    def _recall_marks(self, meeting: Meeting) -> None:
        """A tool that was approved while it asked for a person's approval goes on asking for it."""
        for name, standing in meeting.toolset.standings.items():
            pin = self.watch.book.pin(meeting.identity.server_id, name) if standing.open else None
            listed = meeting.toolset.listing.tools[name]
            if pin is not None and pin.raw and pin.beside.get("_meta") != listed.beside.get("_meta"):
                self.marked(meeting.place.name, msgspec.json.decode(pin.raw))

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
                self.toolsets.look_again()
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
