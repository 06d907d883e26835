"""Noticing that callgate.toml changed, without dropping what runs: only a valid file takes the place of the old one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Self

from callgate.config.loading import load
from callgate.config.model import Config
from callgate.errors import ConfigError
from callgate.telemetry import logs

log = logs.get(__name__)

OnChange = Callable[[Config], Awaitable[None] | None]
Signature = tuple[int, int, int] | None

# A file that is being written may be valid TOML and still lack half of its servers.
_SETTLE_SECONDS: Final = 0.1


class ConfigWatch:
    """Watches one file, by looking at it every `interval`: this also works where the file is replaced as a whole.

    `async with ConfigWatch(path, on_change, current=config):` runs it; `trigger()` (for SIGHUP) looks at once.
    """

    def __init__(
        self,
        path: Path,
        on_change: OnChange,
        *,
        current: Config | None = None,
        interval: float = 1.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._path = path
        self._on_change = on_change
        self._current = current
        self._interval = interval
        self._environ = environ
        self._seen = _signature(path)
        self._complaint = ""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch(), name="callgate-config-watch")
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def trigger(self) -> None:
        """Reads the file again now, changed or not: an environment reference may mean something else."""
        self._wake.set()

    async def _watch(self) -> None:
        while True:
            forced = await self._pause()
            if forced or _signature(self._path) != self._seen:
                await self._reload()

    async def _pause(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._interval):
                await self._wake.wait()
        forced = self._wake.is_set()
        self._wake.clear()
        return forced

    async def _reload(self) -> None:
        signature = await self._settled()
        if signature is None:
            self._complain(f"{self._path}: the file is gone")
            self._seen = signature
            return
        try:
            config = load(self._path, environ=self._environ)
        except ConfigError as error:
            self._complain(str(error))
            self._seen = signature
            return
        if _signature(self._path) != signature:
            return  # written again while it was read: the next look takes it
        self._seen = signature
        self._complaint = ""
        if config == self._current:
            return
        await self._hand_over(config)

    async def _hand_over(self, config: Config) -> None:
        try:
            taken = self._on_change(config)
            if taken is not None:
                await taken
        except Exception as error:  # noqa: BLE001 - whatever the taker does, the watch goes on and the old config holds
            log.error("new configuration not taken", error=error, file=str(self._path))
            return
        self._current = config
        log.info("configuration reloaded", file=str(self._path), servers=sorted(config.servers))

    async def _settled(self) -> Signature:
        signature = _signature(self._path)
        while True:
            await asyncio.sleep(_SETTLE_SECONDS)
            again = _signature(self._path)
            if again == signature:
                return signature
            signature = again

    def _complain(self, problems: str) -> None:
        if problems == self._complaint:
            return
        self._complaint = problems
        log.error("configuration not reloaded; the old one stays in force", problems=problems.splitlines())


def _signature(path: Path) -> Signature:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
