"""The log: its keys and seals, the sequencer that adds records to the tree, and the log as the gate uses it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from callgate.audit import note, proofs
from callgate.audit.merkle import EMPTY_ROOT
from callgate.audit.note import VerifierKey
from callgate.audit.proofs import leaf_of
from callgate.audit.records import (
    VERSION,
    AdminRecord,
    ArgumentsPolicy,
    AuditRow,
    DecisionRecord,
    OutcomeRecord,
    Record,
    decision_record,
    decode,
    encode,
    row,
)
from callgate.audit.storage import CHECKPOINT, SEAL, Archived, LogKeys, Storage, Tables, TreeHead
from callgate.errors import (
    AuditError,
    CallgateError,
    KeyringError,
    Reason,
    Refused,
    Spent,
    StoreError,
    StoreUnavailable,
    Tampered,
)
from callgate.gate import Call, Count, Decision, Headers, Use
from callgate.pipeline.context import agent_of
from callgate.pipeline.dispatcher import CallOutcome

SEAL_BYTES: Final = 36


def _maker(key: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The id of a key and a function that seals with it.

    RFC 2104 with both padded blocks hashed once: half the cost of `hmac.digest` on records of this size.
    """
    key_id = hashlib.sha256(b"callgate seal key\n" + key).digest()[:4]
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block)).copy
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block)).copy

    def seal(body: bytes) -> bytes:
        first = inner()
        first.update(body)
        second = outer()
        second.update(first.digest())
        return key_id + second.digest()

    return key_id, seal


class Sealer:
    """Seals with the current key, checks with every known one."""

    def __init__(self, keyring: LogKeys) -> None:
        self._keyring = keyring
        self._makers: dict[bytes, Callable[[bytes], bytes]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Follow a rotation."""
        current = self._keyring.current(SEAL)
        makers = dict(_maker(key.secret) for key in self._keyring.versions(SEAL))
        self._makers = makers
        self.seal: Callable[[bytes], bytes] = makers[_maker(current.secret)[0]]

    def knows(self, seal: bytes) -> bool:
        """Whether this seal says that it was made with one of the keys."""
        return seal[:4] in self._makers

    def holds(self, body: object, seal: object) -> bool:
        """Whether this seal was made for this body with one of the keys."""
        # SQLite would hand out text or a number if someone had put one there.
        if type(body) is not bytes or type(seal) is not bytes:
            return False
        maker = self._makers.get(seal[:4])
        return maker is not None and hmac.compare_digest(maker(body), seal)


_ATTEMPTS: Final = 250
_PAUSE_SECONDS: Final = 0.02
# So many of the newest seals are looked at: a few that somebody has changed do not make the keys foreign.
_SEALS: Final = 16


def claim(store: Storage, keyring: LogKeys, found: Callable[[], None]) -> None:
    """Make the keys of an empty log and `found` it; otherwise refuse keys that are not this log's."""
    for attempt in range(_ATTEMPTS):
        if attempt > 1:
            time.sleep(_PAUSE_SECONDS)  # someone else is at it
        with store.audit_reading() as tables:
            head, remains, seals = tables.head(), tables.has_remains(), tables.last_seals(_SEALS)
        if seals or remains:
            keyring.require(SEAL)
            _check_seals(keyring, seals)
        else:
            keyring.make(SEAL)
        if remains:
            keyring.require(CHECKPOINT)
            if head is not None:
                _check_head(keyring, head)
            return
        keyring.make(CHECKPOINT)
        # Of several that find the log empty at once, one founds it; then each sees whether its keys are that one's.
        found()
    raise StoreUnavailable("the audit log could not be begun", advice="Run `callgate store check`, then try again.")


def _check_head(keyring: LogKeys, head: TreeHead) -> None:
    try:
        own = note.names_one_of(head.note, keyring.public_keys())
    except Tampered:
        return  # not a matter of keys: the sequencer and `callgate audit verify` say what is wrong with it
    if not own:
        raise _foreign(keyring)


def _check_seals(keyring: LogKeys, seals: list[object]) -> None:
    knows = Sealer(keyring).knows
    whole = [seal for seal in seals if type(seal) is bytes and len(seal) == SEAL_BYTES]
    if whole and not any(knows(seal) for seal in whole):
        raise _foreign(keyring)


def _foreign(keyring: LogKeys) -> KeyringError:
    return KeyringError(
        f"the keys in {keyring.directory or 'the environment'} are not those that this store's log was written with",
        advice="Set store.keys_dir to the folder that belongs to this store, or give its keys as CALLGATE_KEY_SEAL "
        "and CALLGATE_KEY_CHECKPOINT. If they are the right ones, `callgate audit verify` says what was changed.",
    )


def key_rows(ring: LogKeys) -> list[dict[str, Any]]:
    """The newest version of each key first."""
    return [
        {
            "name": name,
            "version": key.version,
            "state": "current" if at == 0 else "retired",
            "source": key.source,
            "fingerprint": VerifierKey(name, key.public).fingerprint if key.public else "-",
        }
        for name in ring.names()
        for at, key in enumerate(ring.versions(name))
    ]


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
        # The head that was last found to continue all before it, and why the one in the store does not.
        self._known: note.Checkpoint | None = None
        self._known_note = ""
        # A head that somebody else has kept, and that this log did not contain.
        self._witnessed: note.Checkpoint | None = None
        self.forked: Tampered | None = None
        # Why nothing can be written, as far as that is known.
        self.unwritable: str | None = None
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
        elif added and self._known is not None:
            note.note_checkpoint(self._keyring, self._known_note)
        return added

    def check_continuation(self) -> None:
        """Hold the head of the tree against the newest one that is known outside the store; `forked` says what came of
        it. A store that was put back verifies by itself, and is no continuation of what was on record."""
        with self._store.audit_reading() as tables:
            head = tables.head()
        if head is None or (head.note == self._known_note and self.forked is None):
            return
        try:
            # Read before the head: whoever notes a head has stored it, so that what is noted is never ahead of it.
            origin = note.parse(head.note).origin
            was = note.noted_log(self._keyring, self._store.place)
            known = note.noted_head(self._keyring, origin) or self._known
            with self._store.audit_reading() as tables:
                head = tables.head()
                if head is None:
                    return
                if was not in (None, origin):
                    raise Tampered(f"this store held the log {was}, which is gone; what it has is {origin}")
                if self._witnessed is not None and self._witnessed.at <= self.restore_accepted(tables):
                    self._witnessed = None
                for earlier in filter(None, (known, self._witnessed)):
                    proofs.consistency(tables, earlier)
            self._remember(head)
            self.forked = None
            # In a folder with keys of another log nothing is written.
            if was is None and note.is_signed(head.note, self._keyring.public_keys()):
                note.note_log(self._keyring, self._store.place, origin)
        except Tampered as error:
            self.forked = Tampered(
                f"the audit log is no continuation of what was on record: {error}", record=error.record, advice=_ACCEPT
            )

    def _remember(self, head: TreeHead) -> None:
        self._known_note, self._known = head.note, note.parse(head.note)

    def accept(self, head: TreeHead) -> None:
        """From now on this head is what the log has to continue."""
        note.note_checkpoint(self._keyring, head.note, back=True)
        note.note_log(self._keyring, self._store.place, note.parse(head.note).origin)
        self._witnessed = None
        self._remember(head)
        self.forked = None

    def learn(self, signed: str) -> None:
        """Take a checkpoint that the log's own key has signed, and that somebody else has kept, as one that the log has
        to continue."""
        note.note_checkpoint(self._keyring, signed)
        self._witnessed, self._known_note = note.parse(signed), ""

    def restore_accepted(self, tables: Tables) -> int:
        """When (ms) an operator last accepted a log that is no continuation; 0 if never."""
        newest = 0
        for found in tables.admin_rows(RESTORED):
            stored = AuditRow(*found[1:])
            # Not by the columns, which anybody who writes to the store can set.
            if self._sealer.holds(stored.body, stored.seal):
                record = decode(stored.body)
                if isinstance(record, AdminRecord) and record.action == RESTORED:
                    newest = max(newest, record.at)
        return newest

    def probe(self) -> None:
        """Find out whether the store can be written."""
        try:
            with self._store.audit_writing() as tables:
                head = tables.head() if tables.take_turn() else None
                if head is not None:
                    tables.put_head(head)
        except StoreError as error:
            self.unwritable = str(error)
        else:
            self.unwritable = None

    def run_once(self) -> SequencerStep:
        """Integrate one batch."""
        self.check_continuation()
        if self.forked is not None:
            raise self.forked
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
        self._remember(new)
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
            if self.unwritable is not None or self._store.failing is not None:
                self.probe()
            self._attempt(self.catch_up)

    def _attempt(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Tampered as error:
            if error is not self.forked:
                self._tampered(error)
            if time.monotonic() - self._loud_at >= LOUD_SECONDS:
                self._loud_at = time.monotonic()
                log.critical("THE AUDIT LOG HAS BEEN TAMPERED WITH: %s %s", error, error.advice)
        except (StoreUnavailable, KeyringError) as error:
            log.warning("records wait for the tree: %s", error)
        except (StoreError, AuditError):
            log.exception("records wait for the tree")
        except Exception:
            # The thread must outlive what nobody foresaw; records stay durable and wait.
            log.exception("records wait for the tree")


_OVERDUE: Final = (
    "`callgate audit witnesses` says what each witness answers. To go on without them, take "
    "audit.cosigned_within_seconds away."
)
_ACCEPT: Final = (
    "If you restored, replaced or deleted the store yourself, type `callgate audit accept-restore --why REASON`. "
    "If not, find out who did, and put a newer copy back with `callgate store restore`."
)


def _archived(head: TreeHead) -> Archived:
    return Archived(head.size, note.parse(head.note).at, head.note)


PRUNED: Final = "audit.prune"
RESTORED: Final = "audit.accept_restore"
PRUNE_BATCH: Final = 1000


def prune_records(store: Storage, before: int, announce: Callable[[dict[str, Any]], AuditRow]) -> int:
    """Remove the bodies of the oldest integrated records, up to the first one not older than `before` (ms)."""
    with store.audit_reading() as tables:
        found = _prunable(tables, before)
    if found is None:
        return 0
    first, last, leaf = found
    with store.audit_writing() as tables:
        # Said before it is done: a crash between the two leaves bodies that may go, never a hole without a reason.
        tables.insert(announce({"to_leaf": leaf + 1, "last_record": last, "before": before}))
    removed = 0
    for low in range(first, last + 1, PRUNE_BATCH):
        with store.audit_writing() as tables:
            removed += tables.remove(low, min(last, low + PRUNE_BATCH - 1))
    return removed


def _prunable(tables: Tables, before: int) -> tuple[int, int, int] | None:
    """The first and last record to remove, and the last one's leaf."""
    head, first = tables.head(), tables.oldest()
    if head is None or first is None:
        return None
    # The log is in time order but for the moment between making a record and writing it, so the old ones come first.
    stop = tables.first_since(before)
    last = tables.last_before(head.record + 1 if stop is None else min(stop, head.record + 1))
    if last is None:
        return None
    leaf = leaf_of(tables, last, head.size)
    return None if leaf is None else (first, last, leaf)


class AuditLog:
    """Writes sealed records; runs the sequencer between `start` and `close`.

    Making one reads the store: it refuses keys that are not the log's, and founds a log where there is none.
    """

    def __init__(
        self,
        store: Storage,
        keyring: LogKeys,
        *,
        retention_days: int = 180,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.keyring = keyring
        self.retention_days = retention_days
        self._clock = clock
        claim(store, keyring, lambda: Sequencer(store, keyring, clock=clock).found_log())
        self._sealer = Sealer(keyring)
        # Shared, so that a rotated key that the sequencer notices is used for new records too.
        self._sequencer = Sequencer(store, keyring, self._sealer, clock=clock, tampered=self.noticed)
        self.dropped = 0
        self.tampered: Tampered | None = None
        # Why no call may pass, where witnesses have to have seen what is on record.
        self._overdue: Callable[[], str | None] | None = None
        self._sequencer.check_continuation()

    async def decided(self, record: DecisionRecord, uses: tuple[Use, ...] = ()) -> Headers:
        """Record a decision in one transaction with what its caller uses up; durable when this returns, refused if it
        cannot be. Headers that say what is left; raises Spent where something was gone, and then nothing is on record.
        """
        try:
            row = self.row(record)
        except Exception as error:
            if uses:
                await self.use_up(uses)
            if isinstance(error, (TypeError, ValueError, RecursionError)):
                # A value that JSON cannot hold: what cannot be recorded does not pass.
                raise Refused(Reason.AUDIT_UNAVAILABLE, f"the call cannot be recorded: {error}") from error
            raise
        try:
            return await self.use_up(uses, row)
        except StoreUnavailable as error:
            raise Refused(Reason.AUDIT_UNAVAILABLE, str(error)) from error

    async def use_up(self, uses: tuple[Use, ...], row: AuditRow | None = None) -> Headers:
        """The same ahead of the decision, in a transaction of its own."""
        found = await self.store.append(row, uses)
        headers: Headers = ()
        for use, result in zip(uses, found, strict=False):
            if not use.holds(result):
                raise use.refusal(result)
            if use.headers is not None:
                headers += use.headers(result)
        if len(found) != len(uses):
            raise Refused(Reason.AUDIT_UNAVAILABLE, "the store did not use up what the call stands on")
        return headers

    def refused(self, record: DecisionRecord) -> bool:
        """Record with the next batch that somebody was refused; whether that can be. They are refused either way."""
        try:
            self.store.append_soon(self.row(record))
        except Exception as error:  # noqa: BLE001 - nobody waits for this, and nothing passes because of it
            log.error("the refusal of call %s is not on record: %s", record.call, error)
            return False
        return True

    def completed(self, record: OutcomeRecord) -> None:
        """Record an outcome with the next batch. The call is over: failure is counted and logged, not raised."""
        try:
            self.store.append_soon(self.row(record))
        except (Refused, StoreUnavailable, TypeError, ValueError) as error:
            self.dropped += 1
            log.error("the outcome of call %s is not on record: %s", record.call, error)

    def noted(self, action: str, by: str, detail: dict[str, Any] | None = None) -> None:
        """Record something that nobody waits for, with the next batch."""
        try:
            self.store.append_soon(self.admin(action, by, detail))
        except (Refused, StoreUnavailable, TypeError, ValueError) as error:
            self.dropped += 1
            log.error("%s is not on record: %s", action, error)

    def row(self, record: Record) -> AuditRow:
        """The sealed row of a record, for a transaction of its own making (`Store.insert`).

        Refused(AUDIT_UNAVAILABLE) where the log is no continuation of what was on record: nothing goes on from there.
        """
        forked = self._sequencer.forked
        if forked is not None:
            raise Refused(Reason.AUDIT_UNAVAILABLE, str(forked), advice=forked.advice)
        if self._overdue is not None and isinstance(record, DecisionRecord) and record.verdict == "allow":
            late = self._overdue()
            if late is not None:
                raise Refused(Reason.AUDIT_UNAVAILABLE, late, advice=_OVERDUE)
        return self._row(record)

    def _row(self, record: Record) -> AuditRow:
        body = encode(record)
        return row(record, body, self._sealer.seal(body))

    def admin(self, action: str, by: str, detail: dict[str, Any] | None = None) -> AuditRow:
        """The row that records what an operator did."""
        return self.row(AdminRecord(at=int(self._clock() * 1000), action=action, by=by, detail=detail))

    @property
    def forked(self) -> Tampered | None:
        """Why the log is no continuation of what was on record; None where it is one."""
        return self._sequencer.forked

    @property
    def unwritable(self) -> str | None:
        """Why nothing can be written, as far as that is known."""
        return self._sequencer.unwritable

    def learn(self, signed: str) -> None:
        """What a witness has kept of this log; raises `Tampered` where the log's key has not signed it."""
        note.verify(signed, self.keyring.public_keys())
        self._sequencer.learn(signed)
        self._sequencer.check_continuation()

    def restore_accepted(self, tables: Tables) -> int:
        """When (ms) an operator last accepted a log that is no continuation; 0 if never."""
        return self._sequencer.restore_accepted(tables)

    def accept_restore(self, by: str, why: str) -> AdminRecord:
        """Go on from a log that is no continuation, by an operator's word, which is the first record of what follows.

        Raises `AuditError` where there is nothing to accept.
        """
        if self.forked is None:
            raise AuditError("this log continues all that is known of it: there is nothing to accept")
        with self.store.audit_reading() as tables:
            head = tables.head()
        assert head is not None
        origin = note.noted_log(self.keyring, self.store.place) or note.parse(head.note).origin
        given_up = note.noted_checkpoint(self.keyring, origin) or ""
        detail = {"why": why, "size": head.size, "root": head.root.hex(), "instead_of": given_up}
        record = AdminRecord(at=int(self._clock() * 1000), action=RESTORED, by=by, detail=detail)
        with self.store.audit_writing() as tables:
            if tables.head() != head:
                raise AuditError("the log has just been changed again", advice="Look what writes to the store.")
            tables.insert(self._row(record))
        self._sequencer.accept(head)
        self.catch_up()
        return record

    def noticed(self, tampering: Tampered) -> None:
        """Keep the first sign of tampering: it stays a fact, even if later records can be added again."""
        self.tampered = self.tampered or tampering

    def configure(self, days: int, overdue: Callable[[], str | None] | None) -> None:
        """Follow a configuration. `overdue` says why no call may pass, where witnesses have to have seen the log."""
        self.retention_days = days
        self._overdue = overdue

    def overdue(self) -> str | None:
        """Why no call may pass, where witnesses have to have seen what is on record."""
        return None if self._overdue is None else self._overdue()

    async def start(self) -> None:
        """Begin to integrate records, starting with what a crash has left over."""
        await asyncio.get_running_loop().run_in_executor(None, self._sequencer.probe)
        self._sequencer.start()

    async def close(self) -> None:
        """Integrate everything, archive the last checkpoint. Close the store after this."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        # What `completed` has queued must be in the store before the last pass.
        self.store.flush()
        self._sequencer.close()

    async def prune(self, by: str = "gateway") -> int:
        """Remove record bodies past their retention; how many. Meant to be called about once an hour."""
        if not self.retention_days:
            return 0
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self.prune_sync, by)
        except CallgateError as error:
            log.warning("old records could not be removed: %s", error)
            return 0

    def prune_sync(self, by: str, days: int | None = None) -> int:
        before = int((self._clock() - (self.retention_days if days is None else days) * 86_400) * 1000)
        return prune_records(self.store, before, lambda detail: self.admin(PRUNED, by, detail))

    def catch_up(self) -> int:
        """Integrate what waits, for a command that wants a proof."""
        return self._sequencer.catch_up()


_calls = logging.getLogger("callgate.call")


class SingleUseStore(Protocol):
    """Where what lets a single call through is used up."""

    async def use(self, use: Any, witness: Any = None) -> None: ...


class Durations(Protocol):
    """How long things took."""

    def observe(self, value: float) -> None: ...


class CallMetrics(msgspec.Struct, frozen=True):
    """What is counted of calls: by server, verdict and reason; by server; and alone."""

    calls: Mapping[tuple[str, ...], Count]
    call_seconds: Mapping[tuple[str, ...], Durations]
    gate_seconds: Durations
    append_failures: Count


class AuditRecorder:
    """Puts decisions and outcomes of calls on record; `single_use` is given where calls may need a person."""

    def __init__(
        self,
        audit: AuditLog,
        arguments: ArgumentsPolicy,
        metrics: CallMetrics,
        *,
        gateway: str,
        single_use: SingleUseStore | None = None,
    ) -> None:
        self._arguments = arguments
        self._single_use = single_use
        self._audit = audit
        self._metrics = metrics
        self._gateway = gateway

    async def record(self, call: Call, decision: Decision) -> Headers:
        """Make a decision durable, in one transaction with what it uses up; raises if that fails."""
        record = decision_record(call, decision, self._arguments, self._gateway, agent_of)
        try:
            # Nearly always nothing is used up.
            if decision.refused is None and any(
                getattr(answer.verdict, "use", None) is not None for answer in decision.answers
            ):
                # What was asked of a person took long: what the caller used up was used up before that.
                headers = await self.use_up(decision.consumes) if decision.consumes else ()
                await self._use(decision.uses, record)
                return headers
            return await self._audit.decided(record, decision.consumes)
        except Spent:
            raise
        except CallgateError:
            self._metrics.append_failures.value += 1
            raise

    async def use_up(self, uses: tuple[Use, ...]) -> Headers:
        """Use up ahead of a decision what a caller uses up by calling."""
        return await self._audit.use_up(uses)

    async def _use(self, uses: tuple[Any, ...], record: DecisionRecord) -> None:
        """Consume, counter and record stand or fall together (SEP-2672 §4.8, steps 13 and 14)."""
        if self._single_use is None or len(uses) != 1:
            raise Refused(Reason.AUDIT_UNAVAILABLE, "what lets the call through cannot be used up with its record")
        row = self._audit.row(record)
        if getattr(uses[0], "counts", False):
            # What is left afterwards is part of the record, and known only inside the transaction.
            await self._single_use.use(uses[0], partial(self._counted, record))
        else:
            await self._single_use.use(uses[0], row)

    def _counted(self, record: DecisionRecord, **known: Any) -> AuditRow:
        extra = dict(record.extra or {})
        extra["approval"] = {**extra.get("approval", {}), **known}
        return self._audit.row(msgspec.structs.replace(record, extra=extra))

    def decided(self, call: Call, decision: Decision, seconds: float) -> None:
        refused = decision.refused
        server = call.context.server
        verdict, reason = ("pass", "none") if refused is None else ("refuse", refused.reason.value)
        self._metrics.calls[server, verdict, reason].value += 1
        self._metrics.gate_seconds.observe(seconds)
        if refused is not None:
            fields = {"call": call.id, "server": server, "tool": call.tool, "reason": refused.reason.value}
            _calls.warning("call refused", extra={"fields": fields})
        elif _calls.isEnabledFor(logging.DEBUG):
            _calls.debug("call allowed", extra={"fields": {"call": call.id, "server": server, "tool": call.tool}})

    def completed(self, call: Call, outcome: CallOutcome) -> None:
        # The call has happened and its decision is on record; an outcome that is missing shows as unknown.
        self._audit.completed(
            OutcomeRecord(
                v=VERSION,
                call=call.id,
                at=outcome.at,
                outcome=outcome.outcome,
                code=outcome.code,
                bytes=outcome.size,
                result_hash=outcome.digest,
                ms=outcome.ms,
            )
        )
        self._metrics.call_seconds[call.context.server,].observe(outcome.ms / 1000)
