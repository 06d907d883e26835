"""Proofs from the stored tree, in O(log n)."""

from __future__ import annotations

import msgspec

from callgate.audit import merkle, note, tiles
from callgate.audit.storage import Head, TreeTables
from callgate.errors import AuditError, NotInTree, Tampered


class Inclusion(msgspec.Struct, frozen=True):
    """That a record is leaf `leaf` of the tree under `note`."""

    leaf: int
    path: list[bytes]
    note: str


def inclusion(tables: TreeTables, record: int) -> Inclusion:
    """The proof for one record."""
    head = _head(tables)
    leaf = leaf_of(tables, record, head.size)
    if leaf is None:
        raise NotInTree(
            f"record {record} is not in the tree yet", advice="Try again in a second; a running gateway adds it."
        )
    grown = tiles.Tiles(head.size, tables.tile)
    return Inclusion(leaf, merkle.inclusion(leaf, head.size, grown.node), head.note)


def consistency(tables: TreeTables, old: note.Checkpoint) -> list[bytes]:
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
    grown = tiles.Tiles(head.size, tables.tile)
    path = merkle.consistency(old.size, new.size, grown.node)
    if not merkle.extends(old.size, new.size, old.root, new.root, path):
        raise Tampered(
            "the log does not begin with what the checkpoint says: it was rewritten",
            advice="Run `callgate audit verify`; compare with a copy made by `callgate store backup`.",
        )
    return path


def _head(tables: TreeTables) -> Head:
    head = tables.head()
    if head is None:
        raise AuditError("the log is empty", advice="Start a gateway on this store, or name another with --store.")
    return head


def leaf_of(tables: TreeTables, record: int, size: int) -> int | None:
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
