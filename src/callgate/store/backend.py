"""What the two databases do differently."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from threading import Event
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from callgate.audit.records import AuditRow
from callgate.errors import ConfigError, StoreUnavailable


class Backend(Protocol):
    """One database behind the store's front."""

    name: str
    engine: Engine
    # Where the store is, without anything secret; empty where nothing of it outlives the process.
    place: str

    def prepare(self, *, create: bool) -> None:
        """Make the place where the store lives, and make it the owner's alone."""

    def lock_schema(self, conn: Connection) -> None:
        """Keep other processes from migrating until this transaction ends."""

    def insert(self, driver: Any, rows: Sequence[AuditRow]) -> None:
        """Write rows in a transaction of their own, durable on return."""

    def confirm(self) -> None:
        """Raise where what was just committed cannot be found by others any more."""

    def begin(self, driver: Any) -> None:
        """Start a write transaction on a connection that has none."""

    def commit(self, driver: Any) -> None:
        """End it, durable on return."""

    def insert_within(self, driver: Any, rows: Sequence[AuditRow]) -> None:
        """Write rows in the transaction that is open."""

    def stream(self, driver: Any, statement: str, parameters: Sequence[Any]) -> Generator[tuple[Any, ...]]:
        """The rows of a SELECT (parameters as `?`), a few at a time in memory."""

    def doubting(self, conn: Connection) -> AbstractContextManager[None]:
        """Read what may have been tampered with: hand out even text that is none."""

    def rollback(self, driver: Any) -> None:
        """End whatever transaction is open."""

    def undone(self) -> None:
        """Told first when a batch is not in the store, or nobody knows whether it is."""

    def outdated(self, error: BaseException) -> bool:
        """Whether a batch rested on what it had at hand, and the store has something else by now: after `undone` it
        reads everything."""

    def unavailable(self, error: BaseException) -> StoreUnavailable | None:
        """The error to report if the cause is the store's state, None if it is the statement itself."""

    def settled(self, conn: Connection) -> int:
        """The newest record id; no smaller one can appear any more. Ends its transaction at once after."""

    def take_turn(self, conn: Connection) -> bool:
        """Be the only one who adds to the tree until this transaction ends; False if someone else is at it."""

    def hold_approvals(self, driver: Any) -> None:
        """Keep other processes from changing anything of verified approval until this transaction ends."""

    def together(self, driver: Any) -> AbstractContextManager[object]:
        """Statements inside travel together; what they return is there at the end of the block."""

    def announce(self, conn: Connection) -> None:
        """Tell other processes, once this transaction commits, that a switch has changed."""

    def watch(self, changed: Callable[[], None], stop: Event) -> None:
        """Call `changed` whenever another connection may have changed something, until `stop`."""


def choose(url: str, *, durability: str, busy_seconds: float) -> Backend:
    """The backend for a store url."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError(
            f"{url!r} is not a store url",
            advice="Write sqlite:///PATH or postgresql://USER@HOST/DATABASE as store.url.",
        ) from None
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        from callgate.store.sqlite import SqliteBackend

        return SqliteBackend(parsed, durability=durability, busy_seconds=busy_seconds)
    if kind in ("postgresql", "postgres"):
        from callgate.store.postgres import PostgresBackend

        return PostgresBackend(parsed, durability=durability, busy_seconds=busy_seconds)
    raise ConfigError(
        f"a store cannot live in {kind!r}", advice="Use sqlite:///PATH or postgresql://USER@HOST/DATABASE."
    )
