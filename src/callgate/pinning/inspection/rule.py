"""A rule: a small function with an id, a tier, a reason and examples; a module in `rules/` that has one is enough."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from callgate.pinning.inspection.reading import Reading, Text
from callgate.pinning.inspection.subject import Surroundings
from callgate.pinning.inspection.vocabulary import Match

Tier: TypeAlias = Literal["hard", "soft"]


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a rule applies and what it saw there."""

    where: str
    what: str
    span: tuple[int, int] | None = None
    server: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """An example of a rule: a description alone, or a whole entry, and what stands beside it."""

    entry: Mapping[str, Any]
    around: Surroundings = field(default_factory=Surroundings)


def said(text: Text, match: Match, what: str) -> Hit:
    """A hit on words of a text; what they are is put in the braces of the sentence."""
    span = text.span(match)
    return Hit(text.where, what.replace("{}", text.quote(span)), span)


Example: TypeAlias = str | Mapping[str, Any] | Case
Check: TypeAlias = Callable[[Reading], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`bad` are examples that it must find, `good` ones that look alike and that it must leave alone."""

    id: str
    tier: Tier
    why: str
    check: Check
    bad: tuple[Case, ...]
    good: tuple[Case, ...]


_RULES: Final[dict[str, Rule]] = {}


def rule(
    name: str, tier: Tier, *, why: str, bad: Iterable[Example], good: Iterable[Example] = ()
) -> Callable[[Check], Check]:
    """Registers the function below it. `why` is one sentence for the person who reviews the tool."""

    def register(check: Check) -> Check:
        if name in _RULES:
            raise ValueError(f"there are two rules {name}")
        _RULES[name] = Rule(name, tier, why, check, tuple(map(_case, bad)), tuple(map(_case, good)))
        return check

    return register


def _case(example: Example) -> Case:
    if isinstance(example, Case):
        return example
    return Case({"name": "example", "description": example} if isinstance(example, str) else example)


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of every module in `rules/`, by id."""
    from callgate.pinning.inspection import rules

    for module in pkgutil.iter_modules(rules.__path__):
        importlib.import_module(f"{rules.__name__}.{module.name}")
    return tuple(_RULES[name] for name in sorted(_RULES))
