"""Being the one gateway of a place, as long as one holds its lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from callgate.local.place import Place

_LOCK_SECONDS = 15.0


@contextlib.contextmanager
def holding(at: Place, seconds: float = _LOCK_SECONDS) -> Iterator[bool]:
    """Be the gateway of a place for as long as the block lasts; False where another one still is after that time."""
    lock = at.open("lock")
    try:
        deadline = time.monotonic() + seconds
        # One that is about to end lets go of it soon.
        while not (ours := _lock(lock)) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield ours
    finally:
        os.close(lock)


def _lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
