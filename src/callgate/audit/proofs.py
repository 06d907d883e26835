"""The stored tree: tiles of 256 hashes (C2SP tlog-tiles), and proofs from them in O(log n)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from callgate.audit import merkle, note
from callgate.audit.merkle import HASH
from callgate.audit.storage import Tables, TreeHead
from callgate.errors import AuditError, NotInTree, Tampered

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


class Inclusion(msgspec.Struct, frozen=True):
    """That a record is leaf `leaf` of the tree under `note`."""

    leaf: int
    path: list[bytes]
    note: str


def inclusion(tables: Tables, record: int, signed: str | None = None) -> Inclusion:
    """The proof for one record, under the head of the tree or under an earlier one that was `signed`."""
    head = _head(tables)
    size, under = (head.size, head.note) if signed is None else (note.parse(signed).size, signed)
    leaf = leaf_of(tables, record, head.size)
    if leaf is None or leaf >= size:
        raise NotInTree(
            f"record {record} is not in the tree yet", advice="Try again in a second; a running gateway adds it."
        )
    return Inclusion(leaf, merkle.inclusion(leaf, size, _at_size(tables, size).node), under)


def consistency_between(tables: Tables, old: int, new: int) -> list[bytes]:
    """The proof that the tree of `new` records begins with that of `old` ones, both of them the log's own."""
    return merkle.consistency(old, new, _at_size(tables, new).node)


def _at_size(tables: Tables, size: int) -> Tiles:
    """The tree as it was at an earlier size: a tile then was the beginning of what it is now."""

    def read(level: int, number: int) -> object:
        stored = tables.tile(level, number)
        return stored[: width(size, level, number) * HASH] if isinstance(stored, bytes) else stored

    return Tiles(size, read)


def consistency(tables: Tables, old: note.Checkpoint) -> list[bytes]:
    """The proof that the log still begins with what an earlier checkpoint said; checked before it is returned."""
    head = _head(tables)
    new = note.parse(head.note)
    if old.origin != new.origin:
        raise Tampered(
            f"the checkpoint is of another log ({old.origin}, this one is {new.origin})",
            advice="Name the store that it belongs to with --store.",
        )
    if old.size > new.size:
        raise Tampered(
            f"the log has {new.size} records in its tree, the checkpoint had {old.size}: it was cut off",
            advice="Restore the missing records from a copy made by `callgate store backup`.",
        )
    grown = Tiles(head.size, tables.tile)
    path = merkle.consistency(old.size, new.size, grown.node)
    if not merkle.extends(old.size, new.size, old.root, new.root, path):
        raise Tampered(
            "the log does not begin with what the checkpoint says: it was rewritten",
            advice="Run `callgate audit verify`; compare with a copy made by `callgate store backup`.",
        )
    return path


def _head(tables: Tables) -> TreeHead:
    head = tables.head()
    if head is None:
        raise AuditError("the log is empty", advice="Start a gateway on this store, or name another with --store.")
    return head


def leaf_of(tables: Tables, record: int, size: int) -> int | None:
    """The leaf of a record, None if it is not in the tree; O(log n), because both grow together."""
    low, high = 0, min(size, record)
    # Without gaps in the ids, record n is leaf n - 1: look there first.
    guess = record - 1
    while low < high:
        middle = guess if low <= guess < high else (low + high) // 2
        found = tables.record_of(middle)
        if found == record:
            return middle
        if found is None:
            return None
        low, high = (middle + 1, high) if found < record else (low, middle)
        guess = -1
    return None


class ProofStep(msgspec.Struct, frozen=True):
    """One level up: the hash that is put beside what was reached, on which side, and what comes out."""

    side: Literal["left", "right"]
    beside: bytes
    result: bytes


class ProofSteps(msgspec.Struct, frozen=True):
    """From a record's bytes up to the root that the log's key has signed."""

    record: int
    leaf: int
    leaf_hash: bytes
    steps: tuple[ProofStep, ...]
    checkpoint: note.Checkpoint
    key: note.VerifierKey
    holds: bool


def climb(tables: Tables, record: int, body: bytes, public_keys: list[bytes]) -> ProofSteps:
    """The proof of a record that is in the tree, checked; raises `Tampered` where the checkpoint is not signed."""
    proof = inclusion(tables, record)
    checkpoint, key = note.verify(proof.note, public_keys)
    start = merkle.leaf_hash(body)
    steps = tuple(_steps(start, proof.leaf, checkpoint.size, proof.path))
    holds = merkle.includes(start, proof.leaf, checkpoint.size, proof.path, checkpoint.root)
    if holds and (steps[-1].result if steps else start) != checkpoint.root:
        raise Tampered("the proof holds, and its steps lead elsewhere")
    return ProofSteps(record, proof.leaf, start, steps, checkpoint, key, holds)


def _steps(start: bytes, leaf: int, size: int, path: Sequence[bytes]) -> list[ProofStep]:
    """RFC 9162 §2.1.3.2, with every hash on the way kept."""
    fn, sn, reached, steps = leaf, size - 1, start, list[ProofStep]()
    for beside in path:
        if fn & 1 or fn == sn:
            reached = merkle.node_hash(beside, reached)
            steps.append(ProofStep("left", beside, reached))
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            reached = merkle.node_hash(reached, beside)
            steps.append(ProofStep("right", beside, reached))
        fn, sn = fn >> 1, sn >> 1
    return steps
