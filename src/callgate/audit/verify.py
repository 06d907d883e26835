"""Verification of a whole log: nothing stored is believed, everything is recomputed or checked against a key.

Streams the records once; memory does not grow with the log (but for the archived checkpoints' roots).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from callgate.audit import log, note, records
from callgate.audit.log import Sealer
from callgate.audit.merkle import EMPTY_ROOT, HASH, complete, leaf_hash
from callgate.audit.proofs import HEIGHT, WIDTH, Tiles, leaf_of, levels, width
from callgate.audit.records import COLUMNS, AuditRow
from callgate.audit.storage import LogKeys, Storage, Tables, TreeHead
from callgate.errors import Tampered

Progress = Callable[[int, int], None]


class VerifyReport(msgspec.Struct, frozen=True):
    """What a successful verification has looked at."""

    origin: str
    size: int
    records: int
    removed: int
    pending: int
    checkpoints: int
    signed_at: int
    key: str


def verify(
    store: Storage,
    keyring: LogKeys,
    *,
    earlier: Sequence[str] = (),
    progress: Progress = lambda _done, _total: None,
) -> VerifyReport:
    """Check the whole log; raises `Tampered` naming the first bad record.

    `earlier` are checkpoints noted outside the store; the log must contain what they say.
    """
    with store.audit_reading() as tables:
        try:
            return _Verification(tables, keyring, progress).run(earlier)
        except (TypeError, ValueError, AttributeError) as error:
            # SQLite keeps any kind of value in any column; ours were of the right kind.
            raise Tampered(f"the store holds a value of the wrong kind: {error}", advice=_RESTORE) from error


class _Verification:
    """One pass over one consistent view of the store."""

    def __init__(self, tables: Tables, keyring: LogKeys, progress: Progress) -> None:
        self._tables = tables
        self._public = keyring.public_keys()
        self._sealer = Sealer(keyring)
        self._progress = progress
        self._present = self._removed = self._pending = 0

    def run(self, earlier: Sequence[str]) -> VerifyReport:
        head = self._tables.head()
        if head is None:
            return self._without_head(earlier)
        checkpoint, key = note.verify(head.note, self._public)
        if (checkpoint.size, checkpoint.root) != (head.size, head.root):
            raise Tampered("the head of the tree differs from its signed checkpoint")
        roots, archived = self._checkpoints(checkpoint, earlier)
        self._records(head, roots)
        self._leftovers(head)
        return VerifyReport(
            checkpoint.origin,
            head.size,
            self._present,
            self._removed,
            self._pending,
            archived,
            checkpoint.at,
            str(key),
        )

    def _without_head(self, earlier: Sequence[str]) -> VerifyReport:
        if self._tables.has_remains() or earlier:
            raise Tampered("the head of the tree is gone", advice="Restore a copy made by `callgate store backup`.")
        self._leftovers(TreeHead(0, 0, EMPTY_ROOT, ""))
        return VerifyReport("", 0, 0, 0, self._pending, 0, 0, "")

    # -- checkpoints -------------------------------------------------------------------------------------------

    def _checkpoints(self, latest: note.Checkpoint, earlier: Sequence[str]) -> tuple[dict[int, bytes], int]:
        """The root each signed checkpoint claims, by size; every signature checked."""
        roots = {latest.size: latest.root, 0: EMPTY_ROOT}
        count = 0
        for row in self._tables.checkpoints():
            old, _ = note.verify(row.note, self._public)
            if (old.size, old.at) != (row.size, row.at):
                raise Tampered(f"the archived checkpoint of size {row.size} is filed under the wrong size or time")
            self._claim(roots, latest, old, "an archived checkpoint")
            count += 1
        for signed in earlier:
            old, _ = note.verify(signed, self._public)
            self._claim(roots, latest, old, "a checkpoint noted earlier")
        return roots, count

    def _claim(self, roots: dict[int, bytes], latest: note.Checkpoint, old: note.Checkpoint, what: str) -> None:
        if old.origin != latest.origin:
            raise Tampered(
                f"{what} is of another log ({old.origin}, this one is {latest.origin})",
                advice="If you gave this checkpoint, give one of this log. If not, the log was replaced: "
                "find out who did it. If you did, type `callgate audit accept-restore --why REASON`.",
            )
        if old.size > latest.size:
            raise Tampered(
                f"the log has {latest.size} records in its tree, but {what} had {old.size}: it was cut off",
                advice="Restore the missing records from a copy, or find out who put an older store back.",
            )
        if roots.setdefault(old.size, old.root) != old.root:
            raise Tampered(
                f"{what} of size {old.size} has another root: the log was rewritten",
                advice="Compare with a copy made by `callgate store backup`.",
            )

    # -- records -----------------------------------------------------------------------------------------------

    def _records(self, head: TreeHead, roots: dict[int, bytes]) -> None:
        """Every leaf in order: its place, its record, its hash in the tree, and the roots on the way."""
        removable = self._removable(head)
        stored = _StoredTiles(self._tables, head.size)
        rebuilt = Tiles(0, lambda _level, _number: b"")
        previous, sizes = (0 if self._tables.dense else -1), sorted(roots)
        _check_root(rebuilt, roots)
        for number in range(-(-head.size // WIDTH)):
            # Read before the stream begins: PostgreSQL runs one statement at a time on a connection.
            tile = stored.read(0, number)
            hashes, previous = self._tile(number, tile, previous, removable)
            first, end = rebuilt.size, rebuilt.size + len(hashes)
            for upto in (*sizes[bisect_right(sizes, first) : bisect_left(sizes, end)], end):
                rebuilt.append(hashes[rebuilt.size - first : upto - first])
                _check_root(rebuilt, roots)
            rebuilt.forget()
            self._progress(rebuilt.size, head.size)
        leaves = self._tables.leaf_count()
        if (rebuilt.size, leaves, max(previous, 0)) != (head.size, head.size, head.record):
            raise Tampered(
                f"the tree has {head.size} leaves up to record {head.record}, stored are {leaves} up to {previous}"
            )
        stored.check_upper()

    def _tile(self, number: int, tile: bytes, previous: int, removable: int) -> tuple[list[bytes], int]:
        """The leaf hashes of one tile's records, and the last of these records."""
        first, hashes = number * WIDTH, list[bytes]()
        for row in _until_end(self._tables.leaves(first, first + WIDTH)):
            at = len(hashes)
            if row[0] != first + at or not _follows(previous, row[1], dense=self._tables.dense):
                raise Tampered(
                    f"leaf {first + at} of the tree is missing or out of order (found leaf {row[0]}, record {row[1]})",
                    record=row[1] if isinstance(row[1], int) else None,
                )
            previous = row[1]
            hashes.append(self._leaf(row, tile[at * HASH : (at + 1) * HASH], removable))
        return hashes, previous

    def _leaf(self, row: tuple[Any, ...], in_tree: bytes, removable: int) -> bytes:
        leaf, record, found = row[0], row[1], row[2]
        if found is None:
            if leaf >= removable:
                raise Tampered(f"record {record} was removed", record=record, advice=_RESTORE)
            self._removed += 1
            return in_tree
        stored = AuditRow(*row[3:])
        self._sealed(record, stored)
        self._present += 1
        computed = leaf_hash(stored.body)
        if computed != in_tree:
            raise Tampered(
                f"record {record} ({_who(stored)}) is not the one in the tree", record=record, advice=_RESTORE
            )
        return computed

    def _sealed(self, record: int, stored: AuditRow) -> records.Record:
        """Body against seal, columns against body."""
        body, seal = stored.body, stored.seal
        if not self._sealer.holds(body, seal):
            raise Tampered(
                f"record {record} ({_who(stored)}) was changed: its seal does not hold", record=record, advice=_RESTORE
            )
        try:
            value = records.decode(body)
        except msgspec.MsgspecError as error:
            raise Tampered(f"record {record} cannot be read: {error}", record=record) from None
        expected = records.row(value, body, seal)
        if expected != stored or [type(item) for item in expected] != [type(item) for item in stored]:
            wrong = [name for name, one, two in zip(COLUMNS, expected, stored, strict=True) if one != two]
            raise Tampered(
                f"record {record} ({_who(expected)}): the stored {', '.join(wrong) or 'columns'} "
                "is not what the record says",
                record=record,
                advice=_RESTORE,
            )
        return value

    def _removable(self, head: TreeHead) -> int:
        """Below which leaf bodies may be missing, by the word of a retention record that holds itself."""
        limit = 0
        for row in self._tables.admin_rows(log.PRUNED):
            stored = AuditRow(*row[1:])
            value = self._sealed(row[0], stored)
            if not isinstance(value, records.AdminRecord) or value.action != log.PRUNED:
                continue
            upto = (value.detail or {}).get("to_leaf")
            leaf = leaf_of(self._tables, row[0], head.size)
            # It speaks for what came before it, never for itself or later.
            if isinstance(upto, int) and upto <= (head.size if leaf is None else leaf):
                limit = max(limit, upto)
        return limit

    # -- everything else ---------------------------------------------------------------------------------------

    def _leftovers(self, head: TreeHead) -> None:
        """Records that are not in the tree: only those that wait for it."""
        if self._tables.count_upto(head.record) != self._present:
            stray = self._tables.unmapped(head.record)
            raise Tampered(f"record {stray} was slipped in: no leaf of the tree is its own", record=stray)
        previous = head.record
        for row in _until_end(self._tables.rows(head.record)):
            if not _follows(previous, row[0], dense=self._tables.dense):
                raise Tampered(f"record {previous + 1} was removed before it reached the tree", record=previous + 1)
            self._sealed(row[0], AuditRow(*row[1:]))
            previous = row[0]
            self._pending += 1
        used = self._tables.last_id()
        if used is not None and used != previous:
            raise Tampered(f"record {previous + 1} was removed", record=previous + 1, advice=_RESTORE)


class _StoredTiles:
    """The stored tiles: level 0 is held against the records, each level above against the one below."""

    def __init__(self, tables: Tables, size: int) -> None:
        self._tables = tables
        self._size = size

    def read(self, level: int, number: int) -> bytes:
        hashes = self._tables.tile(level, number)
        if not isinstance(hashes, bytes) or len(hashes) != HASH * width(self._size, level, number):
            raise Tampered(f"tile {level}/{number} of the tree is missing or has the wrong size")
        return hashes

    def check_upper(self) -> None:
        """Every tile above level 0 against the tiles below it, and no tile too many."""
        expected = 0
        for level in range(levels(self._size)):
            entries = self._size >> (HEIGHT * level)
            expected += -(-entries // WIDTH)
            for number in range(-(-entries // WIDTH) if level else 0):
                hashes = self.read(level, number)
                first = number * WIDTH
                below = [complete(self.read(level - 1, first + at)) for at in range(len(hashes) // HASH)]
                if b"".join(below) != hashes:
                    raise Tampered(f"tile {level}/{number} of the tree does not fit the tiles below it")
        count = self._tables.tile_count()
        if count != expected:
            raise Tampered(f"the tree has {count} tiles, its size needs {expected}")


_RESTORE: Final = "Compare with a copy made by `callgate store backup`, or with the call's receipt."


def _until_end(rows: Generator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    with closing(rows):
        yield from rows


def _check_root(rebuilt: Tiles, roots: dict[int, bytes]) -> None:
    expected = roots.get(rebuilt.size)
    if expected is not None and rebuilt.root() != expected:
        raise Tampered(f"the first {rebuilt.size} records do not give the root that was signed for them")


def _follows(previous: int, record: object, *, dense: bool) -> bool:
    if not isinstance(record, int):
        return False
    return record == previous + 1 if dense else record > previous


def _who(stored: AuditRow) -> str:
    return f"call {stored.call}" if stored.call else "an operator's"
