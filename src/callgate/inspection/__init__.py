"""What a tool's definition says that a reviewer should know: static, offline, the same every time.

    findings = inspect(ToolDefinition.of(entry), InspectionContext("mail", {"files": frozenset({"read_file"})}))

A hard finding blocks approval unless it is overruled; a soft one informs. Of the soft ones, those of the families in
`ADVISORY` describe how a tool is built and fire on many honest tools: `suspicious` leaves them out. `scanner` looks
through the results of tools. Nothing here knows the gate. What it knows of words is in `data/`; the rules and the data
are loaded when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from callgate.inspection.model import NO_CONTEXT, InspectionContext, ToolDefinition, ToolFinding

if TYPE_CHECKING:
    from callgate.inspection.engine import ADVISORY, InspectionRule, all_rules, family, inspect, suspicious
    from callgate.inspection.rules.definition import is_catch_all
    from callgate.inspection.text import tokens

__all__ = [
    "ADVISORY",
    "NO_CONTEXT",
    "InspectionContext",
    "InspectionRule",
    "ToolDefinition",
    "ToolFinding",
    "all_rules",
    "family",
    "inspect",
    "is_catch_all",
    "suspicious",
    "tokens",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"is_catch_all": "rules.definition", "tokens": "text"}.get(name, "engine")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
