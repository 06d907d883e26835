"""What this room needs from a store and from a keyring; the store and the keyring know how."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from callgate.audit.records import AuditRow

CHECKPOINT: Final = "checkpoint"
SEAL: Final = "seal"


class TreeHead(msgspec.Struct, frozen=True):
    """How far the tree goes, and the signed note that says so."""

    size: int
    record: int
    root: bytes
    note: str


class Archived(msgspec.Struct, frozen=True):
    """A checkpoint kept from earlier, and where it is filed."""

    size: int
    at: int
    note: str


class Filter(msgspec.Struct, frozen=True):
    """Which calls to show; times in milliseconds."""

    server: str | None = None
    tool: str | None = None
    verdict: str | None = None
    reason: str | None = None
    call: str | None = None
    since: int | None = None
    until: int | None = None
    # Somewhere in the names of server and tool, or in the reason.
    text: str | None = None


class Counted(msgspec.Struct, frozen=True):
    """How many calls of one hour (counted since 1970) to one server ended one way."""

    hour: int
    server: str
    verdict: str
    reason: str
    calls: int


class Tables(Protocol):
    """Everything of the log, inside one transaction: the tree, the records, and the records as calls."""

    # -- the tree --

    def head(self) -> TreeHead | None:
        """The head; None before the first checkpoint."""

    def has_remains(self) -> bool:
        """Whether there is anything of a tree, head or not."""

    def tile(self, level: int, number: int) -> object:
        """The hashes of a tile as they are stored; None if there is none."""

    def tile_count(self) -> int: ...

    def leaf_count(self) -> int: ...

    def record_of(self, leaf: int) -> int | None:
        """The record that is this leaf."""

    def leaves(self, first: int, end: int) -> Generator[tuple[Any, ...]]:
        """For leaves first <= leaf < end, in order: leaf, record, the record's id or None, the columns of its row."""

    def checkpoints(self) -> Iterable[Archived]:
        """The archived checkpoints, smallest first."""

    def last_archived(self) -> int:
        """When the newest archived checkpoint was signed; 0 if there is none."""

    def archived_before(self, before: Archived | None, limit: int) -> Sequence[Archived]:
        """Archived checkpoints before that one, or from the newest on; the newest first."""

    def archived_at(self, size: int, at: int) -> Archived | None: ...

    def put_archived(self, checkpoint: Archived) -> None:
        """Keep a checkpoint with more signatures, in place of the same one with fewer."""

    def take_turn(self) -> bool:
        """Be the only one who changes the tree until the transaction ends; False if someone else is at it."""

    def put_head(self, new: TreeHead) -> None: ...

    def put_leaves(self, after: int, upto: int, size: int, expected: int) -> int:
        """Make the records with after < id <= upto the leaves from `size` on, in id order; how many there were."""

    def put_tiles(self, tiles: Iterable[tuple[int, int, bytes]]) -> None: ...

    def archive(self, checkpoint: Archived) -> None:
        """Keep a checkpoint; the same one twice is kept once."""

    # -- calls, for readers --

    def of_call(self, call: str) -> Sequence[tuple[int, int, bytes]]:
        """id, kind and body of a call's records, in order."""

    def decisions(self, wanted: Filter, limit: int) -> Sequence[tuple[int, bytes]]:
        """id and body of the newest decisions that match, the newest first."""

    def outcomes(self, calls: Sequence[str]) -> Sequence[tuple[int, bytes]]:
        """id and body of these calls' outcomes, in order."""

    def beginning(self, start: str) -> Sequence[str]:
        """Up to two calls that begin like this."""

    def bodies(self, wanted: Filter) -> Generator[tuple[Any, ...]]:
        """id and body of all records of a time, in order."""

    def count(self, wanted: Filter) -> int: ...

    def bounds(self, wanted: Filter) -> tuple[int, int]:
        """The ids that can be of that time: first <= id < end."""

    def between(
        self, wanted: Filter, first: int, end: int, *, limit: int, oldest: bool = False
    ) -> Sequence[tuple[int, bytes]]:
        """id and body of decisions that match with first <= id < end, the newest first unless `oldest`."""

    def time_near(self, record: int) -> int | None:
        """When the first record from this id on was made."""

    def hours(self, first: int, end: int) -> Sequence[Counted]:
        """The decisions with first <= id < end, counted; reads every one of them."""

    def failures(self, outcomes: Sequence[str], first: int, limit: int) -> Sequence[tuple[int, bytes]]:
        """id and body of the newest outcomes from this id on that ended like one of these."""

    def decided(self, calls: Sequence[str]) -> Sequence[tuple[int, bytes]]:
        """id and body of these calls' decisions, in order."""

    # -- records --

    @property
    def dense(self) -> bool:
        """Whether ids follow each other without gaps, so that a gap is a removed record."""

    def newest(self) -> int:
        """The largest id that is committed; smaller ones may still be on their way. 0 if there is none."""

    def last_id(self) -> int | None:
        """The last id ever used, where the database remembers it."""

    def sealed(self, after: int, upto: int, limit: int) -> Generator[tuple[Any, ...]]:
        """id, body and seal of the records with after < id <= upto, in order."""

    def last_seals(self, limit: int) -> list[object]:
        """The seals of the newest records as they are stored, the newest first."""

    def rows(self, after: int) -> Generator[tuple[Any, ...]]:
        """id and the columns of every record after that id, in order."""

    def admin_rows(self, action: str) -> Sequence[tuple[Any, ...]]:
        """id and columns of every record that says it is an operator's, or that action."""

    def count_upto(self, record: int) -> int: ...

    def unmapped(self, upto: int) -> int | None:
        """The first record up to that id which is no leaf."""

    def oldest(self) -> int | None: ...

    def first_since(self, at: int) -> int | None:
        """The first record in id order that is not older than that time."""

    def last_before(self, record: int) -> int | None: ...

    def insert(self, row: AuditRow) -> None: ...

    def remove(self, first: int, last: int) -> int:
        """Remove records by id; how many there were."""


class Consumable(Protocol):
    """What is used up in the transaction of a row, before it is written: a nonce, a budget.

    `write` takes the driver's connection and all items of its kind, and returns what became of each, in their order;
    `holds` says from that whether there was something left.
    """

    @property
    def write(self) -> Callable[[Any, Sequence[Any]], Sequence[Any]]: ...

    @property
    def item(self) -> Any: ...

    @property
    def holds(self) -> Callable[[Any], bool]: ...


class Storage(Protocol):
    """A store that holds a log."""

    @property
    def place(self) -> str:
        """Where it is, without anything secret; empty where nothing of it outlives the process."""

    @property
    def failing(self) -> str | None:
        """Why the last batch of writes could not be written; None if it was."""

    async def append(self, row: AuditRow | None, uses: tuple[Consumable, ...] = ()) -> list[Any]:
        """Write a row, durable when this returns, with what it uses up; what became of each use. The row is written
        only where all of it was there."""

    def append_soon(self, row: AuditRow) -> None: ...

    def flush(self) -> bool: ...

    def audit_reading(self) -> AbstractContextManager[Tables]:
        """The log in one consistent view."""

    def audit_writing(self) -> AbstractContextManager[Tables]:
        """The log in a write transaction."""

    def settled(self) -> int:
        """The newest record id, where no smaller one can appear any more."""


class LogKey(Protocol):
    """One version of a key."""

    @property
    def version(self) -> int: ...

    @property
    def source(self) -> str: ...

    @property
    def secret(self) -> bytes: ...

    @property
    def public(self) -> bytes: ...

    def signer(self) -> Ed25519PrivateKey: ...


class LogKeys(Protocol):
    """The keys of the log."""

    @property
    def directory(self) -> Path | None: ...

    def names(self) -> list[str]: ...

    def current(self, name: str) -> LogKey: ...

    def make(self, *names: str) -> None:
        """Make those of these keys that there are none of yet."""

    def require(self, *names: str) -> None:
        """Refuse to go on without these keys."""

    def versions(self, name: str) -> Sequence[LogKey]: ...

    def public_keys(self) -> list[bytes]: ...
