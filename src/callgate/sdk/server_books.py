"""What a server with verified approval keeps on record of each call to a gated tool."""

from __future__ import annotations

import logging
import time
from typing import Final

from callgate.approval import Shelf
from callgate.audit import ArgumentsPolicy, AuditLog, CheckNote, DecisionRecord, OutcomeRecord
from callgate.gate import Answer, Call, Decision, Refuse

log = logging.getLogger("callgate.sdk")

_REDACTED: Final = ArgumentsPolicy("redacted", ())


class Books:
    """Decisions and outcomes; without a log, only what a decision uses up is kept."""

    def __init__(self, shelf: Shelf, audit: AuditLog | None, process: str) -> None:
        self._shelf = shelf
        self._audit = audit
        self._process = process

    async def record(self, call: Call, decision: Decision) -> None:
        """Make a decision durable, in one transaction with what it uses up (SEP-2672 §4.8, steps 13 and 14)."""
        record = self._decision(call, decision)
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

    def _decision(self, call: Call, decision: Decision) -> DecisionRecord:
        refused, context = decision.refused, call.context
        arguments, args_hash = _REDACTED.store(context.server, call.tool, call.arguments, call.canonical)
        facts = {k: v for answer in decision.answers for k, v in getattr(answer.verdict, "facts", {}).items()}
        return DecisionRecord(
            call=call.id,
            at=call.at,
            gateway=self._process,
            server=context.server,
            session=context.session,
            transport=context.transport,
            protocol=context.protocol,
            tool=call.tool,
            arguments=arguments,
            args_hash=args_hash,
            verdict="allow" if refused is None else "refuse",
            reason=None if refused is None else refused.reason.value,
            detail=None if refused is None else refused.message,
            checks=tuple(_note(answer) for answer in decision.answers),
            extra=facts or None,
        )


def _note(answer: Answer) -> CheckNote:
    verdict = answer.verdict
    if isinstance(verdict, Refuse):
        return CheckNote(answer.check, "refuse", verdict.reason.value, verdict.detail or None)
    return CheckNote(answer.check, "pass")
