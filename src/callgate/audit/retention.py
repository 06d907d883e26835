"""Removing old record bodies while the tree stays provable.

The leaves and tiles stay, so proofs for other records still work. An admin record in the same log says up to which
leaf bodies may be missing; verification accepts a missing body only below that leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from callgate.audit.proofs import leaf_of
from callgate.audit.rows import AuditRow
from callgate.audit.storage import Storage, Tables

ACTION: Final = "audit.prune"
BATCH: Final = 1000


def prune(store: Storage, before: int, announce: Callable[[dict[str, Any]], AuditRow]) -> int:
    """Remove the bodies of the oldest integrated records, up to the first one not older than `before` (ms)."""
    with store.audit_reading() as tables:
        found = _range(tables, before)
    if found is None:
        return 0
    first, last, leaf = found
    with store.audit_writing() as tables:
        # Said before it is done: a crash between the two leaves bodies that may go, never a hole without a reason.
        tables.insert(announce({"to_leaf": leaf + 1, "last_record": last, "before": before}))
    removed = 0
    for low in range(first, last + 1, BATCH):
        with store.audit_writing() as tables:
            removed += tables.remove(low, min(last, low + BATCH - 1))
    return removed


def _range(tables: Tables, before: int) -> tuple[int, int, int] | None:
    """The first and last record to remove, and the last one's leaf."""
    head, first = tables.head(), tables.oldest()
    if head is None or first is None:
        return None
    # The log is in time order but for the moment between making a record and writing it, so the old ones come first.
    stop = tables.first_since(before)
    last = tables.last_before(head.record + 1 if stop is None else min(stop, head.record + 1))
    if last is None:
        return None
    leaf = leaf_of(tables, last, head.size)
    return None if leaf is None else (first, last, leaf)
