"""Adds new records to the tree, within a second, in id order, and signs a checkpoint.

Any process may do it; the store decides whose result counts. Hashing happens before the lock is taken, on a consistent
view, and the result is kept only if the tree has not moved meanwhile.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

import msgspec

from callgate.audit import note, proofs
from callgate.audit.merkle import EMPTY_ROOT
from callgate.audit.seal import Sealer
from callgate.audit.storage import CHECKPOINT, Archived, LogKeys, Storage, Tables, TreeHead
from callgate.errors import AuditError, KeyringError, StoreError, StoreUnavailable, Tampered

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.5
BATCH: Final = 4096
PASSES: Final = 100_000
# Passes in a row that add nothing, because another gateway adds the records. More than this is no race: where the file
# of a store was replaced, one connection reads the old file and another the new one, and no pass ever adds anything.
IDLE_PASSES: Final = 200
ARCHIVE_MS: Final = 60_000
LOUD_SECONDS: Final = 60.0


class SequencerStep(msgspec.Struct, frozen=True):
    """What one pass did: records added, and whether more wait."""

    added: int
    more: bool


class Sequencer:
    """Integrates records; `run_once` for commands, `start` for a gateway."""

    def __init__(
        self,
        store: Storage,
        keyring: LogKeys,
        sealer: Sealer | None = None,
        *,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        tampered: Callable[[Tampered], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._sealer = sealer or Sealer(keyring)
        self._clock = clock
        self._random = random
        self._tampered = tampered
        self._loud_at = float("-inf")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- one pass ----------------------------------------------------------------------------------------------

    def catch_up(self, *, archive: bool = False) -> int:
        """Integrate everything there is; archive the checkpoint if asked. How many records were added."""
        added = idle = 0
        for _ in range(PASSES):
            step = self.run_once()
            added += step.added
            idle = 0 if step.added else idle + 1
            if not step.more or idle == IDLE_PASSES:
                break
            if not step.added:
                # Someone else is at it.
                self._stop.wait(0.01)
        if archive:
            self._archive_head()
        return added

    def run_once(self) -> SequencerStep:
        """Integrate one batch."""
        with self._store.audit_reading() as tables:
            head, newest = tables.head(), tables.newest()
            if head is None and tables.has_remains():
                raise Tampered(
                    "the head of the tree is gone, its leaves are not", advice="Run `callgate audit verify`."
                )
        if head is None:
            self.found_log()
            return SequencerStep(0, more=True)
        before, rotated = self._trusted(head)
        if newest <= head.record and not rotated:
            return SequencerStep(0, more=False)
        return self._integrate(head, before, self._store.settled(), rotated=rotated)

    def _trusted(self, head: TreeHead) -> tuple[note.Checkpoint, bool]:
        """The checkpoint that the tree is to grow from, and whether a retired key signed it."""
        current = self._keyring.current(CHECKPOINT)
        checkpoint, key = note.verify(head.note, self._keyring.public_keys())
        if (checkpoint.size, checkpoint.root) != (head.size, head.root):
            raise Tampered(
                "the head of the tree differs from its signed checkpoint", advice="Run `callgate audit verify`."
            )
        return checkpoint, key.public != current.public

    def _integrate(self, head: TreeHead, before: note.Checkpoint, upto: int, *, rotated: bool) -> SequencerStep:
        with self._store.audit_reading() as tables:
            if tables.head() != head:
                return SequencerStep(0, more=True)
            last, leaves, bad = self._hash_new(tables, head, upto)
            grown = proofs.Tiles(head.size, tables.tile)
            if grown.root() != before.root:
                # To go on from here would put our signature under what someone else has written.
                raise Tampered("the tiles of the tree do not fit its checkpoint", advice="Run `callgate audit verify`.")
            due = self._now() - tables.last_archived() >= ARCHIVE_MS
        grown.append(leaves)
        if leaves or rotated:
            signed = self._signed(before.origin, grown.size, grown.root(), after=before.at)
            new = TreeHead(grown.size, last, note.parse(signed).root, signed)
            if not self._keep(head, new, grown, due=due, rotated=rotated):
                return SequencerStep(0, more=True)
        if bad is not None:
            raise bad
        return SequencerStep(len(leaves), more=last < upto)

    def _hash_new(self, tables: Tables, head: TreeHead, upto: int) -> tuple[int, list[bytes], Tampered | None]:
        """The leaf hashes of the next records, and where to stop because a seal does not hold."""
        self._sealer.refresh()
        holds, sha256 = self._sealer.holds, hashlib.sha256
        last, leaves = head.record, list[bytes]()
        with closing(tables.sealed(head.record, upto, BATCH)) as rows:
            for record, body, seal in rows:
                if not holds(body, seal):
                    return last, leaves, self._bad(record)
                leaves.append(sha256(b"\x00" + body).digest())
                last = record
        return last, leaves, None

    def _bad(self, record: int) -> Tampered:
        return Tampered(
            f"record {record} was changed before it reached the tree: its seal does not hold",
            record=record,
            advice="Run `callgate audit verify`; nothing after this record is added to the tree.",
        )

    def _keep(self, head: TreeHead, new: TreeHead, grown: proofs.Tiles, *, due: bool, rotated: bool) -> bool:
        """Store the result, unless someone else moved the tree meanwhile."""
        with self._store.audit_writing() as tables:
            if not tables.take_turn() or tables.head() != head:
                return False
            if rotated:
                # The last word of the old key stays on record.
                tables.archive(_archived(head))
            added = new.size - head.size
            if added and tables.put_leaves(head.record, new.record, head.size, added) != added:
                raise Tampered(
                    f"records after {head.record} vanished while they were read",
                    record=head.record + 1,
                    advice="Run `callgate audit verify`.",
                )
            tables.put_tiles(grown.changed())
            tables.put_head(new)
            if due or rotated:
                tables.archive(_archived(new))
        if due or rotated:
            note.note_checkpoint(self._keyring, new.note)
        return True

    def found_log(self) -> None:
        """The empty log: an origin of its own and a signed checkpoint of size 0."""
        origin = f"callgate/{self._random(8).hex()}"
        signed = self._signed(origin, 0, EMPTY_ROOT, after=0)
        head = TreeHead(0, 0, EMPTY_ROOT, signed)
        with self._store.audit_writing() as tables:
            if tables.take_turn() and not tables.has_remains():
                tables.put_head(head)
                tables.archive(_archived(head))

    def _archive_head(self) -> None:
        with self._store.audit_writing() as tables:
            head = tables.head()
            if head is not None:
                tables.archive(_archived(head))
        if head is not None:
            note.note_checkpoint(self._keyring, head.note)

    def _signed(self, origin: str, size: int, root: bytes, *, after: int) -> str:
        at = max(self._now(), after + 1)
        return note.sign(note.Checkpoint(origin, size, root, at), self._keyring.current(CHECKPOINT).signer())

    def _now(self) -> int:
        return int(self._clock() * 1000)

    # -- the thread --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="callgate-sequencer", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 10.0) -> None:
        """Stop, then integrate what is left and archive the last checkpoint."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._attempt(lambda: self.catch_up(archive=True))

    def _run(self) -> None:
        while True:
            # Gateways on one store should not all do the same work at the same moment.
            jitter = self._random(1)[0] / 255
            if self._stop.wait(TICK_SECONDS * (0.5 + jitter)):
                return
            self._attempt(self.catch_up)

    def _attempt(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Tampered as error:
            self._tampered(error)
            if time.monotonic() - self._loud_at >= LOUD_SECONDS:
                self._loud_at = time.monotonic()
                log.critical("THE AUDIT LOG HAS BEEN TAMPERED WITH: %s", error)
        except (StoreUnavailable, KeyringError) as error:
            log.warning("records wait for the tree: %s", error)
        except (StoreError, AuditError):
            log.exception("records wait for the tree")
        except Exception:
            # The thread must outlive what nobody foresaw; records stay durable and wait.
            log.exception("records wait for the tree")


def _archived(head: TreeHead) -> Archived:
    return Archived(head.size, note.parse(head.note).at, head.note)
