"""The event loop of a gateway process."""

from __future__ import annotations

import asyncio
from typing import Any


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    loop: Any = uvloop.new_event_loop()
    return loop  # type: ignore[no-any-return]
