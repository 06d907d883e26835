"""How the demo tells its story: numbered steps, who does what, and commands that can be pasted."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from callgate.cli.common import console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from callgate.cli.tools_lines import Line

STEPS: Final = 6
_WIDTH: Final = 78
_INDENT: Final = 10
_NARROWEST: Final = 20
# Who speaks or acts, in a column of their own.
_WHO: Final = {"agent": "cyan", "gate": "magenta", "you": "bold yellow", "key": "bold yellow", "server": "blue"}


class Teller:
    """The terminal. Text is wrapped at 80 columns; commands and links never are, or they could not be pasted."""

    def __init__(self) -> None:
        self._out = console()
        self._width = min(_WIDTH, self._out.width)

    def step(self, number: int, title: str) -> None:
        self._print(f"\n[bold]{number}/{STEPS}  {title}[/]\n")

    def says(self, who: str, text: str) -> None:
        """What somebody does, behind their name."""
        self._column(who, _WHO[who], text)

    def note(self, text: str) -> None:
        """Beside the story, in the column of the texts."""
        self._column("", "", text)

    def _column(self, who: str, style: str, text: str) -> None:
        from rich.text import Text

        room = max(_NARROWEST, self._width - _INDENT)
        for line in textwrap.wrap(text, room, break_on_hyphens=False) or [""]:
            self._whole(Text.assemble("  ", (f"{who:<{_INDENT - 2}}", style), line))
            who = ""

    def plain(self, text: str = "") -> None:
        from rich.text import Text

        self._print(Text(text))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        from rich.text import Text

        for name, value in facts:
            self._whole(Text.assemble("  ", (f"{name:<9}", "bold"), value))

    def link(self, url: str) -> None:
        from rich.text import Text

        self._whole(Text(f"          {url}", style="underline"))

    def same(self, *commands: str) -> None:
        """The commands that do or show the same."""
        from rich.text import Text

        for command in commands:
            self._whole(Text.assemble("          ", ("$ ", "dim"), (command, "green")))

    def paste(self, command: str) -> None:
        """On a line of its own, with nothing before it."""
        from rich.text import Text

        self._whole(Text(command, style="green"))

    def lines(self, lines: Iterable[Line]) -> None:
        from callgate.cli.tools_lines import folded

        for text in folded(lines, self._width):
            self._whole(text)

    def failed(self, text: str) -> None:
        self._print(f"\n[bold red]This did not happen:[/] {_escaped(text)}")

    def _whole(self, text: RenderableType) -> None:
        self._out.print(text, soft_wrap=True)
        sys.stdout.flush()

    def _print(self, what: RenderableType) -> None:
        self._out.print(what, width=self._width)
        sys.stdout.flush()


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
