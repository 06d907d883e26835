"""The decisions on tools in memory, verified, as fresh as the store."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from callgate.errors import CallgateError, place
from callgate.pinning.chain import DecisionChain, Keys
from callgate.pinning.storage import PinRepository

log = logging.getLogger("callgate.pinning")

STALE_SECONDS: Final = 3.0
_REREAD_SECONDS: Final = 5.0


class Refresher(Protocol):
    """Calls what it was given whenever something in the store may have changed."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def next_reading(self) -> None: ...

    async def read_again(self) -> None: ...


class DecisionWatch:
    """Reads on in the chain whenever something was added. Not knowing for too long counts as knowing nothing."""

    def __init__(
        self,
        shelf: PinRepository,
        keys: Keys,
        follow: Callable[[Callable[[], Awaitable[None]]], Refresher],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.book = DecisionChain(keys)
        # Told when something was decided, here or elsewhere.
        self.decided: Callable[[], None] = lambda: None
        self._shelf = shelf
        self._keys = keys
        self._clock = clock
        # Not read yet is as old as can be.
        self._read_at = float("-inf")
        self._broken_at = float("-inf")
        self._follower = follow(self.refresh)

    @property
    def stale(self) -> bool:
        return self.is_stale()

    def is_stale(self) -> bool:
        return self._clock() - self._read_at > STALE_SECONDS

    async def start(self) -> None:
        await self._follower.start()

    async def stop(self) -> None:
        await self._follower.stop()

    async def catch_up(self) -> None:
        """Wait until the decisions are not stale."""
        while self.stale:
            await self._follower.next_reading()

    async def read_again(self) -> None:
        """Wait for what was decided before this, here or elsewhere."""
        await self._follower.read_again()

    async def refresh(self) -> None:
        """Read what was added since. What cannot be read ages; what does not verify is believed by nobody."""
        before = self._clock()
        book = self.book
        if book.broken:
            if before - self._broken_at < _REREAD_SECONDS:
                self._read_at = before
                return
            book = DecisionChain(self._keys)
        known, was_broken = book.version, bool(self.book.broken)
        try:
            book.read(*await self._shelf.since(known))
        except CallgateError as error:
            log.warning("the decisions on tools could not be read", extra={"fields": {"error": str(error)}})
            return
        except Exception as error:  # noqa: BLE001 - not to be expected: the state ages into `stale`, and reading goes on
            log.error("the decisions on tools could not be read", extra={"fields": {"error": place(error)}})
            return
        if book.broken:
            self._broken_at = before
            if not was_broken:
                log.error("the decisions on tools were tampered with", extra={"fields": {"problem": book.broken}})
        self.book = book
        self._read_at = before
        if book.version != known or was_broken != bool(book.broken):
            self.decided()
