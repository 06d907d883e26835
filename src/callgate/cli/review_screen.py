"""A screen that is read to its end: page by page at the terminal's height, and a line that says what the keys do."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from callgate.cli.review_keys import END, NEXT, Keys
from callgate.cli.tools_lines import Line, folded, said

if TYPE_CHECKING:
    from rich.console import Console
    from rich.control import Control
    from rich.text import Text

_LEAST_ROWS: Final = 4


class Screen:
    """Prints downwards and never goes back: what was read stays where the terminal scrolls to."""

    def __init__(self, console: Console, keys: Keys) -> None:
        self.console = console
        self._keys = keys
        # Only our own footer is ever taken back, and only where the terminal can.
        self._erases = os.environ.get("TERM", "") not in ("", "dumb")

    def read(self, lines: Iterable[Line], keys: Mapping[str, str], early: Collection[str] = (), late: str = "") -> str:
        """Show all lines, then ask for one of `keys`; those of `early` are taken before the end, too.

        `late` is said where one of the other keys is pressed before everything was on the screen.
        """
        return self.open(lines).read(keys, early, late)

    def open(self, lines: Iterable[Line]) -> Page:
        """Lines that can be read with something else in between."""
        return Page(self, _trimmed(list(folded(lines, self._size[0]))))

    def ask(self, keys: Mapping[str, str], before: str = "", wrong: Collection[str] = (), late: str = "") -> str:
        """One of the keys; whatever else is pressed is not heard. The end of input is one, always."""
        rows = self._footer(keys, before)
        self._keys.drop()
        self._show(rows)
        while True:
            found = self._keys.key()
            if found in keys or found == END:
                self._clear(rows)
                return found
            if found in wrong and late:
                self._clear(rows)
                self.say(late)
                self._show(rows)

    def line(self, question: str) -> str:
        """What the person writes behind a question."""
        self._keys.drop()
        self.console.print(question, end=" ", soft_wrap=True, markup=False)
        return self._keys.line()

    def room(self, keys: Mapping[str, str]) -> int:
        """How many rows there are above a line that says what the keys do."""
        return max(_LEAST_ROWS, self._size[1] - 1 - len(self._footer(keys, "")))

    def say(self, text: str, style: str = "") -> None:
        self.show([said(text, style)])

    def show(self, lines: Iterable[Line]) -> None:
        for row in folded(lines, self._size[0]):
            self.console.print(row, soft_wrap=True)

    @property
    def _size(self) -> tuple[int, int]:
        """Columns and rows as they are now. COLUMNS and LINES may be those of another window, and hide half a page."""
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            return self.console.width, self.console.height
        return (size.columns, size.lines) if size.columns and size.lines else (self.console.width, self.console.height)

    def _footer(self, keys: Mapping[str, str], before: str) -> list[Text]:
        from rich.text import Text

        words = [before, *(f"[{_name(key)}] {told}" for key, told in keys.items() if told)]
        text = "  ".join(word for word in words if word)
        return list(folded([Line(Text(text, style="bold cyan"))], max(1, self._size[0] - 1)))

    def _show(self, rows: list[Text]) -> None:
        for at, row in enumerate(rows):
            self.console.print(row, soft_wrap=True, end="" if at == len(rows) - 1 else "\n")

    def _clear(self, rows: list[Text]) -> None:
        if self._erases and self.console.is_terminal and len(rows) == 1:
            self.console.control(_erase_line())
        else:
            self.console.print()


class Page:
    """A text on its way over the screen. Only `ended` makes its last keys known: nothing else gets to them."""

    def __init__(self, screen: Screen, rows: list[Text]) -> None:
        self._screen = screen
        self._rows = rows
        self._at = 0
        self.ended = False

    def read(self, keys: Mapping[str, str], early: Collection[str] = (), late: str = "") -> str:
        """Go on from where it is, to one of `early`, or to the end and one of `keys`."""
        if not self._at:
            self._turn(keys)
        more = {NEXT: "", **{key: keys[key] for key in early}}
        while not self.ended:
            left = len(self._rows) - self._at
            told = "1 more line, space shows it" if left == 1 else f"{left} more lines, space shows them"
            found = self._screen.ask(more, told, set(keys) - set(more), late)
            if found != NEXT:
                return found
            self._turn(keys)
        return self._screen.ask(keys)

    def _turn(self, keys: Mapping[str, str]) -> None:
        room = self._screen.room(keys)
        for row in self._rows[self._at : self._at + room]:
            self._screen.console.print(row, soft_wrap=True)
        self._at += room
        if self._at >= len(self._rows):
            self.ended = True
            self._screen.console.print()


def _trimmed(rows: list[Text]) -> list[Text]:
    """Without empty rows at the end, which would make a page of their own."""
    while rows and not rows[-1].plain:
        rows.pop()
    return rows


def _erase_line() -> Control:
    from rich.control import Control
    from rich.segment import ControlType

    return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


def _name(key: str) -> str:
    return "space" if key == NEXT else key
