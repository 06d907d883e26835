"""How often something may be tried: guessing gets slow, mistyping does not."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from callgate.errors import Reason, Refused

WINDOW: Final = 60.0


class Pace:
    """At most `each` tries a minute with one name, and `in_all` with any.

    Kept in memory, by process: it slows guessing down, while what is guessed is long enough to stand by itself.
    """

    def __init__(self, each: int, in_all: int, clock: Callable[[], float]) -> None:
        self._each = each
        self._in_all = in_all
        self._clock = clock
        self._tries: deque[tuple[float, str]] = deque()

    def step(self, name: str = "") -> None:
        """Count one try, or refuse it; without a name only all together count. `in_all` bounds what is remembered too.

        What is refused is not counted: trying on does not make the wait longer.
        """
        now = self._clock()
        while self._tries and self._tries[0][0] <= now - WINDOW:
            self._tries.popleft()
        same = [at for at, tried in self._tries if tried == name] if name else []
        if len(self._tries) >= self._in_all:
            raise _too_often(self._tries[0][0] + WINDOW - now)
        if len(same) >= self._each:
            raise _too_often(same[0] + WINDOW - now)
        self._tries.append((now, name))


def _too_often(seconds: float) -> Refused:
    return Refused(
        Reason.APPROVAL_LIMIT,
        "This was tried too often.",
        advice="Wait a minute, then try once more.",
        data={"retryAfter": max(1, math.ceil(seconds))},
    )
