"""A rule: what it is called, when it holds, what it does then and what it tells the person."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from callgate.gate import Quorum
from callgate.trust.policy.condition import Condition

# From the mildest to the strictest.
EFFECTS: Final = ("allow", "ask", "block")
# Those of results, where `warn` and `mask` are done besides what is stricter.
RESULT_EFFECTS: Final = ("allow", "warn", "mask", "ask", "quarantine")


class Rule(NamedTuple):
    """One rule, checked and compiled."""

    name: str
    effect: str
    on: Literal["call", "result"]
    condition: Condition
    # The sentence for the person who is asked, or whose call is refused.
    say: str
    # Rules of the default policy that an `allow` switches off for the calls it holds for.
    override: tuple[str, ...] = ()
    # Belongs to the default policy.
    default: bool = False
    source: str = ""
    line: int = 0
    # Who has to approve, where it asks.
    quorum: Quorum = Quorum()
