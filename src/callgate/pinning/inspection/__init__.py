"""What a tool's definition says that a reviewer should know: static, offline, the same every time.

    findings = inspect(Inspected.of(entry), Surroundings(server="mail", others={"files": frozenset({"read_file"})}))

A hard finding blocks approval unless it is overruled; a soft one informs. Of the soft ones, those of the families in
`ADVISORY` describe how a tool is built and fire on many honest tools: `suspicious` leaves them out.
"""

from __future__ import annotations

from callgate.pinning.inspection.inspecting import ADVISORY, family, inspect, suspicious
from callgate.pinning.inspection.rule import Rule, all_rules
from callgate.pinning.inspection.schemas import is_catch_all
from callgate.pinning.inspection.subject import NOBODY_ELSE, Inspected, Surroundings
from callgate.pinning.inspection.tokens import tokens

__all__ = [
    "ADVISORY",
    "NOBODY_ELSE",
    "Inspected",
    "Rule",
    "Surroundings",
    "all_rules",
    "family",
    "inspect",
    "is_catch_all",
    "suspicious",
    "tokens",
]
