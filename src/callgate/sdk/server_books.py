"""What a server with verified approval keeps on record of each call to a gated tool."""

from __future__ import annotations

import logging
import time
from typing import Final

from callgate.approval import ApprovalRepository
from callgate.audit import ArgumentsPolicy, AuditLog, OutcomeRecord
from callgate.gate import Call, Decision
from callgate.recording import decision_record

log = logging.getLogger("callgate.sdk")

_REDACTED: Final = ArgumentsPolicy("redacted", ())


class Books:
    """Decisions and outcomes; without a log, only what a decision uses up is kept."""

    def __init__(self, shelf: ApprovalRepository, audit: AuditLog | None, process: str) -> None:
        self._shelf = shelf
        self._audit = audit
        self._process = process

    async def record(self, call: Call, decision: Decision) -> None:
        """Make a decision durable, in one transaction with what it uses up (SEP-2672 §4.8, steps 13 and 14)."""
        record = decision_record(call, decision, _REDACTED, self._process)
        for use in decision.uses:
            await self._shelf.use(use, None if self._audit is None else self._audit.row(record))
        if self._audit is not None and not decision.uses:
            await self._audit.decided(record)
        if decision.refused is not None:
            log.warning("call of %s refused: %s", call.tool, decision.refused.reason.value)

    def completed(self, call: Call, outcome: str, seconds: float) -> None:
        """How a call that was let through ended."""
        if self._audit is not None:
            at, ms = round(time.time() * 1000), round(seconds * 1000)
            self._audit.completed(OutcomeRecord(call=call.id, at=at, outcome=outcome, ms=ms))
