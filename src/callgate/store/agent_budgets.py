"""Token buckets as rows: a batch reads each once and writes it once, however often it is asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from callgate.agents.buckets import Asked, spend
from callgate.agents.storage import Budget
from callgate.store.backend import Backend
from callgate.store.sqlite import SqliteBackend

_LOAD: Final = "SELECT full_at FROM agent_budget WHERE key = ?"
_PUT: Final = (
    "INSERT INTO agent_budget (key, full_at) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at"
)
# PostgreSQL: makes the rows that are not there and locks those that are, in one order over all processes. Nothing is
# updated, but what conflicts is locked all the same, so nobody can drop it before it is read.
_LOCK: Final = (
    b"INSERT INTO agent_budget (key, full_at) SELECT k, 0 FROM unnest(%b::bytea[]) AS n(k) ORDER BY k"
    b" ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at WHERE false"
)
_LOAD_ALL: Final = b"SELECT key, full_at FROM agent_budget WHERE key = ANY(%b::bytea[])"
_PUT_ALL: Final = (
    b"UPDATE agent_budget AS b SET full_at = n.f FROM unnest(%b::bytea[], %b::float8[]) AS n(k, f) WHERE b.key = n.k"
)


class Spending(msgspec.Struct, frozen=True):
    """What one caller takes, from all buckets or from none."""

    asked: Asked
    now: int


class Budgets:
    """Writes what a batch takes. The buckets are locked first (SQLite: the file is), so nothing is spent twice."""

    def __init__(self, backend: Backend) -> None:
        self._changes = backend.changes if isinstance(backend, SqliteBackend) else None

    def write(self, driver: Any, spendings: Sequence[Spending]) -> list[list[Budget]]:
        before = self._load(driver, {key for one in spendings for key, _ in one.asked})
        buckets = dict(before)
        changed: dict[bytes, float] = {}
        results = []
        for one in spendings:
            after, budgets = spend(buckets, one.asked, one.now)
            buckets.update(after)
            changed.update(after)
            results.append(budgets)
        self._save(driver, changed)
        # A row that is written as it was is not always written.
        if self._changes is not None and any(before.get(key) != full_at for key, full_at in changed.items()):
            self._changes.wrote()
        return results

    def _load(self, driver: Any, keys: Collection[bytes]) -> dict[bytes, float]:
        if self._changes is not None:
            found = ((key, driver.execute(_LOAD, (key,)).fetchone()) for key in keys)
            return {key: row[0] for key, row in found if row is not None}
        wanted = list(keys)
        driver.execute(_LOCK, (wanted,))
        return {bytes(key): full_at for key, full_at in driver.execute(_LOAD_ALL, (wanted,), binary=True).fetchall()}

    def _save(self, driver: Any, changed: dict[bytes, float]) -> None:
        if not changed:
            return
        if self._changes is not None:
            driver.executemany(_PUT, list(changed.items()))
        else:
            driver.execute(_PUT_ALL, (list(changed), list(changed.values())))
