"""The inspection itself: every rule over one tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from callgate.pinning.inspection.reading import Reading
from callgate.pinning.inspection.rule import Rule, all_rules
from callgate.pinning.inspection.subject import NOBODY_ELSE, Inspected, Surroundings
from callgate.pinning.model import Finding

# Families of rules that describe how a tool is built, or what it quotes. Many honest tools have such findings: they are
# advice, not suspicion.
ADVISORY: Final = frozenset({"schema", "size", "mention"})
# Of one rule: a hostile tool does not get to fill the reviewer's screen.
_MOST: Final = 5


def inspect(tool: Inspected, surroundings: Surroundings = NOBODY_ELSE) -> tuple[Finding, ...]:
    """Everything the rules find, hard findings first. No I/O; the same tool always has the same findings."""
    reading = Reading(tool, surroundings)
    found = [finding for rule in all_rules() for finding in _applied(rule, reading)]
    return tuple(sorted(found, key=lambda finding: finding.tier != "hard"))


def suspicious(findings: Iterable[Finding]) -> bool:
    """Whether a tool is flagged: something hard, or something soft that is more than advice on how it is built."""
    return any(finding.tier == "hard" or family(finding.rule) not in ADVISORY for finding in findings)


def family(rule: str) -> str:
    """`unicode` of `unicode.tag-block`."""
    return rule.partition(".")[0]


def _applied(rule: Rule, reading: Reading) -> list[Finding]:
    found: list[Finding] = []
    places: set[tuple[str, str, str]] = set()
    for hit in rule.check(reading):
        place = (hit.where, hit.server, hit.tool)
        if place in places:
            continue
        places.add(place)
        found.append(
            Finding(
                rule=rule.id,
                tier=rule.tier,
                where=hit.where,
                what=hit.what,
                why=rule.why,
                span=hit.span,
                server=hit.server,
                tool=hit.tool,
            )
        )
        if len(found) >= _MOST:
            break
    return found
