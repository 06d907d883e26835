"""The stored tree: tiles of 256 hashes (C2SP tlog-tiles), and the nodes that proofs need, read from them.

The tile (level, n) holds the hashes of the complete subtrees of height 8 * level, numbers 256 n and up. Only complete
subtrees are stored, so a tile is written once full, and the last one of each level grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from callgate.audit import merkle
from callgate.audit.merkle import HASH
from callgate.errors import Tampered

WIDTH: Final = 256
HEIGHT: Final = 8

# What is stored for (level, number): the hashes, if nobody tampered with it.
ReadTile = Callable[[int, int], object]


class Tiles:
    """The tree of `size` leaves, as far as its tiles have been read; grows by `append`."""

    def __init__(self, size: int, read: ReadTile) -> None:
        self.size = size
        self._read = read
        self._known: dict[tuple[int, int], bytes] = {}
        self._changed: set[tuple[int, int]] = set()

    def tile(self, level: int, number: int) -> bytes:
        key = (level, number)
        hashes = self._known.get(key)
        if hashes is None:
            count = width(self.size, level, number)
            stored = self._read(level, number) if count else b""
            if not isinstance(stored, bytes) or len(stored) != count * HASH:
                raise Tampered(f"tile {level}/{number} of the tree does not hold {count} hashes")
            hashes = self._known[key] = stored
        return hashes

    def node(self, height: int, index: int) -> bytes:
        """The hash of one complete subtree (see `merkle.Node`)."""
        level, up = divmod(height, HEIGHT)
        number, at = divmod(index << up, WIDTH)
        return merkle.complete(self.tile(level, number)[at * HASH : (at + (1 << up)) * HASH])

    def root(self) -> bytes:
        return merkle.root(self.size, self.node)

    def append(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes; every tile they fill passes its root up one level."""
        level, hashes, size = 0, b"".join(leaves), self.size
        while hashes:
            number, filled = divmod(size >> (HEIGHT * level), WIDTH)
            above: list[bytes] = []
            partial = self.tile(level, number) if filled else b""
            while hashes:
                room = (WIDTH - filled) * HASH
                partial, hashes = partial + hashes[:room], hashes[room:]
                self._known[level, number] = partial
                self._changed.add((level, number))
                if len(partial) == WIDTH * HASH:
                    above.append(merkle.complete(partial))
                number, filled, partial = number + 1, 0, b""
            hashes, level = b"".join(above), level + 1
        self.size += len(leaves)

    def forget(self) -> None:
        """Let go of tiles that no later leaf can change, so that memory stays flat while a whole log passes."""
        last = {(level, (self.size >> (HEIGHT * level)) // WIDTH) for level in range(levels(self.size))}
        self._known = {key: hashes for key, hashes in self._known.items() if key in last}
        self._changed.clear()

    def changed(self) -> Iterator[tuple[int, int, bytes]]:
        """The tiles to store."""
        for level, number in sorted(self._changed):
            yield level, number, self._known[level, number]


def width(size: int, level: int, number: int) -> int:
    """How many hashes a tile of a tree of that size holds."""
    return max(0, min(WIDTH, (size >> (HEIGHT * level)) - number * WIDTH))


def levels(size: int) -> int:
    """How many levels of tiles a tree of that size has."""
    count = 0
    while size >> (HEIGHT * count):
        count += 1
    return count
