"""The place of a client's server among those that keep their approvals in the same file, and what waits for them all.

One agent may have several pinned clients on one file: what one server says of another's tools is looked at then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from callgate.errors import CallgateError, Reason, Refused
from callgate.pinning.model import Connected
from callgate.pinning.service import Pins

log = logging.getLogger("callgate.pinning")

_KEPT_SECONDS: Final = 90.0
_RENEW_SECONDS: Final = 30.0


class Seat:
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
