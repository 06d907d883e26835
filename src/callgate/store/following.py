"""Keeping something in memory as fresh as the store: read at first, soon after others change it, and now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from callgate.errors import ConfigError

# Where nobody says that something changed, or the word is lost: everybody follows within a second.
POLL_SECONDS: Final = 0.8

# `Store.watch`: takes what to call when others have changed something, and gives what ends it.
Watch: TypeAlias = Callable[[Callable[[], None]], Callable[[], None]]


class Follower:
    """Calls `refresh`, which never raises; `name` is the task's."""

    def __init__(self, watch: Watch, refresh: Callable[[], Awaitable[None]], name: str) -> None:
        self._watch = watch
        self._refresh = refresh
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._read = asyncio.Event()
        self._poke = asyncio.Event()
        # How many readings have begun, and the last of them that has ended.
        self._begun = self._ended = 0

    async def next_reading(self) -> None:
        """Wait until `refresh` has come to its end once more."""
        await self._read.wait()

    async def read_again(self) -> None:
        """Read now, and wait for a reading that began after this: it has whatever others wrote before."""
        wanted = self._begun + 1
        self._poke.set()
        while self._ended < wanted:
            await self._read.wait()

    async def start(self) -> None:
        """Read once, then keep fresh."""
        if self._task is not None:
            raise ConfigError(f"{self._name} runs already", advice="Start it once.")
        loop = asyncio.get_running_loop()

        def changed() -> None:
            with suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(self._poke.set)

        await self._refresh()
        self._unwatch = self._watch(changed)
        self._task = asyncio.create_task(self._follow(), name=self._name)

    async def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._poke.wait()
            self._poke.clear()
            self._begun += 1
            await self._refresh()
            self._ended = self._begun
            self._read.set()
            self._read = asyncio.Event()
