"""What a stranger's text adds to those before it: a word that the store has and keeps is not written again.

The store drops what old steps left, so a word that is still being read is written again before the step that brought it
goes, and the store keeps a little more than is promised. And a step that leaves words out rests on the steps that
brought them: those form a chain. Whoever reads a session and misses a link of one (its step was
never written, is dropped, or an operator made the store forget it) does not know what the later steps held, and is as
wary as if they could not be read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from itertools import filterfalse
from typing import Final

import msgspec

from callgate.trust.provenance import normalise
from callgate.trust.provenance.packing import Left

# A text that is longer is kept whole, as its digests: what a process has of words stays small.
LONGEST: Final = 16 * 1024
# Words that a session has at hand, and their characters.
_WORDS: Final = 16_384
_CHARS: Final = 16 * _WORDS
# The part of the steps, and of the time, after which a word is written again.
_STEPS_SHARE: Final = 2
_TIME_SHARE: Final = 16
# No more steps than that are read of a session, however many are kept.
_READ: Final = 1000
# So few that it does not matter whether one comes twice.
_FEW: Final = 128
# Chains of other processes that are followed at a time.
_CHAINS: Final = 64


class Retention(msgspec.Struct, frozen=True):
    """Of how many steps of a session, and for how many seconds, all that they told is to be known."""

    steps: int = 1
    seconds: float = 0.0

    @property
    def kept_steps(self) -> int:
        """Of how many the store has to keep what they left: a step may rest on those before it."""
        return self.steps + self.steps // _STEPS_SHARE

    @property
    def kept_seconds(self) -> float:
        """For how long."""
        return self.seconds + self.seconds / _TIME_SHARE


_UNKNOWN: Final = Retention()


def unknown() -> Retention:
    """Where nobody says how long the store keeps anything, each step is written whole."""
    return _UNKNOWN


class Met:
    """The words of strangers that the latest steps of this process brought. All of them are among the session's
    digests, and each means the same wherever it stands: one that may be part of a date is never among them."""

    __slots__ = ("_at", "_chars", "_clock", "_joining", "_retention", "_since", "_words", "chain", "link")

    def __init__(self, retention: Callable[[], Retention] = unknown, clock: Callable[[], float] = time.time) -> None:
        self._retention = retention
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """An operator made the session forget what strangers said."""
        # No chain is begun.
        self._begin(0, 0, 0.0)

    def _begin(self, chain: int, seq: int, now: float) -> None:
        self._words: set[str] = set()
        # Of those that may be part of a date, the ones that were written as they are.
        self._joining: set[str] = set()
        self.chain, self.link, self._since, self._at, self._chars = chain, 0, seq, now, 0

    def opened(self, seq: int) -> bool:
        """Whether the step after `seq` may leave something out; its chain is open then."""
        keeps = self._retention()
        steps = min(keeps.steps, _READ) // _STEPS_SHARE
        if steps < 2:
            self.chain = 0
            return False
        now = self._clock()
        # A clock that was set back says nothing of what has expired.
        lasts = 0 <= now - self._at <= keeps.seconds / _TIME_SHARE
        full = len(self._words) > _WORDS or self._chars > _CHARS
        if not self.chain or not lasts or seq - self._since >= steps or full:
            self._begin(int.from_bytes(os.urandom(8), "little") | 1, seq, now)
        return True

    def new(self, folded: str) -> Collection[str]:
        """The words of a folded text that the chain has not brought."""
        found = folded.split()
        new = list(filterfalse(self._words.__contains__, found))
        # Those that join others are never left out here, so a look at the rest tells whether the text has any.
        if not normalise.JOINING.isdisjoint(new):
            return set(normalise.joined(found)) - self._words - self._joining
        return new if len(new) < _FEW else set(new)

    def add(self, words: Collection[str]) -> None:
        """A step of the chain has brought these."""
        self._chars += sum(map(len, words))
        if normalise.JOINING.isdisjoint(words):
            self._words.update(words)
        else:
            self._joining |= normalise.JOINING.intersection(words)
            self._words |= set(words) - self._joining


class Chains(dict[int, int]):
    """How far each chain was followed."""

    def take(self, left: Left) -> bool:
        """Whether nothing is missing of what a step rests on."""
        chain, link = left.chain, left.link
        if not chain:
            return True
        have = self.get(chain, 0)
        if link > have:
            return False
        if left.strange:
            self.pop(chain, None)
            self[chain] = max(have, link + 1)
            if len(self) > _CHAINS:
                del self[next(iter(self))]
        return True
