"""What people are told of an approval on record: who, with which passkey, when and where."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from callgate.cli.people import plain
from callgate.cli.when import show_when

if TYPE_CHECKING:
    from callgate.audit import DecisionRecord
    from callgate.store import Store


def approval_of(decision: DecisionRecord) -> dict[str, Any] | None:
    """What is on record of the signature that let a call through; None where there is none."""
    from callgate.approval.proof import is_proof

    facts = (decision.extra or {}).get("approval")
    return facts if decision.verdict == "allow" and is_proof(facts) else None


def shown_verdict(decision: DecisionRecord) -> str:
    if decision.repeated is not None:
        return f"{decision.verdict} ({decision.calls:,} {'call' if decision.calls == 1 else 'calls'})"
    return decision.verdict if approval_of(decision) is None else f"{decision.verdict} (approved)"


def refused_together(decision: DecisionRecord) -> str:
    """What a record of a caller whom nobody knows stands for, in a sentence or two; empty for every other."""
    repeated = decision.repeated
    if repeated is None:
        return "Who called was not verified." if decision.unproven else ""
    many = "1 more call" if repeated.count == 1 else f"{repeated.count:,} more calls"
    tools = f" of {', '.join(map(plain, repeated.tools))}" if repeated.tools else ""
    by = "several callers" if (decision.caller or {}).get("peer") == "several" else "the same caller"
    span = f"between {show_when(repeated.first)} and {show_when(repeated.last)}"
    return f"{many}{tools} by {by}, refused {span}, counted together. Who called was not verified."


def approved_by(decision: DecisionRecord, store: Store) -> str:
    """One line on who approved a call; empty where nobody had to. What the store still knows is put in."""
    facts = approval_of(decision)
    if facts is None:
        return ""
    passkey, at = asyncio.run(_looked_up(facts, store))
    when = show_when(decision.at if at is None else at)
    words = (facts.get("user", "?"), passkey or facts.get("credential", "?"), facts.get("origin", "?"))
    user, key, origin = (plain(str(word)) for word in words)
    return f"approved by {user} with passkey {key} at {when} on {origin}"


async def _looked_up(facts: dict[str, Any], store: Store) -> tuple[str, int | None]:
    """The passkey's name, and when its person signed: on the page that is before the call was let through."""
    from callgate.store import SqlApprovals

    shelf = SqlApprovals(store)
    passkey, request = facts.get("credential"), facts.get("request")
    held = await shelf.credential(passkey) if isinstance(passkey, str) else None
    asked = await shelf.request(request) if isinstance(request, str) else None
    return "" if held is None else held.name, None if asked is None else asked.decided_at
