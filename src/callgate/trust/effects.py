"""What a tool does, in six words that a person can choose from, and the labels that stand behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from callgate.trust.critical import EVERYTHING
from callgate.trust.model import UNTRUSTED
from callgate.trust.said import Said

# From the mildest to the gravest, each as a person reads it.
EFFECTS: Final[Mapping[str, str]] = {
    "reads_own": "reads your own things",
    "reads_others": "reads what others wrote",
    "changes": "changes things that can be put right",
    "sends": "sends to others",
    "destroys": "cannot be undone",
    "runs": "runs code",
}
READS: Final = frozenset(("reads_own", "reads_others"))
GRAVE: Final = frozenset(("sends", "destroys", "runs"))


# What is both a change and something that is sent.
_NAMED: Final = "changes things, sends to those it names"


class Effects(msgspec.Struct, frozen=True):
    """What a tool does, from the gravest effect on, and the arguments that decide whom or what it does that to; None
    where those are told by the schema."""

    effects: tuple[str, ...] = ()
    critical: tuple[str, ...] | None = None
    # A person said so, in the place of the proposal.
    chosen: bool = False

    @property
    def line(self) -> str:
        """One line beside the tool."""
        if not self.effects:
            return "unknown"
        named = {"sends", "changes"} <= set(self.effects)
        lines = [_NAMED if named and one == "sends" else EFFECTS[one] for one in self.effects]
        return ", ".join(line for line in lines if not named or line != EFFECTS["changes"])

    def said(self) -> Said:
        """The same as labels. Unknown effects say nothing, and what nobody says counts as the worst."""
        found = frozenset(self.effects)
        if not found:
            return Said()
        acts = found - READS
        strange = bool(found & {"reads_others", "runs"})
        leaves = bool(found & {"sends", "runs"}) if acts else strange
        outcomes = {"benign"} if not acts else {"consequential"}
        if found & {"destroys", "runs"}:
            outcomes.add("irreversible")
        return Said(
            destination=frozenset(_destinations(found, leaves=leaves)),
            outcomes=frozenset(outcomes),
            source=frozenset({UNTRUSTED} if strange else {"user"}),
            sensitivity=frozenset({"user"}),
            accepts=frozenset({"user"}),
            open_world=strange or bool(found & {"sends"}),
            read_only=not acts,
            destructive=bool(found & {"destroys", "runs"}),
            # Of what runs, all of it decides.
            critical=EVERYTHING if self.critical is None and "runs" in found else self.critical,
        )


def _destinations(effects: frozenset[str], *, leaves: bool) -> set[str]:
    if effects >= {"sends", "changes"}:
        return {"user", "public"}
    return {"public" if leaves else "user" if effects - READS else "system"}


def ordered(effects: Iterable[str]) -> tuple[str, ...]:
    """Each effect once, from the gravest on, without what another one includes."""
    found = set(effects)
    if len(found) > 1:
        found.discard("reads_own")
    # A change that sends only to those whom it names is both.
    if found & {"destroys", "runs"}:
        found.discard("changes")
    return tuple(one for one in reversed(list(EFFECTS)) if one in found)


def relabelled(proposed: str, effects: Sequence[str]) -> str:
    """A label with these effects, as a pin keeps it; the proposed one where they are the same, or none is named."""
    before = decode(proposed)
    if not effects or (before is not None and ordered(effects) == before.effects):
        return proposed
    return encode(Effects(ordered(effects), None if before is None else before.critical, chosen=True))


def encode(label: Effects) -> str:
    """A label as a pin keeps it."""
    return msgspec.json.encode(label).decode()


@lru_cache(4096)
def decode(kept: str) -> Effects | None:
    """A label that a pin kept; None where there is none, or one that this version does not know."""
    try:
        found = msgspec.json.decode(kept, type=Effects) if kept else None
    except msgspec.MsgspecError:
        return None
    return found if found is not None and frozenset(found.effects) <= EFFECTS.keys() else None
