"""What every table of callgate.toml has in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

Sessions = Annotated[int, Meta(ge=1, le=1000000)]
Processes = Annotated[int, Meta(ge=1, le=100000)]
IdleSeconds = Annotated[float, Meta(ge=1, le=2592000)]


class Clash(NamedTuple):
    """Keys that do not go together; not told while one of the `between` has a problem of its own.

    `key` is one of this table, or the way to one in a table inside it.
    """

    key: str | tuple[str | int, ...]
    text: str
    between: tuple[str, ...]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of callgate.toml."""

    def clashes(self) -> Iterator[Clash]:
        """What is wrong between keys that are each right."""
        return iter(())
