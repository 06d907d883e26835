"""Noticing that callgate.toml changed, or a file that it names, without dropping what runs.

Only a valid file takes the place of the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
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
        # What was read last, whether it was taken or not, and the files that it names as they were then; as they were
        # when it was taken.
        self._read = current
        self._named = self._taken = _named_files(current)
        self._complaint = ""
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
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

    async def catch_up(self) -> None:
        """Takes what was written since the last look, before it returns."""
        if self._is_old():
            await self._reload()

    def _is_old(self) -> bool:
        return _signature(self._path) != self._seen or _named_files(self._read) != self._named

    async def _watch(self) -> None:
        while True:
            forced = await self._pause()
            if forced or self._is_old():
                await self._reload()

    async def _pause(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._interval):
                await self._wake.wait()
        forced = self._wake.is_set()
        self._wake.clear()
        return forced

    async def _reload(self) -> None:
        async with self._turn:
            await self._read_again()

    async def _read_again(self) -> None:
        signature = await self._settled()
        self._named = _named_files(self._read)
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
        self._read, self._named = config, _named_files(config)
        # What it says may be the same, and what its files say not.
        if config == self._current and self._named == self._taken:
            return
        await self._hand_over(config)

    async def _hand_over(self, config: Config) -> None:
        named = self._named
        try:
            taken = self._on_change(config)
            if taken is not None:
                await taken
        except Exception as error:  # noqa: BLE001 - whatever the taker does, the watch goes on and the old config holds
            log.error("new configuration not taken", error=error, file=str(self._path))
            return
        self._current, self._taken = config, named
        log.info("configuration reloaded", file=str(self._path), servers=sorted(config.servers))

    async def _settled(self) -> Signature:
        signature, named = _signature(self._path), _named_files(self._read)
        while True:
            await asyncio.sleep(_SETTLE_SECONDS)
            again, others = _signature(self._path), _named_files(self._read)
            if again == signature and others == named:
                return signature
            signature, named = again, others

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


def _named_files(config: Config | None) -> tuple[tuple[Path, Signature], ...]:
    """The files that a configuration names, as they are now: the rules of the policy, and labels of tools."""
    return () if config is None else tuple((path, _signature(path)) for path in _files(config))


def _files(config: Config) -> Iterator[Path]:
    if config.trust.policy is not None:
        yield config.trust.policy
    for server in config.servers.values():
        if server.trust.annotations is not None:
            yield server.trust.annotations
