"""What a tool does, as the person who approves it reads and says it: the words of the effects, and a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callgate.trust.effects import Effects


def effects_of(label: str) -> list[str]:
    """The effects that a label names, from the gravest on; none where there is no label."""
    found = _decoded(label)
    return [] if found is None else list(found.effects)


def does_line(label: str) -> str:
    """One sentence for the person who has approved a tool."""
    found = _decoded(label)
    return "It has no label: what it does counts as unknown." if found is None else f"Label: {found.line}."


def is_label(given: Any) -> bool:
    """Whether this is a list of effects that we know; an empty one names none."""
    from callgate.trust.effects import EFFECTS

    return isinstance(given, list) and len(given) <= len(EFFECTS) and all(one in EFFECTS for one in given)


def relabelled(proposed: str, effects: Sequence[str]) -> str:
    """A label with these effects; as proposed where they are the same or none is named."""
    from callgate.errors import Reason, Refused
    from callgate.trust import effects as known

    if not is_label(list(effects)):
        words = ", ".join(known.EFFECTS)
        raise Refused(Reason.INVALID_PARAMS, f"a label is made of these words: {words}", advice="Name one of them.")
    return known.relabelled(proposed, effects)


def _decoded(label: str) -> Effects | None:
    from callgate.trust.effects import decode

    return decode(label)
