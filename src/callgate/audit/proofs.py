"""Proofs from the stored tree, in O(log n)."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection

from callgate.audit import merkle, note, tiles, tree
from callgate.errors import AuditError, Tampered


class Inclusion(msgspec.Struct, frozen=True):
    """That a record is leaf `leaf` of the tree under `note`."""

    leaf: int
    path: list[bytes]
    note: str


def inclusion(conn: Connection, record: int) -> Inclusion:
    """The proof for one record."""
    head = _head(conn)
    leaf = tree.leaf_of(conn, record, head.size)
    if leaf is None:
        raise AuditError(
            f"record {record} is not in the tree yet", advice="Try again in a second; a running gateway adds it."
        )
    grown = tiles.Tiles(head.size, tiles.reader(conn))
    return Inclusion(leaf, merkle.inclusion(leaf, head.size, grown.node), head.note)


def consistency(conn: Connection, old: note.Checkpoint) -> list[bytes]:
    """The proof that the log still begins with what an earlier checkpoint said; checked before it is returned."""
    head = _head(conn)
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
    grown = tiles.Tiles(head.size, tiles.reader(conn))
    path = merkle.consistency(old.size, new.size, grown.node)
    if not merkle.extends(old.size, new.size, old.root, new.root, path):
        raise Tampered(
            "the log does not begin with what the checkpoint says: it was rewritten",
            advice="Run `callgate audit verify`; compare with a copy made by `callgate store backup`.",
        )
    return path


def _head(conn: Connection) -> tree.Head:
    head = tree.head(conn)
    if head is None:
        raise AuditError("the log is empty", advice="Start a gateway on this store, or name another with --store.")
    return head
