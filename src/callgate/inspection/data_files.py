"""The data files of the inspection: words, phrases, patterns, weights and the catalogue of rules."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

FOLDER: Final = Path(__file__).parent / "data"
T = TypeVar("T")
_PIECE: Final = re.compile(r"@([a-z_]{2,20})@")


@functools.cache
def load(name: str, kind: type[T]) -> T:
    """One file of `data/`, read once."""
    return msgspec.toml.decode((FOLDER / f"{name}.toml").read_bytes(), type=kind)


def pattern(section: str, name: str) -> re.Pattern[str]:
    """A pattern of `patterns.toml`: its lines are joined, and `@name@` stands for another one of its section."""
    known = load("patterns", dict[str, dict[str, str]])[section]

    def joined(text: str) -> str:
        return _PIECE.sub(lambda found: joined(known[found[1]]), text.replace("\n", ""))

    return re.compile(joined(known[name]))
