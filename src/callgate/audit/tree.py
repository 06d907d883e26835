"""The head of the tree in the store, its leaves, and its archived checkpoints."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, text

from callgate.store.schema import audit_checkpoint, audit_leaf, audit_record, audit_tile, audit_tree


class Head(msgspec.Struct, frozen=True):
    """The one row of `audit_tree`: how far the tree goes and the signed note that says so."""

    size: int
    record: int
    root: bytes
    note: str


def head(conn: Connection) -> Head | None:
    """The stored head; None before the first checkpoint."""
    row = conn.execute(select(audit_tree).where(audit_tree.c.id == 1)).first()
    return None if row is None else Head(row.size, row.record, bytes(row.root), row.note)


def has_remains(conn: Connection) -> bool:
    """Whether a tree was here although its head is gone."""
    tables = (audit_leaf, audit_tile, audit_checkpoint)
    return any(conn.execute(select(table).limit(1)).first() is not None for table in tables)


def newest_record(conn: Connection) -> int:
    """The largest record id that is committed; smaller ones may still be on their way."""
    return int(conn.execute(select(func.coalesce(func.max(audit_record.c.id), 0))).scalar_one())


def put_head(conn: Connection, new: Head) -> None:
    conn.execute(delete(audit_tree))
    conn.execute(insert(audit_tree).values(id=1, size=new.size, record=new.record, root=new.root, note=new.note))


def put_leaves(conn: Connection, after: int, upto: int, size: int, expected: int) -> int:
    """Make the records with after < id <= upto the next leaves, in id order; how many there were."""
    count = upto - after
    numbered = "SELECT :size - 1 + row_number() OVER (ORDER BY id), id"
    # Without gaps in the ids, which is nearly always, counting is adding.
    plain = "SELECT id + :size - 1 - :after, id"
    done = conn.execute(
        text(
            f"INSERT INTO audit_leaf (leaf, record) {plain if count == expected else numbered}"
            " FROM audit_record WHERE id > :after AND id <= :upto ORDER BY id"
        ),
        {"size": size, "after": after, "upto": upto},
    )
    return done.rowcount


def archive(conn: Connection, size: int, at: int, note: str) -> None:
    """Keep a checkpoint; the same one twice is kept once."""
    same = (audit_checkpoint.c.size == size) & (audit_checkpoint.c.at == at)
    if conn.execute(select(audit_checkpoint.c.size).where(same)).first() is None:
        conn.execute(insert(audit_checkpoint).values(size=size, at=at, note=note))


def last_archived(conn: Connection) -> int:
    """When the newest archived checkpoint was signed; 0 if there is none."""
    return int(conn.execute(select(func.coalesce(func.max(audit_checkpoint.c.at), 0))).scalar_one())


def leaf_of(conn: Connection, record: int, size: int) -> int | None:
    """The leaf of a record, None if it is not in the tree; O(log n), because both grow together."""
    low, high = 0, min(size, record)
    # Without gaps in the ids, record n is leaf n - 1: look there first.
    guess = record - 1
    while low < high:
        middle = guess if low <= guess < high else (low + high) // 2
        found = conn.execute(select(audit_leaf.c.record).where(audit_leaf.c.leaf == middle)).scalar()
        if found == record:
            return middle
        if found is None:
            return None
        low, high = (middle + 1, high) if found < record else (low, middle)
        guess = -1
    return None
