"""Old decisions under new rules: what the log remembers of a call, decided again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from callgate.audit import DecisionRecord
    from callgate.trust.policy import Facts, Policy


class Difference(msgspec.Struct, frozen=True):
    """A call that would be decided otherwise; `sure` unless a rule could not be told from the record."""

    call: str
    at: int
    server: str
    tool: str
    before: str
    rule_before: str
    after: str
    rule_after: str
    sure: bool


class Replayed:
    """The count of calls that would be decided the same, and those that would not."""

    def __init__(self) -> None:
        self.same = 0
        self.without_facts = 0
        self.unsure = 0
        self.differing: list[Difference] = []

    def add(self, policy: Policy, decision: DecisionRecord) -> None:
        facts = recorded_facts(decision)
        if facts is None:
            self.without_facts += 1
            return
        trust = (decision.extra or {}).get("trust", {})
        before, rule = str(trust.get("effect", "")), str(trust.get("rule", ""))
        ruling = policy.decide(facts)
        sure = not (facts.args is None and ruling.failed)
        self.unsure += not sure
        if ruling.effect == before:
            self.same += 1
            return
        self.differing.append(
            Difference(
                decision.call,
                decision.at,
                decision.server,
                decision.tool,
                before,
                rule,
                ruling.effect,
                ruling.rule,
                sure,
            )
        )

    def summary(self) -> dict[str, Any]:
        return {
            "calls": self.same + len(self.differing) + self.without_facts,
            "same": self.same,
            "without_facts": self.without_facts,
            "unsure": self.unsure,
            "differing": msgspec.to_builtins(self.differing),
        }

    def sentence(self) -> str:
        """All of it in a line or two."""
        decided = self.same + len(self.differing)
        text = f"{len(self.differing)} of {decided} decisions would differ."
        if self.unsure:
            text += f" Not told by the log, for want of arguments, and so decided strictly: {self.unsure}."
        if self.without_facts:
            text += f" Recorded without facts, and left out: {self.without_facts}."
        return text


def recorded_facts(decision: DecisionRecord) -> Facts | None:
    """The facts that a decision stood on; None where the record has none."""
    from callgate.trust.policy import Facts

    trust = (decision.extra or {}).get("trust")
    whole = decision.arguments.mode == "whole" and isinstance(decision.arguments.value, dict)
    try:
        return Facts.from_record(trust, decision.arguments.value if whole else None)
    except ValueError:
        return None
