"""The inspection itself: the rules, and every rule over one tool.

A rule is a small function with an id in `rules/`; `rules.toml` has its tier, its reason and its examples.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from callgate.inspection.data_files import load
from callgate.inspection.model import NO_CONTEXT, InspectionContext, Tier, ToolDefinition, ToolFinding
from callgate.inspection.tool_texts import Text, ToolTexts
from callgate.inspection.words import Match, lexicon

# Families of rules that describe how a tool is built, or what it quotes. Many honest tools have such findings: they are
# advice, not suspicion.
ADVISORY: Final = frozenset({"schema", "size", "mention"})
# Of one rule: a hostile tool does not get to fill the reviewer's screen. What is left out is counted.
MOST_OF_A_RULE: Final = 5
# Of one rule about the tools of one other server: each of them may be what two servers are reviewed together for.
_MOST_OF_A_SERVER: Final = 50
# So far it is counted.
_COUNTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a rule applies and what it saw there."""

    where: str
    what: str
    span: tuple[int, int] | None = None
    server: str = ""
    tool: str = ""


def quoted_hit(text: Text, match: Match, what: str) -> Hit:
    """A hit on words of a text, which are quoted in the braces of the sentence."""
    span = text.span(match)
    return Hit(text.where, what.replace("{}", text.quote(span)), span)


Check: TypeAlias = Callable[[ToolTexts], Iterator[Hit]]
FindWords: TypeAlias = Callable[[Text], Iterable[Match]]


class RuleExample(msgspec.Struct, frozen=True):
    """A tool's definition, and what stands beside it."""

    definition: Mapping[str, Any]
    context: InspectionContext = NO_CONTEXT


class RuleEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as the catalogue has it. `why` is one sentence for the person who reviews the tool."""

    tier: Tier
    why: str
    bad: list[str | dict[str, Any]]
    good: list[str | dict[str, Any]]


@dataclass(frozen=True, slots=True)
class InspectionRule:
    """`bad` are examples that it must find, `good` ones that look alike and that it must leave alone."""

    id: str
    check: Check
    tier: Tier
    why: str
    bad: tuple[RuleExample, ...]
    good: tuple[RuleExample, ...]


def _example(example: str | dict[str, Any]) -> RuleExample:
    """A description alone, one that repeats a text, a whole definition, or one with what stands beside it."""
    if isinstance(example, str):
        return RuleExample({"name": "example", "description": example})
    if "repeat" in example:
        return RuleExample({"name": "example", "description": example["repeat"] * example["times"]})
    if "tool" not in example:
        return RuleExample(example)
    context = {name: value for name, value in example.items() if name != "tool"}
    return RuleExample(example["tool"], msgspec.convert(context, InspectionContext))


_RULES: Final[dict[str, InspectionRule]] = {}


def rule(name: str) -> Callable[[Check], Check]:
    """Registers the function below it as the rule of this name in the catalogue."""

    def register(check: Check) -> Check:
        if name in _RULES:
            raise ValueError(f"there are two rules {name}")
        entry = load("rules", dict[str, RuleEntry])[name]
        bad, good = (tuple(map(_example, listed)) for listed in (entry.bad, entry.good))
        _RULES[name] = InspectionRule(name, check, entry.tier, entry.why, bad, good)
        return check

    return register


def phrase_rule(name: str, what: str) -> Callable[[FindWords], FindWords]:
    """Registers a rule about the words of each text: the function below finds them, `what` quotes them."""

    def register(find: FindWords) -> FindWords:
        rule(name)(lambda tool: (quoted_hit(text, match, what) for text in tool.prose for match in find(text)))
        return find

    return register


@functools.cache
def all_rules() -> tuple[InspectionRule, ...]:
    """Every rule of every module in `rules/`, by id."""
    from callgate.inspection import rules

    # What the rules read with is loaded with them: the first call that is looked at does not wait for it.
    lexicon()
    for module in pkgutil.iter_modules(rules.__path__):
        importlib.import_module(f"{rules.__name__}.{module.name}")
    return tuple(_RULES[name] for name in sorted(_RULES))


def inspect(definition: ToolDefinition, context: InspectionContext = NO_CONTEXT) -> tuple[ToolFinding, ...]:
    """Everything the rules find, hard findings first. No I/O; the same tool always has the same findings."""
    tool = ToolTexts(definition, context)
    found = [finding for rule in all_rules() for finding in _findings(rule, tool)]
    return tuple(sorted(found, key=lambda finding: finding.tier != "hard"))


def suspicious(findings: Iterable[ToolFinding]) -> bool:
    """Whether a tool is flagged: something hard, or something soft that is more than advice on how it is built."""
    return any(finding.tier == "hard" or family(finding.rule) not in ADVISORY for finding in findings)


def family(rule: str) -> str:
    """`unicode` of `unicode.tag-block`."""
    return rule.partition(".")[0]


def _findings(rule: InspectionRule, tool: ToolTexts) -> list[ToolFinding]:
    found: list[ToolFinding] = []
    places: set[tuple[str, str, str]] = set()
    shown: dict[str, int] = {}
    for hit in rule.check(tool):
        # Another server's tool is told of once, wherever it is spoken of.
        place = ("" if hit.server else hit.where, hit.server, hit.tool)
        if place in places:
            continue
        places.add(place)
        if len(places) >= _COUNTED and not hit.server:
            break
        already = shown.get(hit.server, 0)
        if already < (_MOST_OF_A_SERVER if hit.server else MOST_OF_A_RULE):
            shown[hit.server] = already + 1
            found.append(ToolFinding(rule.id, rule.tier, hit.where, hit.what, rule.why, hit.span, hit.server, hit.tool))
    if found and (more := len(places) - len(found)):
        at_least = "at least " if len(places) >= _COUNTED else ""
        found[-1] = msgspec.structs.replace(
            found[-1], what=f"{found[-1].what} The same in {at_least}{more:,} more places."
        )
    return found
