"""Rate limits: how many calls an agent may make over time, and how many at once.

Counted per verified agent, and per tool where a limit says so, never per address. Answers carry the fields of
draft-ietf-httpapi-ratelimit-headers; `Retry-After` (RFC 9110 §10.2.3) comes with a refusal and counts before them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from callgate.agents import keeping
from callgate.agents.buckets import FASTEST, Buckets, asked
from callgate.agents.model import ToolPolicy
from callgate.agents.storage import AgentShelf, Budget, Take
from callgate.errors import ConfigError, Reason, Refused

_MINUTE_MS: Final = 60_000.0
_MOST: Final = 1_000_000_000
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class Limit(msgspec.Struct, frozen=True):
    """So many calls a minute, and so many at once; `of` is what it counts beside the agent, such as server and tool."""

    name: str
    per_minute: float
    # Without one, a minute's worth.
    burst: int | None = None
    of: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} cannot name a rate limit", advice="Use lower case letters, digits, `_`, `.` and `-`."
            )
        most = self.burst if self.burst is not None else 1
        if not (0 < self.per_minute <= FASTEST * _MINUTE_MS and 1 <= most <= _MOST):
            raise ConfigError(
                f"the rate limit {self.name!r} allows nothing or more than can be counted",
                advice="Set per_minute above 0, up to 6,000,000, and burst to at least 1; deny what nobody may call.",
            )

    @property
    def most(self) -> int:
        """How many calls at once, after a rest."""
        return self.burst if self.burst is not None else max(1, math.ceil(self.per_minute))

    @property
    def window(self) -> int:
        """After how many seconds an empty bucket is full again."""
        return max(1, math.ceil(self.most * 60 / self.per_minute))

    def take(self, agent: str) -> Take:
        # A limit that was changed starts anew. Lengths keep one name from running into the next.
        bucket = f"{len(agent)}:{agent}{len(self.of)}:{self.of}{self.name}:{self.per_minute}:{self.most}"
        return Take(bucket, self.per_minute / _MINUTE_MS, self.most)


def limit_of(policy: ToolPolicy, name: str, of: str = "") -> Limit | None:
    """The limit of a policy, if it has one."""
    return None if policy.per_minute is None else Limit(name, policy.per_minute, policy.burst, of)


class Allowance(msgspec.Struct, frozen=True):
    """Whether a call may be made now, and what its answer says of that."""

    ok: bool = True
    # Seconds until it may be tried again; 0 where it may be made.
    retry_after: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    # The limits that were used up.
    over: tuple[str, ...] = ()

    def refusal(self) -> Refused:
        return Refused(
            Reason.RATE_LIMITED,
            f"this agent has made as many calls as its limit lets it ({', '.join(self.over)})",
            advice=f"Try again in {self.retry_after} s.",
            data={"retryAfter": self.retry_after, "limits": list(self.over)},
        )


class Limiter(Protocol):
    """Counts calls. Its failure is the caller's to refuse for: nobody is let through uncounted."""

    async def take(self, agent: str, limits: Sequence[Limit]) -> Allowance:
        """One call by this agent, under all of these limits; where one is used up, none counts it."""


class MemoryLimiter:
    """Counts in this process only. A clock that is set does not move it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, most: int = keeping.BUDGETS) -> None:
        self._clock = clock
        self._buckets = Buckets(most)

    async def take(self, agent: str, limits: Sequence[Limit]) -> Allowance:
        if not limits:
            return Allowance()
        takes = asked([limit.take(agent) for limit in limits])
        return allowance(limits, self._buckets.spend(takes, self._clock() * 1000))


class StoreLimiter:
    """Counts in the store, for all processes on it."""

    def __init__(self, shelf: AgentShelf, *, clock: Callable[[], float] = time.time) -> None:
        self._shelf = shelf
        self._clock = clock

    async def take(self, agent: str, limits: Sequence[Limit]) -> Allowance:
        if not limits:
            return Allowance()
        takes = [limit.take(agent) for limit in limits]
        return allowance(limits, await self._shelf.spend_all(takes, int(self._clock() * 1000)))


def allowance(limits: Sequence[Limit], budgets: Sequence[Budget]) -> Allowance:
    """What the buckets say, as an answer says it."""
    pairs = list(zip(limits, budgets, strict=True))
    over = [(limit.name, budget.wait_ms) for limit, budget in pairs if not budget.ok]
    headers = (
        ("RateLimit-Policy", ", ".join(f'"{limit.name}";q={limit.most};w={limit.window}' for limit, _ in pairs)),
        ("RateLimit", ", ".join(_left(limit, budget) for limit, budget in pairs)),
    )
    if not over:
        return Allowance(headers=headers)
    retry_after = max(1, math.ceil(max(wait for _, wait in over) / 1000))
    return Allowance(
        ok=False,
        retry_after=retry_after,
        headers=(("Retry-After", str(retry_after)), *headers),
        over=tuple(dict.fromkeys(name for name, _ in over)),
    )


def _left(limit: Limit, budget: Budget) -> str:
    """`t` is the time in which no more than `r` can be used: until the next token is whole."""
    # A hair less than a whole token still buys a call.
    whole = min(limit.most, math.floor(budget.left + 0.001)) if budget.ok else 0
    next_ms = (whole + 1 - budget.left) * _MINUTE_MS / limit.per_minute
    return f'"{limit.name}";r={whole};t={max(1, math.ceil(next_ms / 1000))}'
