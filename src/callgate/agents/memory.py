"""A shelf in process memory, for tests and for libraries without a store: nothing outlives the process.

Nonces and budgets count in this process only; several need a store.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from callgate.agents import buckets, keeping
from callgate.agents.model import ApiKey
from callgate.agents.storage import Budget, Fetched, Listed, Take
from callgate.errors import Reason, Refused

# What a call sweeps out beside its own work: more than it adds, so that nothing piles up and nobody waits.
_SWEEP = 2


class MemoryNonces:
    """Nonces of one process."""

    def __init__(self, most: int = keeping.NONCES) -> None:
        self._most = most
        self._known: dict[bytes, int] = {}
        self._ends: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self._known)

    def take(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        if expires_at < now:
            return False
        self.sweep(now, _SWEEP)
        digest = keeping.digest(scope, nonce)
        if self._known.get(digest, -1) >= now:
            return False
        if len(self._known) >= self._most:
            raise Refused(Reason.OVERLOADED, "too many requests were signed of late to know all of them apart")
        self._known[digest] = expires_at
        heapq.heappush(self._ends, (expires_at, digest))
        return True

    def sweep(self, now: int, most: int | None = None) -> int:
        """Forget some whose time is over; how many."""
        gone = 0
        while self._ends and self._ends[0][0] + keeping.GRACE_MS < now and gone != most:
            expires_at, digest = heapq.heappop(self._ends)
            # It may have been taken again since.
            if self._known.get(digest) == expires_at:
                del self._known[digest]
                gone += 1
        return gone


class MemoryAgents:
    """The whole `AgentShelf` of storage.py, for one event loop."""

    def __init__(self, *, nonces: int = keeping.NONCES, budgets: int = keeping.BUDGETS) -> None:
        self._nonces = MemoryNonces(nonces)
        self._buckets = buckets.Buckets(budgets)
        self._keys: dict[str, ApiKey] = {}
        self._agents: dict[tuple[str, str], Listed] = {}
        self._directories: dict[str, Fetched] = {}
        self._version = 0
        self._flushed = 0
        self._watchers: list[Callable[[], None]] = []

    # -- nonces ------------------------------------------------------------------------------------------------

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        return self._nonces.take(scope, nonce, expires_at, now)

    # -- keys --------------------------------------------------------------------------------------------------

    async def add_key(self, key: ApiKey) -> None:
        keeping.demand_key(key)
        if key.id in self._keys:
            raise keeping.taken(key)
        if len(self._keys) >= keeping.KEYS:
            old = [one for one in self._keys.values() if one.revoked_at is not None]
            if not old:
                raise keeping.full("keys", keeping.KEYS)
            del self._keys[min(old, key=lambda one: (one.revoked_at or 0, one.id)).id]
        self._keys[key.id] = key
        self._changed()

    async def key(self, key_id: str) -> ApiKey | None:
        return self._keys.get(key_id)

    async def keys(self) -> Sequence[ApiKey]:
        return sorted(self._keys.values(), key=lambda one: (one.created_at, one.id))

    async def revoke_key(self, key_id: str, now: int) -> bool:
        key = self._keys.get(key_id)
        after = None if key is None else keeping.revoked(key, now)
        if after is None:
            return False
        self._keys[key_id] = after
        self._changed()
        return True

    # -- agents ------------------------------------------------------------------------------------------------

    async def add_agent(self, listed: Listed) -> None:
        keeping.demand_agent(listed)
        place = listed.directory, listed.thumbprint
        before = self._agents.get(place)
        if before is not None and before.agent != listed.agent:
            raise keeping.listed_twice(before)
        if before is None and len(self._agents) >= keeping.AGENTS:
            raise keeping.full("agents", keeping.AGENTS)
        self._agents[place] = listed
        self._changed()

    async def remove_agent(self, agent: str, thumbprint: str = "") -> int:
        gone = [
            place
            for place, listed in self._agents.items()
            if listed.agent == agent and (not thumbprint or listed.thumbprint == thumbprint)
        ]
        for place in gone:
            del self._agents[place]
        if gone:
            self._changed()
        return len(gone)

    async def agents(self) -> Sequence[Listed]:
        return sorted(self._agents.values(), key=lambda one: (one.agent, one.directory, one.thumbprint))

    # -- directories -------------------------------------------------------------------------------------------

    async def directory(self, url: str) -> Fetched | None:
        return self._directories.get(url)

    async def keep_directory(self, fetched: Fetched) -> bool:
        keeping.demand_directory(fetched)
        if fetched.version < self._flushed:
            return False
        self._directories[fetched.url] = keeping.merged(self._directories.get(fetched.url), fetched)
        while len(self._directories) > keeping.DIRECTORIES or self._size() > keeping.MEMORY_BYTES:
            others = [one for one in self._directories.values() if one.url != fetched.url]
            least = min(others, key=lambda one: (*keeping.worth(one), keeping.digest(one.url)))
            del self._directories[least.url]
        return True

    def _size(self) -> int:
        return sum(len(one.body) for one in self._directories.values())

    async def flush_directory(self, url: str | None, now: int) -> int:  # noqa: ARG002
        gone = len(self._directories) if url is None else int(url in self._directories)
        if url is None:
            self._directories.clear()
        else:
            self._directories.pop(url, None)
        self._changed()
        self._flushed = self._version
        return gone

    async def directories_version(self) -> int:
        return self._version

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._watchers.append(changed)

        def end() -> None:
            if changed in self._watchers:
                self._watchers.remove(changed)

        return end

    def _changed(self) -> None:
        self._version += 1
        for changed in list(self._watchers):
            changed()

    # -- budgets -----------------------------------------------------------------------------------------------

    async def spend(self, bucket: str, cost: float, per_ms: float, burst: float, now: int) -> tuple[bool, float]:
        (budget,) = await self.spend_all([Take(bucket, per_ms, burst, cost)], now)
        return budget.ok, budget.wait_ms

    async def spend_all(self, takes: Sequence[Take], now: int) -> Sequence[Budget]:
        return self._buckets.spend(buckets.asked(takes), now)

    # -- the end of things -------------------------------------------------------------------------------------

    async def prune(self, now: int) -> int:
        return self._nonces.sweep(now) + self._buckets.prune(now)
