"""Why a call needs a person, in words: the rule, what the tool does, where each value comes from, and the sources.

The other way round, too: of what was written down with a step, the sentence alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from callgate.errors import Reason
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
    "schema": "one of the values that the tool offers",
    "own": "filled in by the server itself",
    "nowhere": "met nowhere before",
    "untrusted": "only in text that a stranger may have written",
}
# What is too long is not looked up and counts as a stranger's (`provenance.joining`). A value that no step is known of
# and that is shown cut may be one of these, or put together from a stranger's words.
UNSURE: Final = "in a stranger's words, or too long to be looked up: counted as a stranger's"
NOT_LOOKED_UP: Final = "not looked up, so counted as a stranger's"
# What `provenance.tracing` shows in the place of such values.
_UNTRACED: Final = frozenset({"more values than are traced", "a longer text than is traced"})
_REASONS: Final = {one.value: one for one in Reason}
_LINK: Final = "A link in "
# What follows the sentence in a text for the person who decides.
_AFTER: Final = re.compile(rf"\n(?=Destination: |{_LINK})")


def met(value: Traced) -> str:
    """Where a value was met, in a sentence that is true of it."""
    if value.found == "untrusted" and not value.steps:
        if value.shown in _UNTRACED:
            return NOT_LOOKED_UP
        if value.critical and len(value.shown) >= _SHOWN and value.shown.endswith("…"):
            return UNSURE
    return FOUND_WORDS.get(value.found, value.found)


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
    lines += [f"{_LINK}{plain(one.path)}: {plain(one.shown)}: {met(one).upper()}" for one in links[:_VALUES]]
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
    where = met(value)
    return f"{plain(value.path)} = {plain(value.shown)}: {where.upper() if value.found == 'untrusted' else where}"


# -- read again ----------------------------------------------------------------------------------------------------


class Because(NamedTuple):
    """Why a step was decided as it was, for a list that has its rule and its values already."""

    sentence: str
    # Machine-readable, of a call that was refused.
    reason: str = ""
    # The links in its texts: they are not among the values that are kept of a step.
    links: tuple[Traced, ...] = ()


def because(why: str, rule: str) -> Because:
    """What was written down with a step: a sentence, or all that a person was told, with the reason before it."""
    head, colon, rest = why.partition(": ")
    reason = _REASONS.get(head) if colon else None
    if reason is None:
        return Because(why)
    said, *more = _AFTER.split(rest, maxsplit=1)
    links = tuple(_link(line) for text in more for line in text.split("\n") if line.startswith(_LINK))
    return Because(said.removesuffix(f" (rule: {rule})").strip() or reason.meaning, reason.value, links)


def _link(line: str) -> Traced:
    path, _, shown = line.removeprefix(_LINK).partition(": ")
    for where in (FOUND_WORDS["untrusted"], UNSURE, NOT_LOOKED_UP):
        if shown.endswith(f": {where.upper()}"):
            shown = shown[: -len(where) - 2]
            break
    else:
        # What is kept of the text ends here.
        shown += "…"
    return Traced(f"a link in {path}", "link", "untrusted", critical=False, shown=shown)
