"""Sets of remembered words: in order where they vouch for a value, in any order where they cast doubt on it."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from callgate.trust.provenance.fingerprints import MASK, SPREAD
from callgate.trust.provenance.packing import numbers

# The longest run of words that is looked up in one go; longer values are compared window by window.
SPAN: Final = 8
# What the first word of such a run was multiplied with.
_HIGHEST: Final = pow(SPREAD, SPAN - 1, MASK + 1)
# Of so many results that brought something it is known which of them a piece came with, as far as all that they
# brought is not more than these bytes: one that says the same at length each time fills nothing else.
_STEPS: Final = 512
_STEPS_BYTES: Final = 4 * 1024 * 1024
# A set of more is settled into an array.
_FEW: Final = 65_536


class Phrases(dict[int, int]):
    """Texts that may vouch for a value: every run of up to eight of their words, each with the step it came with."""

    def add(self, digests: Iterable[int], step: int) -> None:
        """Take in words in their order; 0 stands where one text ends."""
        self.update(dict.fromkeys(spans(digests), step))

    def holds(self, windows: Sequence[int]) -> bool:
        """Whether a value occurs there, its words one after the other. `windows` are its own, as below."""
        return bool(windows) and all(map(self.__contains__, windows))

    def says(self, words: Sequence[int]) -> bool:
        """The same for the words themselves. Of a long value, most often its beginning tells."""
        # A value begins in a text with its first word, or does not occur there.
        if not self or not words or words[0] not in self:
            return False
        if len(words) > SPAN:
            return all(map(self.__contains__, _rolling(words)))
        folded = 0
        for word in words:
            folded = (folded * SPREAD + word) & MASK
        return folded in self


class Pieces:
    """Texts that a stranger may have written: all their pieces, whatever their order.

    The latest are in a set. Where there are many, the others are in sorted arrays, which take a tenth of the room; each
    is at least twice as long as the next, so there are few.
    """

    def __init__(self) -> None:
        self._few: set[int] = set()
        self._many: list[array[int]] = []
        self._latest: deque[tuple[int, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._few) + sum(map(len, self._many)) if self._many else len(self._few)

    def __bool__(self) -> bool:
        return bool(self._few or self._many)

    def __iter__(self) -> Iterator[int]:
        return chain(self._few, *self._many)

    def __contains__(self, digest: int) -> bool:
        return digest in self._few or (bool(self._many) and self._is_old(digest))

    def issuperset(self, digests: Iterable[int]) -> bool:
        if not self._many:
            return self._few.issuperset(digests)
        return all(digest in self._few or self._is_old(digest) for digest in digests)

    def isdisjoint(self, digests: Iterable[int]) -> bool:
        if not self._many:
            return self._few.isdisjoint(digests)
        return not any(digest in self._few or self._is_old(digest) for digest in digests)

    def add_packed(self, packed: bytes, step: int) -> None:
        self._few.update(numbers(packed))
        if len(self._few) > _FEW:
            self._settle()
        latest = self._latest
        latest.append((step, packed))
        self._bytes += len(packed)
        while len(latest) > _STEPS or self._bytes > _STEPS_BYTES:
            self._bytes -= len(latest.popleft()[1])

    def _is_old(self, digest: int) -> bool:
        for some in self._many:
            at = bisect_left(some, digest)
            if at < len(some) and some[at] == digest:
                return True
        return False

    def _settle(self) -> None:
        fresh = array("Q", sorted(digest for digest in self._few if not self._is_old(digest)))
        while self._many and len(self._many[-1]) < 2 * len(fresh):
            # Two runs that are sorted already are quickly one.
            fresh = array("Q", sorted([*self._many.pop(), *fresh]))
        self._many.append(fresh)
        self._few = set()

    def steps(self, digests: Sequence[int]) -> tuple[int, ...]:
        """The latest steps that brought one of these."""
        wanted = [digest.to_bytes(8, sys.byteorder) for digest in digests[:SPAN]]
        return tuple(sorted({step for step, packed in self._latest if any(digest in packed for digest in wanted)}))


def spans(digests: Iterable[int]) -> Iterator[int]:
    """The digest of each run of up to eight words that does not cross the end of a text."""
    running: list[int] = []
    for digest in digests:
        if not digest:
            running = []
            continue
        running = [(start * SPREAD + digest) & MASK for start in running[-SPAN + 1 :]]
        running.append(digest)
        yield from running


def windows(digests: Sequence[int]) -> Sequence[int]:
    """What has to be looked up for a run of words: the run itself, or each eight of a longer one."""
    return digests if len(digests) < 2 else list(_rolling(digests))


def _rolling(digests: Sequence[int]) -> Iterator[int]:
    folded = 0
    for digest in digests[:SPAN]:
        folded = (folded * SPREAD + digest) & MASK
    yield folded
    for first, last in zip(digests, digests[SPAN:], strict=False):
        folded = ((folded - first * _HIGHEST) * SPREAD + last) & MASK
        yield folded
