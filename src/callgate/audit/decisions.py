"""What goes on record of a decision: one form, for the gateway and for the server library."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from callgate.audit import ArgumentsPolicy, CheckNote, DecisionRecord
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
    for answer in decision.answers:
        facts.update(getattr(answer.verdict, "facts", {}))
    return DecisionRecord(
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
        checks=tuple([_note(answer) for answer in decision.answers]),
        extra=facts or None,
    )


@lru_cache(maxsize=16)
def _passed(check: str) -> CheckNote:
    return CheckNote(check, "pass")


def _note(answer: Answer) -> CheckNote:
    verdict = answer.verdict
    if isinstance(verdict, Pass):
        return _passed(answer.check)
    if isinstance(verdict, Refuse):
        return CheckNote(answer.check, "refuse", verdict.reason.value, verdict.detail or None)
    return CheckNote(answer.check, "ask", None, getattr(verdict, "why", "no verdict"))
