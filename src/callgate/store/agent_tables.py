"""The shelf of agents on a store: nonces, budgets, keys, agents, directories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from callgate.agents import buckets, keeping
from callgate.agents.storage import Budget, Take
from callgate.store.agent_budgets import Budgets, Spending
from callgate.store.agent_lists import SqlLists
from callgate.store.agent_nonces import Nonce, Nonces
from callgate.store.front import Store
from callgate.store.trust_sql import Sql

# How many rows one transaction removes: writers wait for no more than that.
_SWEEP: Final = 500


def _sweep(table: str, key: str, condition: str) -> Sql:
    """Deletes some rows at most. On PostgreSQL it never waits for a row, so nobody waits in a circle."""
    some = f"SELECT {key} FROM {table} WHERE {condition} LIMIT ?"  # noqa: S608
    start = f"DELETE FROM {table} WHERE {key} IN ("  # noqa: S608
    return Sql(f"{start}{some})", f"{start}{some} FOR UPDATE SKIP LOCKED)")


_NONCES: Final = _sweep("agent_nonce", "digest", "expires_at < ?")
_FULL: Final = _sweep("agent_budget", "key", "full_at <= ?")
_BUDGET_COUNT: Final = Sql("SELECT count(*) FROM agent_budget")
_FULL_SOONEST: Final = Sql(
    "DELETE FROM agent_budget WHERE key IN (SELECT key FROM agent_budget ORDER BY full_at LIMIT ?)",
    "DELETE FROM agent_budget WHERE key IN"
    " (SELECT key FROM agent_budget ORDER BY full_at LIMIT ? FOR UPDATE SKIP LOCKED)",
)


class SqlAgents(SqlLists):
    """The agents room's `AgentShelf`."""

    def __init__(self, store: Store, *, budgets: int | None = None) -> None:
        super().__init__(store)
        self._most_budgets = budgets
        self._take = Nonces(store.backend).write
        self._spend = Budgets(store.backend).write

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        if expires_at < now:
            return False
        one = Nonce(keeping.digest(scope, nonce), keeping.moment(expires_at), keeping.moment(now))
        new: bool = await self._store.run_together(self._take, one)
        return new

    async def spend(self, bucket: str, cost: float, per_ms: float, burst: float, now: int) -> tuple[bool, float]:
        (budget,) = await self.spend_all([Take(bucket, per_ms, burst, cost)], now)
        return budget.ok, budget.wait_ms

    async def spend_all(self, takes: Sequence[Take], now: int) -> Sequence[Budget]:
        spending = Spending(buckets.asked(takes), now)
        budgets: list[Budget] = await self._store.run_together(self._spend, spending)
        return budgets

    async def prune(self, now: int) -> int:
        return await asyncio.to_thread(self._prune, now)

    def _prune(self, now: int) -> int:
        """For a thread that may wait."""
        gone = self._sweep(_NONCES, now - keeping.GRACE_MS) + self._sweep(_FULL, float(now))
        while True:
            with self._store.writing() as conn:
                spare = min(_SWEEP, _BUDGET_COUNT.all(conn)[0][0] - (self._most_budgets or keeping.BUDGETS))
                done = _FULL_SOONEST.on(conn.connection.driver_connection, spare).rowcount if spare > 0 else 0
            gone += done
            if not done:
                return gone

    def _sweep(self, statement: Sql, until: float) -> int:
        gone, done = 0, _SWEEP
        while done == _SWEEP:
            with self._store.writing() as conn:
                done = statement.on(conn.connection.driver_connection, until, _SWEEP).rowcount
            gone += done
        return gone


__all__ = ["SqlAgents"]
