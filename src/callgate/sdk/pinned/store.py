"""The file of a pinned client: decisions, what was met, the log, and the keys beside it, for as long as it is open.

It has the schema of every store of Callgate, so that the command line reviews it: `callgate review --store URL`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from callgate.audit import AuditLog
from callgate.errors import CallgateError, Reason, Refused, StoreError
from callgate.keyring import Keyring
from callgate.pinning.model import Connected, PinningSettings
from callgate.pinning.service import Pins
from callgate.sdk.store import open_store, store_option, store_section, switch_refusal
from callgate.store import SqlPins

_KEY: Final = "pinning"

# What the advice of the gateway's reasons becomes where the store is this file.
_ADVICE: Final = {
    Reason.TOOL_NOT_APPROVED: ("A reviewer looks at it with", "review"),
    Reason.TOOL_CHANGED: ("A reviewer looks at the difference with", "review"),
    Reason.SET_NOT_REVIEWED: ("A reviewer looks at both servers with", "review"),
    Reason.TOOL_BLOCKED: ("Do without it, or ask the reviewer. This says why:", "tools list"),
    Reason.TOOL_UNFIT: ("The server's author puts it right. This says what is wrong:", "tools list"),
    Reason.PIN_TAMPERED: ("This says which decision does not hold:", "tools verify"),
    Reason.STORE_UNAVAILABLE: ("This says what is wrong with it:", "store check"),
    Reason.AUDIT_UNAVAILABLE: ("Look at free disk space, and at", "store check"),
    Reason.BLOCKED_BY_POLICY: ("An operator turns it off with", "block-all off"),
}
log = logging.getLogger("callgate.pinning")
_KEPT_SECONDS: Final = 90.0
_RENEW_SECONDS: Final = 30.0


class PinStore(msgspec.Struct, frozen=True):
    """The parts, opened. `closed` is the kill switch as the gate has it; `options` name this store in a command."""

    pins: Pins
    shelf: SqlPins
    audit: AuditLog
    closed: Callable[[], Refused | None]
    options: tuple[str, ...]

    def command(self, words: str) -> str:
        """A command to type, on this store."""
        return shlex.join(["callgate", *words.split(), *self.options])

    def advised(self, refused: Refused) -> Refused:
        """The same refusal, with a next step that works on this store."""
        if refused.reason not in _ADVICE:
            return refused
        lead, words = _ADVICE[refused.reason]
        advice = f"{lead} `{self.command(words)}`."
        return Refused(refused.reason, refused.message, advice=advice, data=refused.data)

    @contextlib.contextmanager
    def with_advice(self) -> Iterator[None]:
        """Whatever is refused inside says what to do next; a store that fails is a refusal as well."""
        try:
            yield
        except StoreError as error:
            raise self.advised(Refused(Reason.STORE_UNAVAILABLE, str(error))) from error
        except Refused as refused:
            raise self.advised(refused) from refused.__cause__


@contextlib.asynccontextmanager
async def open_pin_store(place: str | Path, settings: PinningSettings) -> AsyncIterator[PinStore]:
    """Open everything; what is durable is flushed when the block ends. StoreError where the file cannot be used."""
    section = store_section(place)
    keyring = Keyring(section.keys_path)

    def keys() -> list[bytes]:
        return [key.secret for key in keyring.versions(_KEY)]

    async with open_store(section) as (store, audit, switch):
        shelf = SqlPins(store)
        if await shelf.head() is None:
            # Only where nothing was sealed yet: a key that is missing later must be missed.
            await asyncio.to_thread(keyring.make, _KEY)
        pins = Pins(shelf, keys, settings=settings, witness=audit.admin)
        yield PinStore(pins, shelf, audit, lambda: switch_refusal(switch), store_option(section))


class ServerLease:
    """One for each connection; it runs out by itself when its process is gone."""

    def __init__(
        self, pins: Pins, name: str, group: str, holder: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._pins = pins
        self._name = name
        self._group = group
        self._holder = holder
        self._clock = clock
        self._server_id = ""
        self._held: Mapping[str, Mapping[str, str]] = {}
        # What the tools that wait were worked out from.
        self._basis: tuple[object, ...] | None = None
        self._due = 0.0
        # Moves with what has to wait.
        self.version = 0

    async def join(self, server_id: str) -> None:
        """Take or keep the place; Refused(SERVER_LIMIT) where there is none."""
        now = self._clock()
        if server_id == self._server_id and now < self._due:
            return
        if server_id != self._server_id:
            await self._pins.shelf.disconnect(self._holder)
            self._server_id = ""
        until = round((now + _KEPT_SECONDS) * 1000)
        place = Connected(self._name, self._group, server_id, self._holder, until)
        most = self._pins.settings.servers
        if not await self._pins.shelf.connect(place, round(now * 1000), most):
            self._server_id = ""
            text = f"{most} servers are connected already, which is as many as agents may see together"
            advice = "Disconnect one, allow more with Settings(servers=...), or give this client a `group` of its own."
            raise Refused(Reason.SERVER_LIMIT, text, advice=advice)
        self._server_id, self._due = server_id, now + _RENEW_SECONDS
        self._basis = None

    async def held(self, digest: str) -> Mapping[str, str]:
        """The tools of this server that wait until it was reviewed with another; `digest` is that of its list."""
        book = self._pins.book
        others = await self._pins.shelf.connected(round(self._clock() * 1000))
        company = frozenset((one.name, one.group, one.server_id) for one in others)
        basis = (book.version, bool(book.broken), digest, company)
        if basis != self._basis:
            found = await self._pins.held()
            if found != self._held:
                self._held = found
                self.version += 1
            self._basis = basis
        return self._held.get(self._server_id, {})

    async def keep(self) -> None:
        """Renew the place for as long as the connection lasts."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            if self._server_id:
                self._due = 0.0
                try:
                    await self.join(self._server_id)
                except CallgateError as error:
                    log.warning("the place of %s was not kept: %s", self._name, error)

    async def leave(self) -> None:
        try:
            await self._pins.shelf.disconnect(self._holder)
        except CallgateError as error:
            log.warning("the place of %s was not given back: %s", self._name, error)
