"""What agents needs of a store. Only the store decides that a nonce is new, right across processes and nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from callgate.agents.model import ApiKey
from callgate.errors import Reason, Refused


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
    # The key of the bucket, where this was checked and the key was made before.
    key: bytes = b""


class BucketState(msgspec.Struct, frozen=True):
    """How one token bucket stands after it was asked."""

    ok: bool
    left: float
    # Until there is enough; 0 where there was, endless where the bucket can never hold that much.
    wait_ms: float = 0.0


class NonceUse(msgspec.Struct, frozen=True, gc=False):
    """A nonce that somebody wants to use, by its digest."""

    digest: bytes
    expires_at: int
    now: int


class NonceStore(Protocol):
    """The part of the store that decides whether a nonce is new."""

    async def take_nonce(self, scope: str, nonce: str, expires_at: int, now: int) -> bool:
        """Record a nonce; False where it is there already, or its time is over. One conditional write.

        It is known up to and including `expires_at`, so say the last moment at which its signature would be accepted.
        """


class UseWriters(Protocol):
    """How a store uses up nonces and budgets in the transaction of a decision: many at once, what became of each."""

    def write_nonces(self, driver: Any, uses: Sequence[NonceUse], /) -> Sequence[bool]:
        """Whether each was new."""

    def write_budgets(
        self, driver: Any, uses: Sequence[tuple[Sequence[tuple[bytes, Take]], int]], /
    ) -> Sequence[Sequence[BucketState]]:
        """How the buckets of each stand, by their keys, at its time."""


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


class AgentRepository(NonceStore, DirectoryStore, UseWriters, Protocol):
    """Nonces, keys, agents, directories and budgets."""

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

    async def spend_all(self, takes: Sequence[Take], now: int) -> Sequence[BucketState]:
        """Take from several buckets, or from none where one of them has not enough."""

    async def prune(self, now: int) -> int:
        """Drop what has run out, a few rows at a time, and what is above the bounds; how much it was."""


# How long a nonce outlives its time before it is swept out: the clock of who sweeps may be ahead of who checks.
GRACE_MS: Final = 300_000
# Rows at most. Of directories and buckets the least useful go, of keys the revoked; agents are an operator's own.
KEYS: Final = 10_000
AGENTS: Final = 10_000
DIRECTORIES: Final = 2_000
BUDGETS: Final = 100_000
# Nonces in the memory of one process; above that nobody is let in, since none of them can be forgotten.
NONCES: Final = 1_000_000

DIRECTORY_BYTES: Final = 512 * 1024
# Of all directories in the memory of one process.
MEMORY_BYTES: Final = 32 * 1024 * 1024
JWK_BYTES: Final = 16 * 1024
CHARS: Final = 2048
DIGEST_BYTES: Final = 64
LATEST: Final = 2**62


def moment(at: int) -> int:
    """A time that every database can hold."""
    return max(0, min(at, LATEST))


def demand_key(key: ApiKey) -> None:
    if not (0 < len(key.id) <= 128 and key.id.isascii() and key.id.isprintable()):
        raise _unfit("the id of a key has 1 to 128 printable ASCII characters")
    if not 0 < len(key.digest) <= DIGEST_BYTES:
        raise _unfit(f"the digest of a key has 1 to {DIGEST_BYTES} bytes")
    _demand_texts(key.agent, key.created_by)
    if not key.agent:
        raise _unfit("a key belongs to an agent")


def demand_agent(listed: Listed) -> None:
    _demand_texts(listed.agent, listed.thumbprint, listed.directory, listed.name, listed.added_by)
    if not listed.agent or not listed.directory:
        raise _unfit("an agent has a name and a directory")
    if len(listed.jwk) > JWK_BYTES:
        raise _unfit(f"a key has at most {JWK_BYTES} bytes")


def demand_directory(fetched: Fetched) -> None:
    _demand_texts(fetched.url)
    if not fetched.url or len(fetched.body) > DIRECTORY_BYTES:
        raise _unfit(f"a directory has an address, and at most {DIRECTORY_BYTES} bytes")


def _demand_texts(*texts: str) -> None:
    for text in texts:
        if len(text) > CHARS:
            raise _unfit(f"a name or address has at most {CHARS} characters")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _unfit("a name or address holds half a character") from None


def _unfit(detail: str) -> Refused:
    return Refused(Reason.INVALID_PARAMS, detail)


def taken(key: ApiKey) -> Refused:
    return _unfit(f"there is a key {key.id} already; a key is never replaced")


def listed_twice(before: Listed) -> Refused:
    return Refused(
        Reason.INVALID_PARAMS,
        f"this key of this directory is agent {before.agent} already",
        advice="Remove that agent first, or give this one a key of its own.",
    )


def full(what: str, most: int) -> Refused:
    return Refused(Reason.INVALID_PARAMS, f"there are {most} {what} already", advice="Remove some that nobody uses.")


def revoked(key: ApiKey, now: int) -> ApiKey | None:
    """The key without its force; None where it has none already."""
    return None if key.revoked_at is not None else replace(key, revoked_at=moment(now))


def merged(before: Fetched | None, fetched: Fetched) -> Fetched:
    """What is kept of a directory once this came in: nothing that failed or is older takes a newer one away."""
    if before is None:
        return fetched
    if fetched.fetched_at < before.fetched_at or (fetched.failed_at and not fetched.body):
        # It failed before the newest was fetched: then that is the latest try.
        return replace(before, failed_at=fetched.failed_at) if fetched.failed_at > _tried(before) else before
    return fetched


def _tried(fetched: Fetched) -> int:
    return max(fetched.fetched_at, fetched.failed_at)


def worth(fetched: Fetched) -> tuple[bool, int]:
    """Sorts first what can go first: what was never fetched, then what nobody tried for longest."""
    return bool(fetched.body), _tried(fetched)
