"""Waiting with an end, cheaply: a call that is over at once pays for one timer and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Self

from callgate.errors import Reason, Refused, UpstreamError

# Most calls are over sooner; only a slow one pays for a task that watches the client's side of the connection.
_WATCH_AFTER: Final = 0.05


class Deadline:
    """`with Deadline(seconds, reason):` — the block is given up after that time with this refusal."""

    __slots__ = ("_expired", "_reason", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float, reason: Reason) -> None:
        self._seconds = seconds
        self._reason = reason
        self._expired = False

    def __enter__(self) -> Self:
        # Asked for once: up to Python 3.11 it is a system call each time.
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._timer = loop.call_later(self._seconds, self._expire)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._timer.cancel()
        if self._expired and kind is asyncio.CancelledError:
            assert self._task is not None
            if self._task.uncancel() == 0:
                raise Refused(self._reason) from None

    def _expire(self) -> None:
        self._expired = True
        assert self._task is not None
        self._task.cancel()


class Watch:
    """`with exchange.watch(seconds) as watch:` — the block ends when the client leaves, and `watch.gone` says so.

    If nothing has begun by the end of the patience, the block ends with UPSTREAM_TIMEOUT; `watch.patient()` says that
    something has begun and there is no hurry any more.
    """

    __slots__ = ("_delay", "_expired", "_gone_signal", "_patience", "_since", "_task", "_timer", "_watcher", "gone")

    def __init__(self, gone: Callable[[], Awaitable[None]], patience: float | None, *, at_once: bool) -> None:
        self._gone_signal = gone
        self._patience = patience
        self._delay = 0.0 if at_once else _WATCH_AFTER
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._since = 0.0
        self._expired = False
        self.gone = False

    def patient(self) -> None:
        """Wait for as long as it takes from here on."""
        self._patience = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._since = loop.time()
        self._timer = loop.call_later(self._delay, self._begin, loop)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if kind is asyncio.CancelledError and (self.gone or self._expired):
            assert self._task is not None
            # Only our own request to stop is swallowed; a shutdown that came at the same time still counts.
            if self._task.uncancel() == 0:
                if self._expired:
                    raise UpstreamError(Reason.UPSTREAM_TIMEOUT) from None
                return True
        return False

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watcher = loop.create_task(self._wait())
        self._tick(loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look again at the end of the patience, if there still is one then."""
        if self._patience is None:
            self._timer = None
            return
        left = self._since + self._patience - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._tick, loop)
            return
        self._expired = True
        assert self._task is not None
        self._task.cancel()

    async def _wait(self) -> None:
        await self._gone_signal()
        self.gone = True
        assert self._task is not None
        self._task.cancel()
