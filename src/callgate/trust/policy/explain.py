"""Why: every rule beside the call, whether it held, and the values of the facts that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callgate.trust.policy.engine import Policy, Ruling
from callgate.trust.policy.facts import FACTS, Facts, plain
from callgate.trust.policy.rules import Rule

State: TypeAlias = Literal["holds", "does not hold", "failed", "overridden"]
_ORDER: Final[tuple[State, ...]] = ("holds", "failed", "overridden", "does not hold")
_SHOWN: Final = 120
_LISTED: Final = 20


class Checked(msgspec.Struct, frozen=True):
    """One rule beside one call."""

    rule: str
    effect: str
    state: State
    # Whether this is the rule that the ruling goes by.
    decides: bool
    condition: str
    say: str
    # The facts that it reads, with their values; long ones shortened.
    facts: Mapping[str, Any]
    error: str = ""
    source: str = ""
    line: int = 0


class Explanation(msgspec.Struct, frozen=True):
    """A ruling and how it came about."""

    ruling: Ruling
    rules: tuple[Checked, ...]

    @property
    def told(self) -> list[Checked]:
        """As people are told: the rule that decides, then those that hold, then the others."""
        return sorted(self.rules, key=lambda one: (not one.decides, _ORDER.index(one.state)))


def explain(policy: Policy, facts: Facts) -> Explanation:
    """Every rule on calls beside this one; every rule on results, once the call has one."""
    on = "call" if facts.result is None else "result"
    ruling = policy.decide(facts) if on == "call" else policy.decide_result(facts)
    matched = {one.rule: one for one in ruling.matched}
    checked = []
    for rule in policy.rules:
        if rule.on != on:
            continue
        match = matched.get(rule.name)
        state: State = "does not hold"
        if rule.name in ruling.overridden:
            state = "overridden"
        elif match is not None:
            state = "failed" if match.error else "holds"
        checked.append(
            Checked(
                rule=rule.name,
                effect=rule.effect if match is None else match.effect,
                state=state,
                decides=match is not None and rule.name == ruling.rule,
                condition=" ".join(rule.condition.text.split()),
                say=rule.say,
                facts=read_by(rule, facts),
                error="" if match is None else match.error,
                source=rule.source,
                line=rule.line,
            )
        )
    return Explanation(ruling, tuple(checked))


def read_by(rule: Rule, facts: Facts) -> dict[str, Any]:
    """The facts that a rule reads, as people are shown them."""
    found = {}
    for name in sorted(rule.condition.reads):
        if name == "args":
            found[name] = _arguments(rule, facts)
        else:
            found[name] = shortened(plain(FACTS[name].kind, FACTS[name].get(facts)))
    return found


def _arguments(rule: Rule, facts: Facts) -> Any:
    if facts.args is None:
        return None
    keys = rule.condition.keys
    return shortened({key: value for key, value in facts.args.items() if keys is None or key in keys})


def shortened(value: Any, depth: int = 4) -> Any:
    """A value small enough to be looked at."""
    if isinstance(value, str):
        return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
    if isinstance(value, dict) and depth:
        some = list(value.items())[:_LISTED]
        return {shortened(str(key)): shortened(one, depth - 1) for key, one in some}
    if isinstance(value, list | tuple) and depth:
        return [shortened(one, depth - 1) for one in value[:_LISTED]]
    return "…" if isinstance(value, dict | list | tuple) else value
