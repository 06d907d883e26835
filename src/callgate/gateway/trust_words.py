"""Why a call needs a person, in words: the rule, what the tool does, where each value comes from, and the sources."""

from __future__ import annotations

from typing import Final

from callgate.trust.model import Traced
from callgate.trust.policy.engine import Ruling
from callgate.trust.policy.facts import Facts

_VALUES: Final = 12
_SOURCES: Final = 6
_SHOWN: Final = 80
_CHARS: Final = 3500

FOUND_WORDS: Final = {
    "endorsed": "endorsed by a person in this session",
    "prompt": "in the user's own words",
    "clean": "sent before anything untrusted was read",
    "trusted": "in a trusted result",
    "linked": "belongs to something that the user named",
    "own": "filled in by the server itself",
    "nowhere": "not met anywhere before",
    "untrusted": "ONLY IN TEXT THAT A STRANGER MAY HAVE WRITTEN",
}


def why(ruling: Ruling, facts: Facts) -> str:
    """Several lines, bounded: what the person who decides reads beside the arguments."""
    label, session = facts.tool, facts.session
    lines = [
        f"{ruling.say} (rule: {ruling.rule})",
        f"Destination: {label.destination}. Outcome: {label.outcome}"
        + (" (may be irreversible)" if label.may_be_irreversible and label.outcome != "irreversible" else "")
        + f". Source of what it returns: {_short(', '.join(sorted(label.sources))) or 'unknown'}.",
    ]
    traced = sorted(facts.provenance.values, key=_weight)[:_VALUES]
    lines += [_line(value) for value in traced]
    lines += [
        f"A link in {_short(value.path)}: {_short(value.shown)}, {FOUND_WORDS['untrusted'].lower()}"
        for value in facts.provenance.foreign_links[:_VALUES]
    ]
    if session.sensitivity - {"none"}:
        lines.append(f"The session has read: {_short(', '.join(sorted(session.sensitivity - {'none'})))}.")
    if session.attribution:
        more = len(session.attribution) - _SOURCES
        shown = ", ".join(_short(source) for source in session.attribution[-_SOURCES:])
        lines.append(f"Sources: {shown}" + (f" and {more} more" if more > 0 else ""))
    return "\n".join(lines)[:_CHARS]


def _weight(value: Traced) -> tuple[bool, bool]:
    return value.found != "untrusted", not value.critical


def _line(value: Traced) -> str:
    return f"{_short(value.path)} = {_short(value.shown)}: {FOUND_WORDS[value.found]}"


def _short(text: str) -> str:
    plain = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 1] + "…"
