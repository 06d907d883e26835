"""The log as the gate uses it: a decision is durable before the call leaves, the outcome follows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from callgate.audit.proofs import leaf_of
from callgate.audit.records import AdminRecord, AuditRow, DecisionRecord, OutcomeRecord, Record, encode, row
from callgate.audit.seal import Sealer, claim
from callgate.audit.sequencer import Sequencer
from callgate.audit.storage import LogKeys, Storage, Tables
from callgate.errors import CallgateError, Reason, Refused, StoreUnavailable, Tampered

PRUNED: Final = "audit.prune"
BATCH: Final = 1000


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
    for low in range(first, last + 1, BATCH):
        with store.audit_writing() as tables:
            removed += tables.remove(low, min(last, low + BATCH - 1))
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


log = logging.getLogger(__name__)


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

    async def decided(self, record: DecisionRecord) -> None:
        """Record a decision; durable when this returns, refused if it cannot be."""
        try:
            await self.store.append(self.row(record))
        except StoreUnavailable as error:
            raise Refused(Reason.AUDIT_UNAVAILABLE, str(error)) from error
        except (TypeError, ValueError, RecursionError) as error:
            # A value that JSON cannot hold: what cannot be recorded does not pass.
            raise Refused(Reason.AUDIT_UNAVAILABLE, f"the call cannot be recorded: {error}") from error

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
        except (StoreUnavailable, TypeError, ValueError) as error:
            self.dropped += 1
            log.error("the outcome of call %s is not on record: %s", record.call, error)

    def noted(self, action: str, by: str, detail: dict[str, Any] | None = None) -> None:
        """Record something that nobody waits for, with the next batch."""
        try:
            self.store.append_soon(self.admin(action, by, detail))
        except (StoreUnavailable, TypeError, ValueError) as error:
            self.dropped += 1
            log.error("%s is not on record: %s", action, error)

    def row(self, record: Record) -> AuditRow:
        """The sealed row of a record, for a transaction of its own making (`Store.insert`)."""
        body = encode(record)
        return row(record, body, self._sealer.seal(body))

    def admin(self, action: str, by: str, detail: dict[str, Any] | None = None) -> AuditRow:
        """The row that records what an operator did."""
        return self.row(AdminRecord(at=int(self._clock() * 1000), action=action, by=by, detail=detail))

    def noticed(self, tampering: Tampered) -> None:
        """Keep the first sign of tampering: it stays a fact, even if later records can be added again."""
        self.tampered = self.tampered or tampering

    async def start(self) -> None:
        """Begin to integrate records, starting with what a crash has left over."""
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
