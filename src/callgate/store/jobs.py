"""What waits for the writer thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from sqlalchemy import Connection

from callgate.audit.rows import AuditRow

log = logging.getLogger(__name__)

# Writes all items of a batch at once, on the driver's connection; what became of each, in their order.
Together: TypeAlias = Callable[[Any, Sequence[Any]], Sequence[Any]]


class Job:
    """A row to append, an operation to run or an item to write with others, and the future that waits, if any; or who
    is told afterwards, and on which event loop."""

    __slots__ = ("error", "future", "item", "operation", "result", "row", "since", "together", "told")

    def __init__(
        self,
        row: AuditRow | None,
        operation: Callable[[Connection], Any] | None,
        future: asyncio.Future[Any] | None,
        since: float,
        *,
        together: Together | None = None,
        item: Any = None,
        told: tuple[asyncio.AbstractEventLoop, Callable[[Any], None]] | None = None,
    ) -> None:
        self.row = row
        self.together = together
        self.item = item
        self.operation = operation
        self.future = future
        self.told = told
        self.since = since
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def abandoned(self) -> bool:
        """Whether its caller has stopped waiting, so that nothing must be written for it any more."""
        return self.future is not None and self.future.done()


def settle(jobs: Iterable[Job]) -> None:
    """Wake everyone who waits for these jobs; each event loop is woken once, whatever the number of jobs."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
        elif job.told is not None:
            loops.setdefault(job.told[0], []).append(job)
    for loop, waiting in loops.items():
        # A loop that has closed has nobody left to tell.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, waiting)


def _resolve(jobs: list[Job]) -> None:
    for job in jobs:
        future = job.future
        if job.told is not None:
            try:
                job.told[1](job.result if job.error is None else None)
            except Exception:  # one that fails must not keep the others waiting
                log.exception("a write was not taken note of")
        if future is None or future.done():
            continue
        if job.error is None:
            future.set_result(job.result)
        else:
            future.set_exception(job.error)
