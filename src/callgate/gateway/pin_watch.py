"""The decisions on tools as a gateway sees them: in memory, verified, and kept fresh from the store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from callgate.errors import CallgateError, place
from callgate.pinning.book import Book, Keys
from callgate.pinning.storage import PinShelf

log = logging.getLogger("callgate.pinning")

POLL_SECONDS: Final = 0.4
STALE_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 5.0


class PinWatch:
    """Reads on in the chain whenever something was added. Not knowing for too long counts as knowing nothing."""

    def __init__(
        self,
        shelf: PinShelf,
        keys: Keys,
        watch: Callable[[Callable[[], None]], Callable[[], None]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.book = Book(keys)
        # Told when something was decided, here or elsewhere.
        self.decided: Callable[[], None] = lambda: None
        self._shelf = shelf
        self._keys = keys
        self._watch = watch
        self._clock = clock
        self._read_at: float | None = None
        self._broken_at = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None

    @property
    def stale(self) -> bool:
        return self._read_at is None or self._clock() - self._read_at > STALE_SECONDS

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        poke = asyncio.Event()

        def changed() -> None:
            with suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(poke.set)

        await self.refresh()
        self._unwatch = self._watch(changed)
        self._task = asyncio.create_task(self._follow(poke), name="callgate-pins")

    async def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _follow(self, poke: asyncio.Event) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await poke.wait()
            poke.clear()
            await self.refresh()

    async def refresh(self) -> None:
        """Read what was added since. What cannot be read ages; what does not verify is believed by nobody."""
        before = self._clock()
        book = self.book
        if book.broken:
            if before - self._broken_at < _AGAIN_SECONDS:
                self._read_at = before
                return
            book = Book(self._keys)
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
