"""The sets: each has servers, a world, honest sessions and attacks of its own. The first one is a folder up."""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

HERE = Path(__file__).resolve().parent
FIRST: Final = "tidepool"


@dataclass(frozen=True, slots=True)
class SessionSet:
    """`person` is the user's name at the gate; `author` and `remote` are those of the repository."""

    name: str
    person: str
    author: str
    remote: str = ""

    @property
    def folder(self) -> Path:
        return HERE.parent if self.name == FIRST else HERE / self.name

    @property
    def world(self) -> Path:
        return self.folder / "world"

    def spelling(self) -> ModuleType:
        """How its strangers write: `ways` has those of an effect, `numbers` what is new for each case."""
        return importlib.import_module(
            "sessions.spelling" if self.name == FIRST else f"sessions.sets.{self.name}.spelling"
        )


def named(name: str) -> SessionSet:
    folder = HERE.parent if name == FIRST else HERE / name
    return SessionSet(name, **tomllib.loads((folder / "set.toml").read_text(encoding="utf-8")))


NAMES: Final = (FIRST, *sorted(path.parent.name for path in HERE.glob("*/set.toml")))
DEFAULT: Final = named(FIRST)
