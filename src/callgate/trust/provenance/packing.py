"""Sets of keyed hashes in a few bytes: how they are packed for the store, and how a session asks them for a phrase."""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from callgate.trust.provenance.fingerprints import MASK, SPREAD

# Version, whether it is cut (1) or has what was not read (2), id of the key, chain, link, and how long each part is.
_HEAD: Final = struct.Struct("<BB8sQI9I")
# The same of a step that left nothing.
_BODILESS: Final = struct.Struct("<BB8sQI36x")
_VERSION: Final = 5
# As it was before what was written was kept.
_UNWRITTEN_HEAD: Final = struct.Struct("<BB8sQI8I")
_UNWRITTEN_VERSION: Final = 4
# As it was before there were texts.
_BARE_HEAD: Final = struct.Struct("<BB8sQI7I")
_BARE_VERSION: Final = 3
_CHAIN: Final = struct.Struct("<10xQI")
# As it was before there were chains.
_WHOLE_HEAD: Final = struct.Struct("<BB8s7I")
_WHOLE_VERSION: Final = 2
_HEADS: Final = {
    bytes((_VERSION,)): _HEAD,
    bytes((_UNWRITTEN_VERSION,)): _UNWRITTEN_HEAD,
    bytes((_BARE_VERSION,)): _BARE_HEAD,
    bytes((_WHOLE_VERSION,)): _WHOLE_HEAD,
}
# So much of a step is kept; the store takes a little more.
MOST: Final = 3 * 1000 * 1024


class Left(msgspec.Struct, gc=False):
    """The digests of one step. Words in order, 0 between texts, where they vouch; sets where they do not.

    `records` are runs of key, flags with the number of names above the lowest byte, and the names.
    """

    prompt: bytes = b""
    clean: bytes = b""
    vouching: bytes = b""
    strange: bytes = b""
    own: bytes = b""
    records: bytes = b""
    # A bit for each class of data, then the details that only who has read such data knows; and again for others.
    details: bytes = b""
    # Not all of the result could be kept.
    cut: bool = False
    # It held what is no text.
    unread: bool = False
    # What is not in `strange` because so many steps of a chain brought it before; 0 where nothing is left out.
    chain: int = 0
    link: int = 0
    # The text itself, sealed with a key that the store does not have; empty where it is not kept.
    text: bytes = b""
    # What a call wrote that is not the user's.
    written: bytes = b""


class Unreadable(ValueError):
    """Bytes that no `pack` of this version made, or none with this key: its digests say nothing here."""


def pack(left: Left, key: bytes) -> bytes:
    """`key` is the id of the key that the digests were made with. What the store has no room for is left out of `left`
    as well."""
    parts = _parts(left)
    body = b"".join(parts)
    if len(body) > MOST:
        fit(left)
        parts = _parts(left)
        body = b"".join(parts)
    flags = left.cut | left.unread << 1
    if not body:
        return _BODILESS.pack(_VERSION, flags, key, left.chain, left.link)
    return _HEAD.pack(_VERSION, flags, key, left.chain, left.link, *map(len, parts)) + body


def _parts(left: Left) -> tuple[bytes, ...]:
    """The parts of a step in the order in which they are kept."""
    return (
        left.prompt,
        left.clean,
        left.vouching,
        left.strange,
        left.own,
        left.records,
        left.details,
        left.text,
        left.written,
    )


def is_nothing(packed: bytes) -> bool:
    """Whether a step left nothing that was not there before it."""
    return len(packed) == _HEAD.size and packed[0] == _VERSION and not packed[1]


def rests_on(packed: bytes) -> int:
    """The chain without whose steps before it a step does not tell everything; 0 where it does."""
    if len(packed) < _BARE_HEAD.size or packed[0] not in (_VERSION, _UNWRITTEN_VERSION, _BARE_VERSION):
        return 0
    chain, link = _CHAIN.unpack_from(packed)
    return int(chain) if link else 0


def unpack(packed: bytes, key: bytes) -> Left:
    head, chain, link = _HEADS.get(packed[:1], _HEAD), 0, 0
    try:
        if head is _WHOLE_HEAD:
            version, cut, made_with, *lengths = head.unpack_from(packed)
        else:
            version, cut, made_with, chain, link, *lengths = head.unpack_from(packed)
    except struct.error:
        raise Unreadable from None
    if bytes((version,)) not in _HEADS or made_with != key:
        raise Unreadable
    if len(packed) != head.size + sum(lengths) or any(length % 8 for length in (*lengths[:7], *lengths[8:])):
        raise Unreadable
    parts, start = [], head.size
    for length in lengths:
        parts.append(packed[start : start + length])
        start += length
    prompt, clean, vouching, strange, own, records, details, *more = parts
    flags = bool(cut & 1), bool(cut & 2)
    return Left(prompt, clean, vouching, strange, own, records, details, *flags, chain, link, *more)


def fit(left: Left) -> None:
    """Leave out what the store has no room for: what vouches first, for without it nothing looks better than it is; the
    user's own words late, so that a flood takes none of them away. Records are left out all or none, as they are read
    from one to the next; that there was a prompt stays known."""
    over = sum(map(len, _parts(left))) - len(left.text) - MOST
    if over + len(left.text) > 0:
        left.text = b""
    for name in ("vouching", "records", "strange", "written", "own", "clean", "prompt", "details"):
        if over <= 0:
            return
        kept: bytes = getattr(left, name)
        stays = 8 if name == "prompt" else 0
        short = b"" if name == "records" else kept[: max(len(kept) - (over + 7) // 8 * 8, stays)]
        setattr(left, name, short)
        left.cut = left.cut or name in ("own", "strange", "written", "details")
        over -= len(kept) - len(short)


def numbers(packed: bytes) -> array[int]:
    """Packed digests, one by one."""
    digests: array[int] = array("Q")
    digests.frombytes(packed)
    return digests


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
