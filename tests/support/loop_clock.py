"""The clock of the running event loop: a limit is reached because a test says so, not because it waited."""

from __future__ import annotations

import asyncio


def advance(seconds: float) -> None:
    """Let that much time pass at once for every timer of this loop. The loop ends with its test, and the clock with it."""
    loop = asyncio.get_running_loop()
    plain = loop.time
    loop.time = lambda: plain() + seconds  # type: ignore[method-assign]
