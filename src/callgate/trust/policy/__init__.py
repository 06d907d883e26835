"""Policy: rules over the facts of a call, and what they say of it. Start at `Policy.load` and `Facts`."""

from __future__ import annotations

from callgate.trust.policy.engine import Match, Policy, Ruling
from callgate.trust.policy.facts import TABLE, Fact, Facts

__all__ = ["TABLE", "Fact", "Facts", "Match", "Policy", "Ruling"]
