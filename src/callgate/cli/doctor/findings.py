"""What `callgate doctor` finds: a sentence each, how bad it is, and what to do; a check that breaks is one too."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from callgate.cli.common import configuration
from callgate.cli.links import serve_command
from callgate.cli.printing import plain
from callgate.cli.services import options_of
from callgate.config import Config, find
from callgate.errors import CallgateError, place

if TYPE_CHECKING:
    from callgate.store import Store

Level: TypeAlias = Literal["ok", "note", "warning", "problem"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "note", "warning", "problem")
_LINE: Final = 400


class Finding(msgspec.Struct, frozen=True):
    """One thing that is so. `commands` are to be typed as they stand."""

    level: Level
    text: str
    advice: str = ""
    commands: tuple[str, ...] = ()
    check: str = ""


def ok(text: str) -> Finding:
    return Finding("ok", text)


class Setup:
    """The set-up that is looked at. Checks fill in what later ones need: the configuration, then the store."""

    def __init__(
        self,
        path: Path | None,
        url: str | None,
        *,
        servers: Iterable[str] = (),
        start: bool = True,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.url = url
        self.only = tuple(servers)
        self.start = start
        self.wall = wall
        self.file = find(path)
        self.config: Config | None = None
        self.store: Store | None = None
        # There is no store yet, so nobody is known either.
        self.is_new = False
        # Where the console answers now.
        self.console: str | None = None
        # Both clocks, as they stood when the look began.
        self.began = (wall(), time.monotonic())

    def load(self) -> Config:
        """The configuration, for this check and later ones."""
        self.config = configuration(self.path, self.url)
        return self.config

    def use(self, store: Store | None) -> None:
        """Let later checks look into the store; None: there is none yet."""
        self.store, self.is_new = store, store is None

    def answers_at(self, console: str) -> None:
        self.console = console

    @property
    def settings(self) -> Config:
        """The configuration, for checks that run only once there is one."""
        assert self.config is not None
        return self.config

    @property
    def opened(self) -> Store:
        """The store, for checks that run only once it can be used."""
        assert self.store is not None
        return self.store

    def command(self, *words: str) -> str:
        """A command for the person to type, on the same configuration and store."""
        return shlex.join(["callgate", *words, *options_of(self.path, self.url)])

    def serve(self) -> str:
        """The command that starts the gateway of this set-up."""
        return serve_command(self.path, self.url)

    def close(self) -> None:
        if self.store is not None:
            self.store.close_sync()


class Check(NamedTuple):
    """A small look at one thing; `needs` is what has to be there before it makes sense."""

    id: str
    needs: Literal["nothing", "config", "store", "store or none"]
    look: Callable[[Setup], Iterable[Finding]]

    def possible(self, setup: Setup) -> bool:
        if self.needs == "config":
            return setup.config is not None
        if self.needs == "store or none" and setup.is_new:
            return True
        return self.needs == "nothing" or (setup.config is not None and setup.store is not None)

    def run(self, setup: Setup) -> list[Finding]:
        """What it finds, in plain text on one line each."""
        found: list[Finding] = []
        try:
            found.extend(self.look(setup))
        except CallgateError as error:
            found.append(finding_of(error))
        except Exception as error:  # noqa: BLE001 - whatever is wrong here is what the person wants to know
            # Only where it broke: the text of an exception may hold a secret.
            text = f"This could not be checked: {place(error)}."
            found.append(Finding("problem", text, "Please report this; the other checks hold."))
        return [_clean(one, self.id) for one in found]


def finding_of(error: CallgateError, level: Level = "problem") -> Finding:
    """An error of ours as a finding: it says what to do by itself."""
    return Finding(level, sentence(error.message), error.advice)


def sentence(text: str) -> str:
    """One line that ends, and begins large if it begins with a word and not with a name or a path."""
    line = " ".join(text.split())
    line = line[:1].upper() + line[1:] if line.partition(" ")[0].isalpha() else line
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _clean(found: Finding, check: str) -> Finding:
    return msgspec.structs.replace(found, text=plain(found.text, _LINE), advice=plain(found.advice, _LINE), check=check)


def name_list(names: Iterable[str], most: int = 5) -> str:
    """A few names on one line."""
    known = [plain(name, 60) for name in names]
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")
