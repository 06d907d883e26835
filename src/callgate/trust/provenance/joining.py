"""Whether a value can be put together from what a stranger's texts hold in smaller parts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from callgate.trust.provenance import normalise
from callgate.trust.provenance.names import Role, host, named, strangers

if TYPE_CHECKING:
    from callgate.trust.provenance.memory import Memory

# All texts of a call together, the names in them, and how often it is tried to put a value together from a stranger's
# words.
CHARS: Final = 512 * 1024
NAMES: Final = 1_000
STEPS: Final = 20_000
# Values of a call of which it is looked up with which results they came: people are shown fewer.
SOURCES: Final = 64
# A value that is longer is not tried: nobody's address is.
_TRIED_CHARS: Final = 256
_TRIED_PARTS: Final = 32


class Budget(msgspec.Struct):
    """How much work a call may cause. What there is none left for counts as a stranger's."""

    chars: int = CHARS
    names: int = NAMES
    steps: int = STEPS
    sources: int = SOURCES

    def spend(self, steps: int = 1) -> bool:
        self.steps -= steps
        return self.steps >= 0

    def came_with(self, memory: Memory, pieces: Sequence[int]) -> tuple[int, ...]:
        """The steps that brought a stranger's value; none where there were many before it."""
        self.sources -= 1
        return memory.strange.steps(pieces) if self.sources >= 0 else ()

    def strangers(self, memory: Memory, text: str, role: Role, *, critical: bool) -> list[str]:
        """The names in a text that are a stranger's."""
        found, looked = strangers(memory, text, critical=critical, most=self.names, role=role)
        self.names -= looked
        return found


def put_together(memory: Memory, text: str, spelt: Sequence[str], budget: Budget) -> bool:
    """Whether a value with these words can be: then an address in groups, halves or single letters is known again."""
    if not memory.strange:
        return False
    if len(text) > _TRIED_CHARS:
        return True
    together = "".join(spelt)
    # Words of letters are their own parts; of one, the digest is at hand.
    plain = together.isascii() and together.isalpha()
    parts = spelt if plain else normalise.parts(text)
    if len(parts) > _TRIED_PARTS:
        return True
    if len(parts) > 1:
        fingerprints = memory.fingerprints
        packed = fingerprints.pieces[together] if plain else fingerprints.raw("".join(parts))
        if int.from_bytes(packed, sys.byteorder) in memory.strange:
            return True
    return bool(parts) and all(joined(memory, part, budget) for part in parts)


def names_put_together(memory: Memory, text: str) -> bool:
    """Whether a link, address or account number in a text can be, and nothing vouches for it."""
    budget = Budget()
    for name in named(text):
        spelt = normalise.sequence(name)
        if not memory.vouches(memory.fingerprints.words(spelt)):
            place = host(name) if "@" not in name and "." in name else name
            if put_together(memory, place, spelt, budget):
                return True
    return False


def joined(memory: Memory, piece: str, budget: Budget) -> bool:
    # By way of the pieces, which are kept for the next time.
    digests, strange, number, order = memory.fingerprints.pieces, memory.strange, int.from_bytes, sys.byteorder
    if number(digests[piece], order) in strange:
        return True
    length = len(piece)
    if not 2 <= length <= 64:
        return False
    if budget.steps >= length and strange.isdisjoint(memory.fingerprints.beginnings[piece]):
        budget.steps -= length
        return False
    reached = {0}
    for start in range(length):
        if start in reached:
            if not budget.spend(length - start):
                return True
            for end in range(start + 1, length + 1):
                if number(digests[piece[start:end]], order) in strange:
                    reached.add(end)
            if len(reached) == 1:
                return False
    return length in reached
