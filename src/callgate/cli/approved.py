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
    return decision.verdict if approval_of(decision) is None else f"{decision.verdict} (approved)"


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
    from callgate.store import SqlShelf

    shelf = SqlShelf(store)
    passkey, request = facts.get("credential"), facts.get("request")
    held = await shelf.credential(passkey) if isinstance(passkey, str) else None
    asked = await shelf.request(request) if isinstance(request, str) else None
    return "" if held is None else held.name, None if asked is None else asked.decided_at
