"""Sets of remembered words: in order where they vouch for a value, in any order where they cast doubt on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from callgate.trust.provenance.fingerprints import MASK, SPREAD

# The longest run of words that is looked up in one go; longer values are compared window by window.
SPAN: Final = 8


class Phrases:
    """Texts that may vouch for a value: every run of up to eight of their words, each with the step it came with."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, span: int) -> bool:
        return span in self._steps

    def add(self, digests: Iterable[int], step: int) -> None:
        """Take in words in their order; 0 stands where one text ends."""
        self._steps.update(dict.fromkeys(spans(digests), step))

    def holds(self, digests: Sequence[int]) -> bool:
        """Whether these words occur there one after the other."""
        steps = self._steps
        if len(digests) == 1:
            return digests[0] in steps
        return bool(digests) and all(window in steps for window in windows(digests))

    def step(self, digests: Sequence[int]) -> int:
        return self._steps.get(next(windows(digests)), 0)


class Pieces:
    """Texts that a stranger may have written: all their pieces, whatever their order, each with its latest step."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, digest: int) -> bool:
        return digest in self._steps

    def add(self, digests: Iterable[int], step: int) -> None:
        self._steps.update(dict.fromkeys(digests, step))

    def holds(self, digests: Iterable[int]) -> bool:
        return self._steps.keys() >= set(digests)

    def steps(self, digests: Iterable[int]) -> tuple[int, ...]:
        steps = self._steps
        return tuple(sorted({steps[digest] for digest in digests if digest in steps}))


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


def windows(digests: Sequence[int]) -> Iterator[int]:
    """What has to be looked up for a run of words: the run itself, or each eight of a longer one."""
    width = min(SPAN, len(digests))
    for start in range(len(digests) - width + 1):
        folded = 0
        for digest in digests[start : start + width]:
            folded = (folded * SPREAD + digest) & MASK
        yield folded
