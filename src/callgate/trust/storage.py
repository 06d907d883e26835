"""What trust needs of a store. Everything that a decision rests on is there; memory only saves asking again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import msgspec

from callgate.trust.model import Quarantined, Session, SessionLabel, Step


class NewStep(msgspec.Struct, frozen=True):
    """A step before it has its number, with what it adds to its session.

    `adds` is joined to the session's label (union, never less). `objects` are digests of things on a server that were
    written with a stranger's data in them; they stay tainted for every session.
    """

    session: str
    step: Step
    adds: SessionLabel = SessionLabel()
    objects: tuple[str, ...] = ()
    # Digests of values that a person endorsed with this call.
    endorsed: tuple[str, ...] = ()


class TrustShelf(Protocol):
    """Sessions, their steps, tainted objects and quarantined results. Times are milliseconds."""

    async def open(self, key: str, agent: str, now: int, idle_ms: int) -> Session:
        """The session of that key, made where there is none. One that was idle for longer starts afresh, under the
        same key, and what was remembered of the old one is dropped; `idle_ms` 0 never does."""

    def peek(self, key: str) -> int | None:
        """The version that the store has now, without waiting; None where that cannot be told at once (ask `version`)
        and 0 where there is no such session."""

    def at_hand(self, key: str, known: int) -> int | None:
        """The same where it is known without a look: nobody but this process has written since it was learnt, and
        nobody but this process has written to the session since its version `known`. It may be that of a step that is
        being written just now."""

    async def version(self, key: str) -> int:
        """The same as `peek`, waiting for it; 0 where there is no such session."""

    async def session(self, key: str) -> Session | None: ...

    async def steps(self, key: str, after: int = 0, limit: int = 1000) -> Sequence[Step]:
        """Steps with a larger number than `after`, oldest first; the newest `limit` of them."""

    async def endorsed(self, key: str) -> frozenset[str]:
        """Digests of the values that a person endorsed in this session."""

    async def add(self, new: NewStep, *, keep: int, expires_at: int) -> Session:
        """Write a step, join its labels to the session's, note its objects: one transaction, durable on return.

        Of a session the memory of the newest `keep` steps is kept; older ones lose their memory, not their label.
        """

    def add_soon(self, new: NewStep, *, keep: int, done: Callable[[Session | None], None]) -> None:
        """The same for a step that nobody waits for: it left nothing in memory, so there is nothing to be forgotten
        after a while. `done` gets the session after it, or None where it was not written."""

    async def landed(self) -> None:
        """Returns when all steps that were added before are in the store, and who added them has been told."""

    async def tainted(self, digests: Collection[str], now: int) -> frozenset[str]:
        """Which of these objects are tainted."""

    async def declassify(
        self, key: str, label: SessionLabel, by: str, note: str, now: int, *, witness: Any = None
    ) -> Session | None:
        """Set a session's label to less than it was, and forget what it remembers of untrusted results.

        `witness` is the audit log's row of it, written in the same transaction.
        """

    async def sessions(self, *, limit: int = 100, before: int | None = None) -> Sequence[Session]:
        """The latest seen first."""

    async def hold(self, held: Quarantined, expires_at: int) -> None: ...

    async def held(self, handle: str) -> Quarantined | None: ...

    async def holding(self, *, limit: int = 100) -> Sequence[Quarantined]: ...

    async def settle(self, handle: str, state: str, by: str, now: int, *, witness: Any = None) -> Quarantined:
        """Release or drop a held result; `Spent` where somebody has decided already."""

    async def prune(self, now: int, *, sessions: int) -> int:
        """Drop what has expired, and the sessions not seen for longest above that many."""
