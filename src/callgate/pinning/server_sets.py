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

from callgate.errors import CallgateError, Reason, Refused, StoreError
from callgate.errors import place as place_of
from callgate.pinning.chain import DecisionChain
from callgate.pinning.identity import ServerRef
from callgate.pinning.model import Connected, Pin
from callgate.pinning.storage import PinRepository

log = logging.getLogger("callgate.pinning")

_KEPT_SECONDS: Final = 90.0
_RENEW_SECONDS: Final = 30.0
# A server that nobody has used for so long is not counted any more.
_IDLE_SECONDS: Final = 900.0


class _Seat(msgspec.Struct):
    place: ServerRef
    server_id: str
    used: float
    taken: float
    # The number of the first look that knows of it: before one has come to something, it counts for nothing.
    since: int


# For each server_id, the tools that have to wait and why.
Held = Mapping[str, Mapping[str, str]]
# The decisions in force, by server_id and tool.
Decided = Mapping[tuple[str, str], Pin]

_NOT_YET: Final = "nobody has looked yet at how it goes with the tools of other servers: it was decided on just now"
_JOINING: Final = "nobody has looked yet at how it goes with the tools of other servers: its server came just now"


class SetFindings(msgspec.Struct, frozen=True):
    """What has to wait, and the decisions that this was worked out from."""

    held: Held
    decided: Decided


def decided(book: DecisionChain) -> Decided:
    return {(pin.server_id, pin.tool): pin for pin in book.pins()}


def same(one: Pin | None, other: Pin) -> bool:
    """Whether two decisions let in the same: what was approved once more, as it was, need not be closed for it."""
    return one == other or (one is not None and _bare(one) == _bare(other))


def _bare(pin: Pin) -> Pin:
    return msgspec.structs.replace(pin, seq=0, approved_at=0, approved_by="", note="", together=())


class ServerSets:
    """One for each gateway process."""

    def __init__(
        self,
        shelf: PinRepository,
        gateway: str,
        *,
        most: Callable[[], int],
        hold: Callable[[], Awaitable[SetFindings]],
        altered: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.version = 0
        # Whether the last look came to nothing: it has to be tried again.
        self.behind = False
        # Told when other tools have to wait than before.
        self._altered = altered
        self._repository = shelf
        self._gateway = gateway
        self._most = most
        self._hold = hold
        self._clock = clock
        self._seats: dict[str, _Seat] = {}
        self.refusals: dict[str, str] = {}
        # Until somebody has looked, nothing is known of any tool.
        self._looked = SetFindings({}, {})
        self._fresh: tuple[DecisionChain, int, int, Held] | None = None
        self._turn = asyncio.Lock()
        # Looks are numbered as they begin: the last one, the last that came to something and when, and the last that
        # began under other rules.
        self._begun = self._done = self._void = 0
        self._done_at = clock()
        # The servers whose place is taken and not yet looked at.
        self._joining: frozenset[str] = frozenset()
        self._look: asyncio.Task[Exception | None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # What cannot be looked at waits; that is no reason not to start.
        await self.look_quietly()
        self._task = asyncio.create_task(self._renew(), name="callgate-company")

    async def stop(self) -> None:
        for task in (self._task, self._look):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._task = None
        try:
            await self._repository.disconnect(self._gateway)
            for seat in [seat for seat in self._seats.values() if seat.place.connection]:
                await self._give_back(seat.place)
        except CallgateError as error:
            log.warning("places not given back", extra={"fields": {"error": str(error)}})

    def held(self, server_id: str, book: DecisionChain) -> Mapping[str, str]:
        """What has to wait under these decisions; also what was let in, and whose server came, after the last look.

        Any other stands as it did: a new decision makes it wait only by what another tool says of it, or it of another
        tool, and that one waits itself until somebody has looked.
        """
        waiting = self._looked.held.get(server_id, {})
        fresh = self._decided_since(book).get(server_id)
        return {**fresh, **waiting} if fresh else waiting

    def _decided_since(self, book: DecisionChain) -> Held:
        made = self._fresh
        # Worked out once for all servers: the book is as long as everything that was ever approved.
        if made is None or made[0] is not book or made[1:3] != (book.version, self.version):
            known, found = self._looked.decided, dict[str, dict[str, str]]()
            for pin in book.pins():
                if pin.action != "approve":
                    continue
                if pin.server_id in self._joining:
                    found.setdefault(pin.server_id, {})[pin.tool] = _JOINING
                elif not same(known.get((pin.server_id, pin.tool)), pin):
                    found.setdefault(pin.server_id, {})[pin.tool] = _NOT_YET
            made = self._fresh = book, book.version, self.version, found
        return made[3]

    async def catch_up(self, server_id: str, tool: str, book: DecisionChain) -> bool:
        """Wait for a look where a tool waits for nothing else; whether somebody has looked since."""
        if tool in self._looked.held.get(server_id, {}) or tool not in self._decided_since(book).get(server_id, {}):
            return False
        return await self.look_quietly()

    def distrust(self) -> None:
        """Other rules hold: what was worked out says nothing any more."""
        self._looked = SetFindings({}, {})
        self._void = self._begun
        self.version += 1

    def refused(self, place: ServerRef) -> str:
        """Why a server has no place; empty where it has one, or was not met yet."""
        return self.refusals.get(place.key, "") if self.refusals else ""

    async def join(self, place: ServerRef, server_id: str) -> None:
        """Take or keep a server's place; Refused(SERVER_LIMIT) where there is none.

        Returns when somebody has looked at the server among the others; one that was looked at does not wait again.
        """
        now = self._clock()
        seat = self._seats.get(place.key)
        if seat is None or not _is_of(seat, place, server_id) or now - seat.taken >= _RENEW_SECONDS:
            async with self._turn:
                seat = await self._sit(place, server_id, now)
        seat.used = now
        if self._done < seat.since:
            await self._seen(seat.since)
        elif self.behind and now - self._done_at > _KEPT_SECONDS:
            # Whoever came to other gateways meanwhile is not known here.
            await self._seen(self._done + 1)

    async def _sit(self, place: ServerRef, server_id: str, now: float) -> _Seat:
        seat = self._seats.get(place.key)
        if seat is not None and _is_of(seat, place, server_id) and now - seat.taken < _RENEW_SECONDS:
            return seat
        if seat is not None and seat.server_id != server_id:
            await self._give_back(place)
            self._seats.pop(place.key, None)
        if not await self._take(place, server_id):
            self._seats.pop(place.key, None)
            self._count_joining()
            most = self._most()
            text = f"{most} servers are connected already, which is as many as agents may see together"
            self.refusals[place.key] = text
            raise Refused(Reason.SERVER_LIMIT, text)
        self.refusals.pop(place.key, None)
        if seat is not None and _is_of(seat, place, server_id) and self._seats.get(place.key) is seat:
            seat.taken = now
        else:
            # The same server under the same name for one client more is no news to the others, nor to its own tools.
            twins = [
                one.since
                for one in self._seats.values()
                if one.place.name == place.name and _is_of(one, place, server_id) and now - one.taken < _KEPT_SECONDS
            ]
            since = min(twins, default=self._begun + 1)
            seat = self._seats[place.key] = _Seat(place, server_id, now, now, since)
        self._count_joining()
        return seat

    def _count_joining(self) -> None:
        joining = frozenset(seat.server_id for seat in self._seats.values() if seat.since > self._done)
        if joining != self._joining:
            self._joining = joining
            self.version += 1

    async def _take(self, place: ServerRef, server_id: str) -> bool:
        now = round(self._clock() * 1000)
        until = now + round(_KEPT_SECONDS * 1000)
        seat = Connected(place.name, place.group, server_id, self._gateway + place.connection, until)
        return await self._repository.connect(seat, now, self._most())

    def forget(self, place: ServerRef) -> None:
        """The server of that name is another one now."""
        self.refusals.pop(place.key, None)

    async def leave(self, place: ServerRef) -> None:
        """The server is gone for good."""
        self.forget(place)
        if self._seats.pop(place.key, None) is not None:
            self._count_joining()
            await self._give_back(place)

    async def _give_back(self, place: ServerRef) -> None:
        await self._repository.disconnect(self._gateway + place.connection, place.name)

    async def look_again(self) -> None:
        """Work out anew what has to wait: something was decided, met, or somebody came."""
        await self._seen(self._begun + 1)

    async def _seen(self, number: int) -> None:
        """Wait until the look of that number, or a later one, has come to something; all who wait share it."""
        while self._done < number:
            # One after the other: of two looks, the one that began later has the last word.
            if self._look is None or self._look.done():
                self._begun += 1
                self._look = asyncio.create_task(self._look_once(self._begun), name="callgate-company-look")
            look, begun = self._look, self._begun
            # Whoever goes away meanwhile does not end what others wait for.
            await asyncio.wait({look})
            if look.cancelled():
                raise StoreError("the gateway is being stopped")
            error = look.result()
            if error is not None and begun >= number:
                raise error

    async def _look_once(self, number: int) -> Exception | None:
        """What went wrong is returned: it is for whoever still waits."""
        try:
            looked = await self._hold()
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is known then
            self.behind = True
            return error
        if number <= self._void:
            return None
        self.behind = False
        self._done, self._done_at = number, self._clock()
        before = self.version
        if looked != self._looked:
            self._looked = looked
            self.version += 1
        self._count_joining()
        if self.version != before:
            self._altered()
        return None

    async def look_quietly(self) -> bool:
        """The same for whoever nobody waits for; False where it has to be tried again."""
        try:
            await self.look_again()
        except CallgateError as error:
            log.warning("sets not looked at", extra={"fields": {"error": str(error)}})
            return False
        except Exception as error:  # noqa: BLE001 - whatever breaks here must not end the looking
            log.error("sets not looked at", extra={"fields": {"error": place_of(error)}})
            return False
        return True

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            idle = self._clock() - _IDLE_SECONDS
            for seat in list(self._seats.values()):
                try:
                    await self._renew_seat(seat, idle)
                except CallgateError as error:
                    log.warning("place not kept", extra={"fields": {"error": str(error)}})
                except Exception as error:  # noqa: BLE001 - one place that breaks us must not end the others
                    log.error("place not kept", extra={"fields": {"error": place_of(error)}})
            await self.look_quietly()

    async def _renew_seat(self, seat: _Seat, idle: float) -> None:
        if seat.used < idle:
            self._seats.pop(seat.place.key, None)
            self._count_joining()
            await self._give_back(seat.place)
        elif await self._take(seat.place, seat.server_id):
            seat.taken = self._clock()


def _is_of(seat: _Seat, place: ServerRef, server_id: str) -> bool:
    return seat.server_id == server_id and seat.place.group == place.group
