"""Which servers agents see together just now, and the place that each of them takes among those.

Places are kept in the store, so that wrapped commands and gateways count each other. A place runs out by itself when
its gateway is gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from callgate.errors import CallgateError, Reason, Refused
from callgate.gateway.places import Place
from callgate.pinning.model import Connected
from callgate.pinning.storage import PinShelf

log = logging.getLogger("callgate.pinning")

_KEPT_SECONDS: Final = 90.0
_RENEW_SECONDS: Final = 30.0
# A server that nobody has used for so long is not counted any more.
_IDLE_SECONDS: Final = 900.0


class _Seat(msgspec.Struct):
    place: Place
    server_id: str
    used: float
    taken: float


# For each server_id, the tools that have to wait and why.
Held = Mapping[str, Mapping[str, str]]


class Company:
    """One for each gateway process."""

    def __init__(
        self,
        shelf: PinShelf,
        gateway: str,
        *,
        most: Callable[[], int],
        hold: Callable[[], Awaitable[Held]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.version = 0
        self._shelf = shelf
        self._gateway = gateway
        self._most = most
        self._hold = hold
        self._clock = clock
        self._seats: dict[str, _Seat] = {}
        self._refused: dict[str, str] = {}
        self._held: Held = {}
        self._turn = asyncio.Lock()
        self._look = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.look_again()
        self._task = asyncio.create_task(self._renew(), name="callgate-company")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        try:
            await self._shelf.disconnect(self._gateway)
        except CallgateError as error:
            log.warning("places not given back", extra={"fields": {"error": str(error)}})

    def held(self, server_id: str) -> Mapping[str, str]:
        return self._held.get(server_id, {})

    def refused(self, server: str) -> str:
        """Why a server has no place; empty where it has one, or was not met yet."""
        return self._refused.get(server, "")

    async def join(self, place: Place, server_id: str) -> None:
        """Take or keep a server's place; Refused(SERVER_LIMIT) where there is none."""
        now = self._clock()
        seat = self._seats.get(place.name)
        if seat is not None and seat.server_id == server_id and seat.place.group == place.group:
            seat.used = now
            if now - seat.taken < _RENEW_SECONDS:
                return
        async with self._turn:
            if seat is not None and seat.server_id != server_id:
                await self._shelf.disconnect(self._gateway, place.name)
                self._seats.pop(place.name, None)
            if not await self._take(place, server_id):
                self._seats.pop(place.name, None)
                most = self._most()
                text = f"{most} servers are connected already, which is as many as agents may see together"
                self._refused[place.name] = text
                raise Refused(Reason.SERVER_LIMIT, text)
            new = place.name not in self._seats
            self._refused.pop(place.name, None)
            self._seats[place.name] = _Seat(place, server_id, now, now)
        if new:
            await self.look_again()

    async def _take(self, place: Place, server_id: str) -> bool:
        now = round(self._clock() * 1000)
        until = now + round(_KEPT_SECONDS * 1000)
        seat = Connected(place.name, place.group, server_id, self._gateway, until)
        return await self._shelf.connect(seat, now, self._most())

    def forget(self, server: str) -> None:
        """The server of that name is another one now."""
        self._refused.pop(server, None)

    async def look_again(self) -> None:
        """Work out anew what has to wait: something was decided, met, or somebody came."""
        # One after the other: of two looks, the one that began later has the last word.
        async with self._look:
            held = await self._hold()
            if held != self._held:
                self._held = held
                self.version += 1

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            idle = self._clock() - _IDLE_SECONDS
            for seat in list(self._seats.values()):
                try:
                    if seat.used < idle:
                        self._seats.pop(seat.place.name, None)
                        await self._shelf.disconnect(self._gateway, seat.place.name)
                    elif await self._take(seat.place, seat.server_id):
                        seat.taken = self._clock()
                except CallgateError as error:
                    log.warning("place not kept", extra={"fields": {"error": str(error)}})
            try:
                await self.look_again()
            except CallgateError as error:
                log.warning("sets not looked at", extra={"fields": {"error": str(error)}})
