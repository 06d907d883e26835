"""Old decisions under new rules: what the log remembers of a call, decided again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from callgate.trust.policy.engine import Policy, Ruling
from callgate.trust.policy.facts import Facts

NOT_WHOLE: Final = "are not whole on record"
KEEP: Final = 'With `arguments = "whole"` under [audit] in callgate.toml (`audit.arguments`), those of later calls are.'


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
    """A call that would be decided otherwise; not `sure` where the record does not tell, and the answer is the strict
    one."""

    call: str
    at: int
    server: str
    tool: str
    before: str
    rule_before: str
    after: str
    rule_after: str
    sure: bool


class Then(msgspec.Struct, frozen=True):
    """What the policy said when a call was made, and whether the arguments that rules read are on record."""

    effect: str
    rule: str
    arguments_known: bool

    def sentence(self, now: Ruling) -> str:
        """How that goes with what the rules of now say."""
        if (self.effect, self.rule) == (now.effect, now.rule):
            text = "It was decided so then."
        else:
            by = f" by {self.rule}" if self.rule else ""
            text = f"Then, under the rules of then: {self.effect or 'not on record'}{by}."
        if not self.arguments_known and now.failed:
            text += (
                f" Its arguments {NOT_WHOLE}, so rules that read them count as if they could not be evaluated. {KEEP}"
            )
        return text


class Replayed:
    """The count of calls that would be decided the same, those that would not, and those that the log does not tell."""

    def __init__(self) -> None:
        self.same = 0
        self.without_facts = 0
        self.differing: list[Difference] = []
        self.untold: list[Difference] = []

    def add(self, policy: Policy, decision: Decided) -> None:
        facts = recorded_facts(decision)
        if facts is None:
            self.without_facts += 1
            return
        before, rule = recorded_ruling(decision)
        ruling = policy.decide(facts)
        sure = facts.args is not None or _certain(policy, ruling)
        if sure and ruling.effect == before:
            self.same += 1
            return
        (self.differing if sure else self.untold).append(
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

    @property
    def calls(self) -> int:
        """All that were looked at."""
        return self.same + len(self.differing) + len(self.untold) + self.without_facts

    def summary(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "same": self.same,
            "without_facts": self.without_facts,
            "unsure": len(self.untold),
            "differing": msgspec.to_builtins(self.differing),
            "untold": msgspec.to_builtins(self.untold),
        }

    def sentence(self) -> str:
        """All of it in a line or two."""
        told = self.same + len(self.differing)
        said = [f"{len(self.differing)} of {told} decisions would differ."] if told or not self.calls else []
        if self.untold:
            of = f"{len(self.untold)} of {told + len(self.untold)}"
            said.append(f"{of} cannot be told: rules read their arguments, and those {NOT_WHOLE}. {KEEP}")
        if self.without_facts:
            said.append(f"Recorded without facts, and left out: {self.without_facts}.")
        return " ".join(said)


def _certain(policy: Policy, ruling: Ruling) -> bool:
    """Whether rules that could not be evaluated make no difference: another one has the same effect, whatever they say,
    and none of them would have switched it off."""
    failed = {one.rule for one in ruling.failed}
    if any(rule.override for rule in policy.rules if rule.name in failed):
        return False
    return not failed or any(not one.error and one.effect == ruling.effect for one in ruling.matched)


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


def recorded_then(decision: Decided, facts: Facts) -> Then:
    """The ruling of then, beside the facts that the record of it has."""
    return Then(*recorded_ruling(decision), facts.args is not None)
