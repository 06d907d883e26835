"""What goes on record of a decision: one form, for the gateway and for the server library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from callgate.audit.arguments import ArgumentsPolicy
from callgate.audit.records import VERSION, CheckNote, DecisionRecord
from callgate.gate import Answer, Call, Context, Decision, Pass, Refuse


def decision_record(
    call: Call,
    decision: Decision,
    policy: ArgumentsPolicy,
    gateway: str,
    caller: Callable[[Context], dict[str, Any]] | None = None,
) -> DecisionRecord:
    """The record; `caller` tells who asked a person, and who used what the person gave, in their own words."""
    refused, context = decision.refused, call.context
    arguments, args_hash = policy.store(context.server, call.tool, call.arguments, call.canonical)
    # What a broken check answered may be anything; it is refused all the same, and on record.
    facts: dict[str, Any] = {}
    checks: list[CheckNote] = []
    for answer in decision.answers:
        verdict = answer.verdict
        facts.update(getattr(verdict, "facts", {}))
        passed = _PASSED.get(answer.check) if isinstance(verdict, Pass) else None
        checks.append(passed or _note(answer))
    return DecisionRecord(
        v=VERSION,
        call=call.id,
        at=call.at,
        gateway=gateway,
        server=context.server,
        session=context.session,
        transport=context.transport,
        protocol=context.protocol,
        caller=caller(context) if caller is not None and (context.caller is not None or "approval" in facts) else None,
        tool=call.tool,
        arguments=arguments,
        args_hash=args_hash,
        verdict="allow" if refused is None else "refuse",
        reason=None if refused is None else refused.reason.value,
        detail=None if refused is None else refused.message,
        checks=tuple(checks),
        extra=facts or None,
    )


_PASSED: Final = {check: CheckNote(check, "pass") for check in ("agents", "pinning", "trust", "approval")}


def _note(answer: Answer) -> CheckNote:
    verdict = answer.verdict
    if isinstance(verdict, Pass):
        return CheckNote(answer.check, "pass")
    if isinstance(verdict, Refuse):
        return CheckNote(answer.check, "refuse", verdict.reason.value, verdict.detail or None)
    return CheckNote(answer.check, "ask", None, getattr(verdict, "why", "no verdict"))
