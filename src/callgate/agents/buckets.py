"""Token buckets, each kept as one number: when it will be full again.

That is the generic cell rate algorithm. A bucket nobody asked for long needs no row and no memory at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final, TypeAlias

from callgate.agents.keeping import digest
from callgate.agents.storage import Budget, Take
from callgate.errors import ConfigError

# Of clocks that differ by more than this, one is wrong: what it wrote is not waited for.
FAR_MS: Final = 3_600_000.0
# Sums of many fractions are a little off.
_ROUNDING_MS: Final = 0.5
_SLOWEST: Final = 1e-12
# A time in milliseconds has no finer steps than a few thousandths: less than that would be taken for nothing.
FASTEST: Final = 100.0
_LEAST: Final = 0.1

Asked: TypeAlias = Sequence[tuple[bytes, Take]]


def demand(take: Take) -> None:
    """Refuse what no bucket can be."""
    sane = all(map(math.isfinite, (take.per_ms, take.burst, take.cost)))
    if not sane or not _SLOWEST <= take.per_ms <= FASTEST or take.burst <= 0 or 0 != take.cost < _LEAST:
        raise ConfigError(
            "a rate limit allows nothing, or more than can be counted",
            advice="Give it a rate above 0 and up to 100,000 a second, and a burst of at least 1.",
        )


def asked(takes: Sequence[Take]) -> Asked:
    """The same with short keys: names of buckets have any length."""
    for take in takes:
        demand(take)
    return [(digest(take.bucket), take) for take in takes]


def weigh(full_at: float, take: Take, now: float) -> tuple[float, Budget]:
    """When the bucket will be full after this, and how it stands; unchanged where there is not enough."""
    step = 1.0 / take.per_ms
    whole = take.burst * step
    start = max(full_at, now)
    if start > now + whole + FAR_MS:
        start = now + whole
    after = start + take.cost * step
    short = after - (now + whole)
    if short <= min(_ROUNDING_MS, step / 2):
        return after, Budget(ok=True, left=max(0.0, -short / step))
    left = max(0.0, (now + whole - start) / step)
    return start, Budget(ok=False, left=left, wait_ms=math.inf if take.cost > take.burst else short)


def spend(buckets: Mapping[bytes, float], wanted: Asked, now: float) -> tuple[dict[bytes, float], list[Budget]]:
    """What becomes of these buckets, and how each stands: all are taken from, or none is."""
    trial: dict[bytes, float] = {}
    budgets: list[Budget] = []
    for key, take in wanted:
        trial[key], budget = weigh(trial.get(key, buckets.get(key, 0.0)), take, now)
        budgets.append(budget)
    if all(budget.ok for budget in budgets):
        return trial, budgets
    # Nothing is taken, but a time that a wrong clock wrote does not stay.
    mended: dict[bytes, float] = {}
    for at, (key, take) in enumerate(wanted):
        full_at, before = weigh(buckets.get(key, 0.0), _nothing(take), now)
        if full_at < buckets.get(key, 0.0):
            mended[key] = full_at
        budgets[at] = Budget(ok=budgets[at].ok, left=before.left, wait_ms=budgets[at].wait_ms)
    return mended, budgets


def _nothing(take: Take) -> Take:
    return Take(take.bucket, take.per_ms, take.burst, 0.0)


class Buckets:
    """Token buckets in the memory of one process; never more than `most`.

    Where there are too many, those go that would be full soonest: who makes up new names cannot empty their own bucket
    out of memory that way.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._full_at: MutableMapping[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def spend(self, wanted: Asked, now: float) -> list[Budget]:
        changed, budgets = spend(self._full_at, wanted, now)
        self._full_at.update(changed)
        if len(self._full_at) > self._most:
            self.prune(now)
        return budgets

    def prune(self, now: float) -> int:
        """Forget the full ones, and some more where that is not enough, so that this is not done at every turn."""
        before = len(self._full_at)
        kept = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        if len(kept) > self._most:
            latest = sorted(kept.items(), key=lambda one: one[1], reverse=True)
            kept = dict(latest[: self._most - self._most // 10])
        self._full_at = kept
        return before - len(kept)
