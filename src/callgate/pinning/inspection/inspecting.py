"""The inspection itself: every rule over one tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from callgate.pinning.inspection.reading import Reading
from callgate.pinning.inspection.rule import Hit, Rule, all_rules
from callgate.pinning.inspection.subject import NOBODY_ELSE, Inspected, Surroundings
from callgate.pinning.model import Finding

# Families of rules that describe how a tool is built, or what it quotes. Many honest tools have such findings: they are
# advice, not suspicion.
ADVISORY: Final = frozenset({"schema", "size", "mention"})
# Of one rule: a hostile tool does not get to fill the reviewer's screen. What is left out is counted.
MOST: Final = 5
# Of one rule about the tools of one other server: each of them may be what two servers are reviewed together for.
_MOST_OF_A_SERVER: Final = 50
# So far it is counted.
_COUNTED: Final = 1_000


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
    shown: dict[str, int] = {}
    for hit in rule.check(reading):
        # Another server's tool is told of once, wherever it is spoken of.
        place = ("" if hit.server else hit.where, hit.server, hit.tool)
        if place in places:
            continue
        places.add(place)
        if len(places) >= _COUNTED and not hit.server:
            break
        already = shown.get(hit.server, 0)
        if already < (_MOST_OF_A_SERVER if hit.server else MOST):
            shown[hit.server] = already + 1
            found.append(_finding(rule, hit))
    if found and (more := len(places) - len(found)):
        at_least = "at least " if len(places) >= _COUNTED else ""
        found[-1] = msgspec.structs.replace(
            found[-1], what=f"{found[-1].what} The same in {at_least}{more:,} more places."
        )
    return found


def _finding(rule: Rule, hit: Hit) -> Finding:
    return Finding(
        rule=rule.id,
        tier=rule.tier,
        where=hit.where,
        what=hit.what,
        why=rule.why,
        span=hit.span,
        server=hit.server,
        tool=hit.tool,
    )
