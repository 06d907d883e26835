"""What a person is asked, and what they are told: the rule, what the tool does, where each value comes from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from callgate.trust.model import DataLabel, Traced
from callgate.trust.words import plain, told


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
        return told(
            f"{what} {plain(self.tool)} on {plain(self.server)}: {self.say} (rule: {self.rule})",
            does=(self.destination, self.outcomes, self.source),
            values=self.values,
            links=self.links,
            sensitivity=self.sensitivity,
            attribution=self.attribution,
            warnings=() if self.result is None else self.result.warnings,
        )


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A result that was flagged as malicious, by its server or by a detector here. The user should know of it."""

    server: str
    tool: str
    warnings: tuple[str, ...]
    attribution: tuple[str, ...] = ()


# True lets it pass; anything else does not.
Ask: TypeAlias = Callable[[Question], Awaitable[bool]]
Tell: TypeAlias = Callable[[Alert], Awaitable[None] | None]
