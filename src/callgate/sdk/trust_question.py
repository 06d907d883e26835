"""What a person is asked, and what they are told: the rule, what the tool does, where each value comes from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from callgate.trust.model import DataLabel, Traced

_VALUES: Final = 12
_SOURCES: Final = 6
_SHOWN: Final = 80
_CHARS: Final = 3500

FOUND_WORDS: Final = {
    "endorsed": "a person agreed to it in this session",
    "prompt": "in the user's own words",
    "clean": "sent before anything untrusted was read",
    "trusted": "in a trusted result",
    "linked": "belongs to something that the user named",
    "own": "filled in by the server itself",
    "nowhere": "not met anywhere before",
    "untrusted": "ONLY IN TEXT THAT A STRANGER MAY HAVE WRITTEN",
}


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person has to agree to, or, where `result` is set, a result before the agent reads it.

    `values` has each value among the arguments and where it was met before; `attribution` where the session's data
    comes from. `text` is all of it in words, ready to be shown.
    """

    server: str
    tool: str
    arguments: Mapping[str, Any]
    rule: str
    say: str
    destination: str
    outcomes: str
    source: tuple[str, ...]
    values: tuple[Traced, ...] = ()
    links: tuple[Traced, ...] = ()
    sensitivity: tuple[str, ...] = ()
    attribution: tuple[str, ...] = ()
    result: DataLabel | None = None

    @property
    def text(self) -> str:
        what = "The result of" if self.result is not None else "Call"
        returns = ", ".join(self.source) or "unknown"
        lines = [
            f"{what} {plain(self.tool)} on {plain(self.server)}: {self.say} (rule: {self.rule})",
            f"Destination: {self.destination}. Outcome: {self.outcomes}. Source of what it returns: {returns}.",
        ]
        if self.result is not None:
            lines += [f"Warning: {plain(one)}" for one in self.result.warnings[:_VALUES]]
        traced = sorted(self.values, key=lambda value: (value.found != "untrusted", not value.critical))
        lines += [f"{plain(one.path)} = {plain(one.shown)}: {FOUND_WORDS[one.found]}" for one in traced[:_VALUES]]
        lines += [
            f"A link in {plain(one.path)}: {plain(one.shown)}: {FOUND_WORDS['untrusted']}"
            for one in self.links[:_VALUES]
        ]
        if self.sensitivity:
            lines.append(f"The session has read: {', '.join(map(plain, self.sensitivity))}.")
        if self.attribution:
            more = len(self.attribution) - _SOURCES
            shown = ", ".join(map(plain, self.attribution[-_SOURCES:]))
            lines.append(f"Sources: {shown}" + (f" and {more} more" if more > 0 else ""))
        return "\n".join(lines)[:_CHARS]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A result that was flagged as malicious, by its server or by a detector here. The user should know of it."""

    server: str
    tool: str
    warnings: tuple[str, ...]
    attribution: tuple[str, ...] = ()


# True lets it pass; anything else does not.
Ask: TypeAlias = Callable[[Question], Awaitable[bool]]
Tell: TypeAlias = Callable[[Alert], Awaitable[None] | None]


def plain(text: str) -> str:
    """A peer's text in a line for people: nothing that a terminal would obey, and not too long."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[: _SHOWN + 1])
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
