"""How long to wait between tries at something that has not come to rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

_PAUSE_SECONDS: Final = 0.02
_PAUSE_MOST: Final = 1.0


def pauses(seconds: float) -> Iterator[float]:
    """How long to wait ahead of each try: not at all, then longer and longer; they end well within that time."""
    end, pause = time.monotonic() + seconds, _PAUSE_SECONDS
    yield 0.0
    # The last try has as long as the pause ahead of it, or longer.
    while time.monotonic() + 2 * pause < end:
        yield pause
        pause = min(2 * pause, _PAUSE_MOST)
