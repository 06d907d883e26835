"""Everything on record of one call, and its proof, ready to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from callgate.approval.proof import Proven, check_proof, is_proof
from callgate.approval.webauthn import MalformedResponse, NotVerified
from callgate.audit import records
from callgate.audit.proofs import ProofSteps, climb
from callgate.audit.reading import CallEntry, part
from callgate.audit.records import DECISION, OUTCOME, DecisionRecord, OutcomeRecord
from callgate.audit.storage import Tables
from callgate.canonical import canonical
from callgate.console.rendering import Shown, exact
from callgate.console.tree import Line, tree
from callgate.errors import AuditError, CallgateError, Tampered

_KNOWN: Final = ("trust", "approval", "pin")


class Proof(msgspec.Struct, frozen=True):
    """One record's way to the signed root; `problem` where there is none."""

    name: str
    climb: ProofSteps | None = None
    problem: str = ""
    bad: bool = False


class Account(msgspec.Struct, frozen=True):
    """A call as its page tells it."""

    decision: DecisionRecord
    outcome: OutcomeRecord | None
    record: int
    arguments: list[Line] | None
    raw: Shown
    trust: Mapping[str, Any]
    approval: Mapping[str, Any]
    pin: Mapping[str, Any]
    # What other checks have put on record.
    others: list[Line] | None
    trust_tree: list[Line] | None
    proofs: Sequence[Proof]
    # The passkey's signature, verified again from the record alone; or why it does not hold.
    proven: Proven | None = None
    unproven: str = ""

    @property
    def waits(self) -> bool:
        """Whether a record is not in the tree yet."""
        return any(one.climb is None and not one.bad for one in self.proofs)

    @property
    def holds(self) -> bool:
        return all(one.climb is not None and one.climb.holds for one in self.proofs)


def look(tables: Tables, found: CallEntry, public_keys: list[bytes]) -> Account:
    """The account of a call, in one view of the log."""
    decision = found.decision
    bodies: dict[int, tuple[int, bytes]] = {}
    for number, kind, body in tables.of_call(decision.call):
        bodies.setdefault(kind, (number, body))
    proofs = [
        _proof(tables, name, bodies[kind], public_keys)
        for name, kind in (("decision", DECISION), ("outcome", OUTCOME))
        if kind in bodies
    ]
    extra = decision.extra or {}
    proven, unproven = _proven(decision)
    trust = part(decision, "trust")
    return Account(
        decision=decision,
        outcome=found.outcome,
        record=found.record,
        arguments=_tree(decision.arguments.value),
        raw=exact(msgspec.json.format(records.encode(decision), indent=2)),
        trust=trust,
        approval=part(decision, "approval"),
        pin=part(decision, "pin"),
        others=_tree({name: value for name, value in extra.items() if name not in _KNOWN}),
        trust_tree=_tree({name: value for name, value in trust.items() if name not in ("session", "effect", "rule")}),
        proofs=proofs,
        proven=proven,
        unproven=unproven,
    )


def _proof(tables: Tables, name: str, found: tuple[int, bytes], public_keys: list[bytes]) -> Proof:
    try:
        return Proof(name, climb(tables, *found, public_keys))
    except Tampered as error:
        return Proof(name, problem=str(error), bad=True)
    except AuditError as error:
        return Proof(name, problem=str(error))


def _proven(decision: DecisionRecord) -> tuple[Proven | None, str]:
    facts = part(decision, "approval")
    if decision.verdict != "allow" or not is_proof(facts):
        return None, ""
    whole = decision.arguments.mode == "whole" and isinstance(decision.arguments.value, dict)
    try:
        form = canonical(decision.arguments.value) if whole else None
        return check_proof(facts, decision.tool, form), ""
    except (MalformedResponse, NotVerified, CallgateError) as error:
        return None, str(error)


def _tree(value: object) -> list[Line] | None:
    return tree(msgspec.json.encode(value)) if isinstance(value, dict) and value else None
