"""Keeps the books: decisions and outcomes into the audit log, and what is counted into the metrics."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from callgate.audit import ArgumentsPolicy, AuditLog, DecisionRecord, OutcomeRecord
from callgate.audit.records import VERSION, decision_record
from callgate.errors import CallgateError, Reason, Refused, Spent
from callgate.gate import Call, Decision
from callgate.pipeline.context import agent_of
from callgate.pipeline.dispatcher import CallOutcome
from callgate.telemetry.metrics import NO_REASON, Metrics

log = logging.getLogger("callgate.call")


class SingleUseStore(Protocol):
    """Where what lets a single call through is used up."""

    async def use(self, use: Any, witness: Any = None) -> None: ...


class AuditRecorder:
    """One set of books for each gateway process."""

    def __init__(self, audit: AuditLog, arguments: ArgumentsPolicy, metrics: Metrics, gateway: str) -> None:
        self.arguments = arguments
        # Set where calls may need a person.
        self.shelf: SingleUseStore | None = None
        self._audit = audit
        self._metrics = metrics
        self.gateway = gateway

    async def record(self, call: Call, decision: Decision) -> None:
        """Make a decision durable, in one transaction with what it uses up; raises if that fails."""
        record = decision_record(call, decision, self.arguments, self.gateway, agent_of)
        try:
            # Nearly always nothing is used up.
            if decision.refused is None and any(
                getattr(answer.verdict, "use", None) is not None for answer in decision.answers
            ):
                await self._use(decision.uses, record)
            else:
                await self._audit.decided(record)
        except Spent:
            raise
        except CallgateError:
            self._metrics.audit_append_failures.at().inc()
            raise

    async def _use(self, uses: tuple[Any, ...], record: DecisionRecord) -> None:
        """Consume, counter and record stand or fall together (SEP-2672 §4.8, steps 13 and 14)."""
        if self.shelf is None or len(uses) != 1:
            raise Refused(Reason.AUDIT_UNAVAILABLE, "what lets the call through cannot be used up with its record")
        await self.shelf.use(uses[0], self._audit.row(record))

    def decided(self, call: Call, decision: Decision, seconds: float) -> None:
        refused = decision.refused
        server = call.context.server
        verdict, reason = ("pass", NO_REASON) if refused is None else ("refuse", refused.reason.value)
        self._metrics.calls.series[server, verdict, reason].value += 1
        self._metrics.gate_seconds.series[()].observe(seconds)
        if refused is not None:
            fields = {"call": call.id, "server": server, "tool": call.tool, "reason": refused.reason.value}
            log.warning("call refused", extra={"fields": fields})
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("call allowed", extra={"fields": {"call": call.id, "server": server, "tool": call.tool}})

    def completed(self, call: Call, outcome: CallOutcome) -> None:
        self._metrics.call_seconds.series[call.context.server,].observe(outcome.ms / 1000)
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
