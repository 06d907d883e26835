"""What agents needs of a store. Only the store decides that a nonce is new, right across processes and nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from callgate.agents.model import ApiKey


class Listed(msgspec.Struct, frozen=True):
    """An agent that an operator added: the key of a directory, or a key given whole."""

    agent: str
    thumbprint: str
    # The directory the key counts with; `static` where the key itself is here.
    directory: str
    jwk: bytes = b""
    name: str = ""
    added_at: int = 0
    added_by: str = ""


class Fetched(msgspec.Struct, frozen=True):
    """A directory as it was fetched last, for all processes; `failed_at` is set where the latest try failed.

    `version` is what `directories_version` said before the fetch began: a fetch that a flush overtook is not kept.
    """

    url: str
    body: bytes
    fetched_at: int
    fresh_until: int
    failed_at: int = 0
    version: int = 0


class Take(msgspec.Struct, frozen=True):
    """What is asked of one token bucket: it holds `burst`, and `per_ms` flow back each millisecond."""

    bucket: str
    per_ms: float
    burst: float
    cost: float = 1.0


class Budget(msgspec.Struct, frozen=True):
    """How one token bucket stands after it was asked."""

    ok: bool
    left: float
    # Until there is enough; 0 where there was, endless where the bucket can never hold that much.
    wait_ms: float = 0.0


class DirectoryStore(Protocol):
    """Listed agents and fetched directories. Times are milliseconds."""

    async def agents(self) -> Sequence[Listed]: ...

    async def directory(self, url: str) -> Fetched | None: ...

    async def keep_directory(self, fetched: Fetched) -> bool:
        """Keep what was fetched; False where it was flushed meanwhile, so that it has to be fetched again.

        A failed try (`failed_at`) takes nothing away, and what was fetched later stays.
        """

    async def flush_directory(self, url: str | None, now: int) -> int:
        """Make every process fetch it again before it is believed; None for all."""

    async def directories_version(self) -> int:
        """Grows with every flush and every change of agents or keys, for followers."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed`, on any thread and maybe without need, soon after others changed something; gives its end."""


class AgentShelf(DirectoryStore, Protocol):
    """Nonces, keys, agents, directories and budgets."""

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        """Record a nonce; False where it is there already, or its time is over. One conditional write.

        It is known up to and including `expires_at`, so say the last moment at which its signature would be accepted.
        """

    async def add_key(self, key: ApiKey) -> None:
        """Refused where the id is taken: a key is never replaced."""

    async def key(self, key_id: str) -> ApiKey | None: ...

    async def keys(self) -> Sequence[ApiKey]: ...

    async def revoke_key(self, key_id: str, now: int) -> bool: ...

    async def add_agent(self, listed: Listed) -> None:
        """Listed again, the same agent's key is replaced; a key of another agent is refused."""

    async def remove_agent(self, agent: str, thumbprint: str = "") -> int: ...

    async def spend(self, bucket: str, cost: float, per_ms: float, burst: float, now: int) -> tuple[bool, float]:
        """Take from a token bucket: whether there was enough, and after how many ms there will be (0 if so)."""

    async def spend_all(self, takes: Sequence[Take], now: int) -> Sequence[Budget]:
        """Take from several buckets, or from none where one of them has not enough."""

    async def prune(self, now: int) -> int:
        """Drop what has run out, a few rows at a time, and what is above the bounds; how much it was."""
