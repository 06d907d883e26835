"""Why a call needs a person, in words: the rule, what the tool does, where each value comes from, and the sources.

The other way round, too: of what was written down with a step, the sentence alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from callgate.errors import Reason
from callgate.trust.model import Traced

if TYPE_CHECKING:
    from callgate.trust.policy.engine import Ruling
    from callgate.trust.policy.facts import Facts
    from callgate.trust.provenance.readings import Readings

_VALUES: Final = 12
_SOURCES: Final = 6
_SHOWN: Final = 80
_AROUND: Final = 120
# What sets a value apart in the words around it, and the quotes around those; and what looks like them.
_QUOTES: Final = (
    "\u00bb\u00ab\u201c\u201d\u201e\u201f\u2039\u203a\u226a\u226b\u275d\u275e\u27ea\u27eb"
    "\u300a\u300b\u301d\u301e\u301f\uff02"
)
_MARKS: Final = {ord(mark): None for mark in _QUOTES} | {ord(mark): " " for mark in "\r\n\t"}
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
_DOES: Final = "What the tool does: "
# What follows the sentence in a text for the person who decides; steps of long ago have the first of these.
_AFTER: Final = re.compile(rf"\n(?=Destination: |{_DOES}|{_LINK})")
# Values that are shown with the words around them.
_QUOTED: Final = 4
_DESTINATIONS: Final[Mapping[str, str]] = {
    "ephemeral": "what it gets is not kept",
    "system": "what it gets stays in the server",
    "user": "what it gets stays with the user",
    "internal": "what it gets goes to others in the organisation",
    "public": "what it gets can go to anybody",
}
_SOURCES_IN_WORDS: Final[Mapping[str, str]] = {
    "system": "the server itself",
    "user": "the user",
    "internal": "people in the organisation",
    "trustedPublic": "somebody who is trusted",
    "untrustedPublic": "anybody",
}
_CLASSES: Final[Mapping[str, str]] = {
    "user": "the user's own",
    "pii": "about people",
    "financial": "about money",
    "regulated": "protected by law",
    "credentials": "keys and passwords",
    "unknown": "of a kind that nobody named",
}
_OUTCOMES: Final[Mapping[str, str]] = {
    "benign": "it changes nothing",
    "consequential": "it changes something, which can be undone",
    "irreversible": "what it does cannot be undone",
}


def met(value: Traced) -> str:
    """Where a value was met, in a sentence that is true of it."""
    if value.found == "untrusted" and not value.steps:
        if value.shown in _UNTRACED:
            return NOT_LOOKED_UP
        if value.critical and len(value.shown) >= _SHOWN and value.shown.endswith("…"):
            return UNSURE
    return FOUND_WORDS.get(value.found, value.found)


def why(ruling: Ruling, facts: Facts, readings: Readings | None = None) -> str:
    """What the person who decides reads beside the arguments. With `readings`, the words around a value are quoted."""
    label, session = facts.tool, facts.session
    outcome = "irreversible" if label.may_be_irreversible else label.outcome
    return told(
        f"{ruling.say} (rule: {ruling.rule})",
        does=(label.destination, outcome, sorted(label.sources)),
        readings=readings,
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
    readings: Readings | None = None,
) -> str:
    """Several lines, bounded, `first` the first of them. `does` is the tool's destination, outcome and sources."""
    destination, outcome, sources = does
    returns = ", ".join(_worded(_SOURCES_IN_WORDS, one) for one in sources) or "anybody"
    what = (_worded(_DESTINATIONS, destination), _worded(_OUTCOMES, outcome), f"what it returns comes from {returns}")
    lines = [first, f"{_DOES}{'; '.join(what)}."]
    lines += [f"Warning: {plain(one)}" for one in warnings[:_VALUES]]
    traced = sorted(values, key=lambda value: (value.found != "untrusted", not value.critical))
    quoted: list[str] = []
    for value in traced[:_VALUES]:
        found = f"{met(value)}{_read(value, readings, quoted)}"
        lines.append(f"{plain(_unmarked(value.path))} = {plain(_unmarked(value.shown))}: {found}")
    for link in links[:_VALUES]:
        found = f"{met(link)}{_read(link, readings, quoted)}"
        lines.append(f"{_LINK}{plain(_unmarked(link.path))}: {plain(_unmarked(link.shown))}: {found}")
    if sensitivity:
        kinds = ", ".join(_worded(_CLASSES, one) for one in sensitivity)
        lines.append(f"Kinds of data that the agent has read: {kinds}.")
    if attribution:
        more = len(attribution) - _SOURCES
        shown = ", ".join(map(plain, attribution[-_SOURCES:]))
        lines.append(f"The agent has read from: {shown}" + (f" and {more} more" if more > 0 else ""))
    return "\n".join(lines)[:_CHARS]


def _worded(words: Mapping[str, str], value: str) -> str:
    """A label in words, with the label itself behind them."""
    return f"{words[value]} ({value})" if value in words else plain(value)


def plain(text: str, most: int = _SHOWN) -> str:
    """A peer's text in a line for people: nothing that a terminal would obey, and not too long."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _read(value: Traced, readings: Readings | None, quoted: list[str]) -> str:
    """In which result a stranger's value was read, with the words around it; once for each value."""
    if readings is None or value.found != "untrusted" or value.shown in quoted or len(quoted) >= _QUOTED:
        return ""
    found = readings.found(value.steps, value.shown)
    if found is None:
        return ""
    quoted.append(value.shown)
    reading, excerpt = found
    when = datetime.fromtimestamp(reading.at / 1000).astimezone()
    said = f". Read at {when:%H:%M %Z} {read_with(reading.server, reading.tool)}"
    if excerpt is None:
        return said
    title = f", in \u201c{plain(_unmarked(excerpt.title))}\u201d" if excerpt.title else ""
    before, there, after = (plain(_unmarked(part), _AROUND) for part in excerpt[1:])
    return f"{said}{title}: \u201c{before}\u00bb{there}\u00ab{after}\u201d"


def read_with(server: str, tool: str) -> str:
    """How a result is named in a question, by the tool that gave it."""
    return f"with {plain(tool)} (server {plain(server)})"


def _unmarked(text: str) -> str:
    """A peer's text without the marks that set the value apart, on one line."""
    return text.translate(_MARKS)


# -- read again ----------------------------------------------------------------------------------------------------


class Because(NamedTuple):
    """Why a step was decided as it was, for a list that has its rule and its values already."""

    sentence: str
    # Machine-readable, of a call that was refused.
    reason: str = ""
    # The links in its texts: they are not among the values that are kept of a step.
    links: tuple[Traced, ...] = ()


# At the end of a line without its quotations, behind words that leave no room for it in a value.
_SOURCE: Final = re.compile(
    rf": {FOUND_WORDS['untrusted']}\. Read at \d\d?:\d\d .*?(with .+ \(server .+\))(?:, in )?(?:: )?$"
)
_QUOTATION: Final = re.compile("\u201c[^\u201d]*(?:\u201d|$)")


def sources(why: str) -> frozenset[str]:
    """The results that a question says its values were read in, each as `read_with` names it. What is quoted there, and
    what a value says, names none."""
    found = (_SOURCE.search(_QUOTATION.sub("", line)) for line in why.split("\n"))
    return frozenset(one[1] for one in found if one is not None)


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
        # In capitals, in steps of long ago.
        if shown.lower().endswith(f": {where.lower()}"):
            shown = shown[: -len(where) - 2]
            break
    else:
        # What is kept of the text ends here.
        shown += "…"
    return Traced(f"a link in {path}", "link", "untrusted", critical=False, shown=shown)
