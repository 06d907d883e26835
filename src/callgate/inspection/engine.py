"""The inspection itself: the rules, and every rule over one tool.

A rule is a small function with an id in `rules/`; `rules.toml` has its tier, its reason and its examples. What a rule
finds by words is kept where the scorer agrees; what the scorer finds by itself are the two rules called `learned`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from callgate.inspection.data_files import load
from callgate.inspection.model import NO_CONTEXT, InspectionContext, Tier, ToolDefinition, ToolFinding
from callgate.inspection.scorer import ScorerFile, Sentence, sentences, weights, word_groups
from callgate.inspection.tool_texts import Text, ToolTexts, names
from callgate.inspection.words import Match, lexicon

# Families of rules that describe how a tool is built, or what it quotes. Many honest tools have such findings: they are
# advice, not suspicion.
ADVISORY: Final = frozenset({"schema", "size", "mention"})
# What rules find of how a tool is built, or of its neighbours, says nothing of a sentence.
_UNSCORED: Final = ("schema.", "size.", "learned.", "lookalike.", "shadowing.", "mention.")
_LEARNED: Final = {
    "learned.attack": "It reads like an attack on the model: {}.",
    "learned.sentence": "It reads like an order to the model, not like a description: {}.",
}
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

    def touches(self, sentence: Sentence) -> bool:
        start, end = self.span or (0, 1)
        return self.where == sentence.text.where and start < sentence.span[1] and sentence.span[0] < end


def quoted_hit(text: Text, match: Match, what: str) -> Hit:
    """A hit on words of a text; the sentence that has them is quoted in the braces."""
    return Hit(text.where, what.replace("{}", text.quote(text.around(match))), text.span(match))


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
    # Whether what it finds is kept only where the scorer agrees.
    takes_consent: bool = False


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
        # Honest texts have the same words.
        consent = entry.tier == "soft" and family(name) in names("worded") and name != "priority.praise"
        _RULES[name] = InspectionRule(name, check, entry.tier, entry.why, bad, good, consent)
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
    """Everything that is found, hard findings first. No I/O; the same tool always has the same findings."""
    tool = ToolTexts(definition, context)
    levels = weights()
    scored = [(one, one.score(levels)) for one in sentences(tool, word_groups())]
    hits = rule_hits(tool, {one.text.where for one, score in scored if score >= levels.near})
    _judge(hits, scored, levels)
    found = [finding for rule in all_rules() if rule.id in hits for finding in _findings(rule, hits[rule.id])]
    return tuple(sorted(found, key=lambda finding: finding.tier != "hard"))


def rule_hits(tool: ToolTexts, near: Container[str]) -> dict[str, list[Hit]]:
    """What rules find. Soft ones about words are asked of the texts that the scorer is not sure of."""
    narrowed = tool.narrowed(near)
    found = ((rule.id, _hits(rule, narrowed if rule.takes_consent else tool)) for rule in all_rules())
    return {name: hits for name, hits in found if hits}


def by_place(hits: Mapping[str, Iterable[Hit]]) -> dict[str, list[tuple[str, Hit]]]:
    """What was found of sentences, by where they stand."""
    found: dict[str, list[tuple[str, Hit]]] = {}
    for name, each in hits.items():
        for hit in each if not name.startswith(_UNSCORED) else ():
            found.setdefault(hit.where, []).append((name, hit))
    return found


def rules_on(sentence: Sentence, found: Mapping[str, Iterable[tuple[str, Hit]]]) -> Iterator[str]:
    """The rules that found something in a sentence."""
    return (name for name, hit in found.get(sentence.text.where, ()) if hit.touches(sentence))


def _judge(hits: dict[str, list[Hit]], scored: Iterable[tuple[Sentence, float]], levels: ScorerFile) -> None:
    """Takes away what the scorer does not agree with, and adds what it found itself."""
    found = by_place(hits)
    telling: dict[str, list[Sentence]] = {}
    above: list[tuple[str, Sentence]] = []
    for sentence, alone in scored:
        score = alone + sum(levels.marks.get(name, 0) for name in rules_on(sentence, found))
        agreed = telling.setdefault(sentence.text.where, [])
        if score >= levels.agrees or sentence.text.kind == "key":
            agreed.append(sentence)
        if score >= levels.soft:
            above.append(("learned.attack" if score >= levels.hard else "learned.sentence", sentence))
    for rule in all_rules():
        if rule.takes_consent and rule.id in hits:
            hits[rule.id] = [
                hit for hit in hits[rule.id] if hit.where not in telling or any(map(hit.touches, telling[hit.where]))
            ]
    found = by_place({name: each for name, each in hits.items() if family(name) in names("worded")})
    for name, sentence in above:
        # A rule that speaks of the sentence says more of why.
        if name == "learned.attack" or not any(rules_on(sentence, found)):
            hits.setdefault(name, []).append(quoted_hit(sentence.text, sentence.match, _LEARNED[name]))


def suspicious(findings: Iterable[ToolFinding]) -> bool:
    """Whether a tool is flagged: something hard, or something soft that is more than advice on how it is built."""
    return any(finding.tier == "hard" or family(finding.rule) not in ADVISORY for finding in findings)


def family(rule: str) -> str:
    """`unicode` of `unicode.tag-block`."""
    return rule.partition(".")[0]


def _hits(rule: InspectionRule, tool: ToolTexts) -> list[Hit]:
    """What a rule finds, each place once; of another server's tool once, wherever it is spoken of."""
    found: dict[tuple[str, str, str], Hit] = {}
    for hit in rule.check(tool):
        found.setdefault(("" if hit.server else hit.where, hit.server, hit.tool), hit)
        if len(found) >= _COUNTED and not hit.server:
            break
    return list(found.values())


def _findings(rule: InspectionRule, hits: list[Hit]) -> list[ToolFinding]:
    found: list[ToolFinding] = []
    shown: dict[str, int] = {}
    for hit in hits:
        already = shown.get(hit.server, 0)
        if already < (_MOST_OF_A_SERVER if hit.server else MOST_OF_A_RULE):
            shown[hit.server] = already + 1
            found.append(ToolFinding(rule.id, rule.tier, hit.where, hit.what, rule.why, hit.span, hit.server, hit.tool))
    if found and (more := len(hits) - len(found)):
        at_least = "at least " if len(hits) >= _COUNTED else ""
        found[-1] = msgspec.structs.replace(
            found[-1], what=f"{found[-1].what} The same in {at_least}{more:,} more places."
        )
    return found


for _name in _LEARNED:
    rule(_name)(lambda _tool: iter(()))
