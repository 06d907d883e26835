"""Why a call needs a person, in words: the rule, what the tool does, where each value comes from, and the sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from callgate.trust.model import Traced

if TYPE_CHECKING:
    from callgate.trust.policy.engine import Ruling
    from callgate.trust.policy.facts import Facts

_VALUES: Final = 12
_SOURCES: Final = 6
_SHOWN: Final = 80
_CHARS: Final = 3500

# Where a value was met.
FOUND_WORDS: Final[Mapping[str, str]] = {
    "endorsed": "endorsed by a person",
    "prompt": "in the user's own words",
    "clean": "sent before anything untrusted was read",
    "trusted": "in a trusted result",
    "linked": "the id of something that the user named",
    "own": "filled in by the server itself",
    "nowhere": "met nowhere before",
    "untrusted": "only in text that a stranger may have written",
}
_STRANGE: Final = FOUND_WORDS["untrusted"].upper()


def why(ruling: Ruling, facts: Facts) -> str:
    """What the person who decides reads beside the arguments."""
    label, session = facts.tool, facts.session
    outcome = label.outcome
    if label.may_be_irreversible and outcome != "irreversible":
        outcome += " (may be irreversible)"
    return told(
        f"{ruling.say} (rule: {ruling.rule})",
        does=(label.destination, outcome, sorted(label.sources)),
        values=facts.provenance.values,
        links=facts.provenance.foreign_links,
        sensitivity=sorted(session.sensitivity - {"none"}),
        attribution=session.attribution,
    )


def told(
    first: str,
    *,
    does: tuple[str, str, Iterable[str]],
    values: Iterable[Traced],
    links: Sequence[Traced],
    sensitivity: Sequence[str],
    attribution: Sequence[str],
    warnings: Sequence[str] = (),
) -> str:
    """Several lines, bounded, `first` the first of them. `does` is the tool's destination, outcome and sources."""
    destination, outcome, sources = does
    returns = plain(", ".join(sources)) or "unknown"
    lines = [first, f"Destination: {destination}. Outcome: {outcome}. Source of what it returns: {returns}."]
    lines += [f"Warning: {plain(one)}" for one in warnings[:_VALUES]]
    traced = sorted(values, key=lambda value: (value.found != "untrusted", not value.critical))
    lines += [_line(value) for value in traced[:_VALUES]]
    lines += [f"A link in {plain(one.path)}: {plain(one.shown)}: {_STRANGE}" for one in links[:_VALUES]]
    if sensitivity:
        lines.append(f"The session has read: {plain(', '.join(sensitivity))}.")
    if attribution:
        more = len(attribution) - _SOURCES
        shown = ", ".join(map(plain, attribution[-_SOURCES:]))
        lines.append(f"Sources: {shown}" + (f" and {more} more" if more > 0 else ""))
    return "\n".join(lines)[:_CHARS]


def plain(text: str) -> str:
    """A peer's text in a line for people: nothing that a terminal would obey, and not too long."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[: _SHOWN + 1])
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"


def _line(value: Traced) -> str:
    where = _STRANGE if value.found == "untrusted" else FOUND_WORDS[value.found]
    return f"{plain(value.path)} = {plain(value.shown)}: {where}"
