"""Removing old record bodies while the tree stays provable.

The leaves and tiles stay, so proofs for other records still work. An admin record in the same log says up to which
leaf bodies may be missing; verification accepts a missing body only below that leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, select, text

from callgate.audit import tree
from callgate.store.front import Store
from callgate.store.rows import AuditRow
from callgate.store.schema import audit_record

ACTION: Final = "audit.prune"
BATCH: Final = 1000


def prune(store: Store, before: int, announce: Callable[[dict[str, Any]], AuditRow]) -> int:
    """Remove the bodies of the oldest integrated records, up to the first one not older than `before` (ms)."""
    with store.reading() as conn:
        found = _range(conn, before)
    if found is None:
        return 0
    first, last, leaf = found
    with store.writing() as conn:
        # Said before it is done: a crash between the two leaves bodies that may go, never a hole without a reason.
        store.insert(conn, announce({"to_leaf": leaf + 1, "last_record": last, "before": before}))
    removed, low = 0, first
    while low <= last:
        high = min(last, low + BATCH - 1)
        with store.writing() as conn:
            done = conn.execute(
                text("DELETE FROM audit_record WHERE id >= :low AND id <= :high"), {"low": low, "high": high}
            )
            removed += done.rowcount
        low = high + 1
    return removed


def _range(conn: Connection, before: int) -> tuple[int, int, int] | None:
    """The first and last record to remove, and the last one's leaf."""
    head = tree.head(conn)
    first = conn.execute(select(audit_record.c.id).order_by(audit_record.c.id).limit(1)).scalar()
    if head is None or first is None:
        return None
    # The log is in time order but for the moment between making a record and writing it, so the old ones come first.
    stop = conn.execute(
        select(audit_record.c.id).where(audit_record.c.at >= before).order_by(audit_record.c.id).limit(1)
    ).scalar()
    bound = head.record + 1 if stop is None else min(stop, head.record + 1)
    last = conn.execute(
        select(audit_record.c.id).where(audit_record.c.id < bound).order_by(audit_record.c.id.desc()).limit(1)
    ).scalar()
    if last is None:
        return None
    leaf = tree.leaf_of(conn, last, head.size)
    return None if leaf is None else (first, last, leaf)
