"""Old decisions under new rules: what the log remembers of a call, decided again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from callgate.trust.policy.engine import Policy
from callgate.trust.policy.facts import Facts


class Kept(Protocol):
    """A call's arguments, as far as they are on record."""

    @property
    def mode(self) -> str: ...

    @property
    def value(self) -> Any: ...


class Decided(Protocol):
    """What the log has of a decision."""

    @property
    def call(self) -> str: ...

    @property
    def at(self) -> int: ...

    @property
    def server(self) -> str: ...

    @property
    def tool(self) -> str: ...

    @property
    def arguments(self) -> Kept: ...

    @property
    def extra(self) -> Mapping[str, Any] | None: ...


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

    def add(self, policy: Policy, decision: Decided) -> None:
        facts = recorded_facts(decision)
        if facts is None:
            self.without_facts += 1
            return
        before, rule = recorded_ruling(decision)
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


def recorded_facts(decision: Decided) -> Facts | None:
    """The facts that a decision stood on; None where the record has none."""
    trust = (decision.extra or {}).get("trust")
    whole = decision.arguments.mode == "whole" and isinstance(decision.arguments.value, dict)
    try:
        return Facts.from_record(trust, decision.arguments.value if whole else None)
    except ValueError:
        return None


def recorded_ruling(decision: Decided) -> tuple[str, str]:
    """What the policy of then said, and by which rule; empty where it is not on record."""
    trust = (decision.extra or {}).get("trust")
    said = trust if isinstance(trust, Mapping) else {}
    return str(said.get("effect", "")), str(said.get("rule", ""))
