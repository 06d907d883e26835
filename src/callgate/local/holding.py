"""Being the one gateway of a place, as long as one holds its lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from callgate.local.place import Place

_LOCK_SECONDS = 15.0


class AlreadyRunning(Exception):
    """Another gateway has the place."""


@contextlib.contextmanager
def holding(at: Place, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Be the gateway of a place for as long as the block lasts; AlreadyRunning where another one is."""
    lock = at.open("lock")
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # One that is about to end lets go of it soon.
                if time.monotonic() >= deadline:
                    raise AlreadyRunning from None
                time.sleep(0.05)
        yield
    finally:
        os.close(lock)
