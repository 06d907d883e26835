"""A condition over a call's arguments alone, for labels that depend on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from callgate.errors import ConfigError
from callgate.trust.policy.condition import compile_condition, environment
from callgate.trust.policy.engine import value_of
from callgate.trust.policy.fitting import unfit

_ADVICE = "Put it right, then run `callgate check`."


class Undecided(Exception):
    """The condition has no value for these arguments."""


def predicate(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """The condition as a function, which raises Undecided where it cannot tell; ConfigError where it cannot be read."""
    condition = compile_condition(text, result=False)
    if isinstance(condition, list):
        told = "; ".join(mistake.text for mistake in condition[:3])
        raise ConfigError(f"the condition {text!r} cannot be used: {told}", advice=_ADVICE)
    if others := sorted(condition.reads - {"args"}):
        raise ConfigError(f"the condition {text!r} reads {others[0]}; a label can depend on args only", advice=_ADVICE)

    def holds(args: Mapping[str, Any]) -> bool:
        read = dict(args) if condition.keys is None else {key: args[key] for key in condition.keys if key in args}
        if unfit(read, condition.loops):
            raise Undecided
        value, _ = value_of(condition.program, environment(result=False).Activation(data={"args": read}))
        if value is None:
            raise Undecided
        return value

    return holds
