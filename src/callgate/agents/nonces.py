"""Nonces of one process, without a store: a statement for each would be a tenth of verifying a signature.

And how many nonces are remembered, in any store, for agents that nobody listed.
"""

from __future__ import annotations

import heapq
from threading import Lock
from typing import Final

from callgate.agents import storage
from callgate.canonical import parts_hash
from callgate.errors import Reason, Refused

# What taking one sweeps out beside: more than it adds, so that nothing piles up and nobody waits.
_SWEEP: Final = 2


class MemoryNonces:
    """Which nonces were taken, up to a number of them; any thread may ask. With several processes, use a store."""

    def __init__(self, most: int = storage.NONCES) -> None:
        self._most = most
        self._known: dict[bytes, int] = {}
        self._ends: list[tuple[int, bytes]] = []
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        return self.take(scope, nonce, expires_at, now)

    def take(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        return self.take_digest(parts_hash(scope, nonce), expires_at, now)

    def take_digest(self, digest: bytes, expires_at: int, now: int) -> bool:
        if expires_at < now:
            return False
        with self._lock:
            self._sweep(now, _SWEEP)
            if self._known.get(digest, -1) >= now:
                return False
            if len(self._known) >= self._most:
                raise Refused(Reason.OVERLOADED, "too many requests were signed of late to know all of them apart")
            self._known[digest] = expires_at
            heapq.heappush(self._ends, (expires_at, digest))
            return True

    def sweep(self, now: int) -> int:
        """Forget all whose time is over; how many."""
        with self._lock:
            return self._sweep(now)

    def _sweep(self, now: int, most: int | None = None) -> int:
        gone = 0
        while self._ends and self._ends[0][0] + storage.GRACE_MS < now and gone != most:
            expires_at, digest = heapq.heappop(self._ends)
            # It may have been taken again since.
            if self._known.get(digest) == expires_at:
                del self._known[digest]
                gone += 1
        return gone


# Nonces that one process has remembered for agents that nobody listed: of one directory, and of all together.
DIRECTORY_SHARE: Final = 10_000
STRANGERS_SHARE: Final = 100_000


class StrangersShare:
    """Bounds what strangers can have remembered, so that they cannot fill the store in which listed agents are new."""

    def __init__(self, each: int = DIRECTORY_SHARE, most: int = STRANGERS_SHARE) -> None:
        self._each = each
        self._most = most
        # When each ends: of one directory, and of all. Heaps, so that a refusal costs nothing to speak of.
        self._of: dict[str, list[int]] = {}
        self._ends: list[tuple[int, str]] = []

    def demand(self, directory: str, now: int) -> None:
        """Refuse where there is no room for one more; times are milliseconds."""
        while self._ends and self._ends[0][0] < now:
            _, gone = heapq.heappop(self._ends)
            heapq.heappop(self._of[gone])
            if not self._of[gone]:
                del self._of[gone]
        own = self._of.get(directory, [])
        if len(own) < self._each and len(self._ends) < self._most:
            return
        until = own[0] if len(own) >= self._each else self._ends[0][0]
        wait = max(1, -(-(until - now) // 1000))
        raise Refused(
            Reason.RATE_LIMITED,
            "agents that nobody listed have signed as many requests as are remembered for them",
            advice=f"Try again in {wait} s, or ask the operator to list this agent.",
            data={"retryAfter": wait, "limits": ["strangers"]},
        )

    def add(self, directory: str, until: int) -> None:
        heapq.heappush(self._of.setdefault(directory, []), until)
        heapq.heappush(self._ends, (until, directory))
