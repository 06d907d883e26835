"""The screens of `callgate review`: keys, pages at the height of the terminal, and the first overview."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Self

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from callgate.cli.printing import Line, blank, escaped, fold_lines, heading, text_line
from callgate.cli.tools.show import finding_lines
from callgate.pinning.review.views import (
    Review,
    ServerView,
    SetView,
    ToolView,
    count_items,
    count_parts,
    in_words,
    worst,
)

_LEAST_ROWS: Final = 4
# Of what has findings, so much is named on the first screen.
_FOUND: Final = 8
# Space, enter, and down.
NEXT: Final = "next"
OTHER: Final = "other"
END: Final = "end"
_LINE: Final = 4096
_PAGE_DOWN: Final = (b"\x1b[B", b"\x1b[6~", b"\x1bOB")
_ESCAPE_SECONDS: Final = 0.05
_LONGEST: Final = 8


class Screen:
    """Prints downwards and never goes back: what was read stays where the terminal scrolls to."""

    def __init__(self, console: Console, keys: KeyInput) -> None:
        self.console = console
        self._keys = keys
        # Only our own footer is ever taken back, and only where the terminal can.
        self._erases = os.environ.get("TERM", "") not in ("", "dumb")

    def read(self, lines: Iterable[Line], keys: Mapping[str, str], early: Collection[str] = (), late: str = "") -> str:
        """Show all lines, then ask for one of `keys`; those of `early` are taken before the end, too.

        `late` is said where one of the other keys is pressed before everything was on the screen.
        """
        return self.open(lines).read(keys, early, late)

    def open(self, lines: Iterable[Line]) -> Pager:
        """Lines that can be read with something else in between."""
        return Pager(self, _trim_rows(list(fold_lines(lines, self._size[0]))))

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
        self.show([text_line(text, style)])

    def show(self, lines: Iterable[Line]) -> None:
        for row in fold_lines(lines, self._size[0]):
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
        words = [before, *(f"[{_name(key)}] {told}" for key, told in keys.items() if told)]
        text = "  ".join(word for word in words if word)
        return list(fold_lines([Line(Text(text, style="bold cyan"))], max(1, self._size[0] - 1)))

    def _show(self, rows: list[Text]) -> None:
        for at, row in enumerate(rows):
            self.console.print(row, soft_wrap=True, end="" if at == len(rows) - 1 else "\n")

    def _clear(self, rows: list[Text]) -> None:
        if self._erases and self.console.is_terminal and len(rows) == 1:
            self.console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        else:
            self.console.print()


class Pager:
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


def _trim_rows(rows: list[Text]) -> list[Text]:
    """Without empty rows at the end, which would make a page of their own."""
    while rows and not rows[-1].plain:
        rows.pop()
    return rows


def _name(key: str) -> str:
    return "space" if key == NEXT else key


class KeyInput:
    """The keyboard of the terminal that the command runs on. Whatever happens, the terminal is put back at the end."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before: Any = None

    def __enter__(self) -> Self:
        if os.name != "nt":
            import termios

            self._before = termios.tcgetattr(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        self._put_back()

    def drop(self) -> None:
        """Forget what was typed until now: nobody approves a text that was not there yet."""
        if os.name == "nt":
            import msvcrt

            while msvcrt.kbhit():  # type: ignore[attr-defined,unused-ignore]
                msvcrt.getwch()  # type: ignore[attr-defined,unused-ignore]
            return
        import termios
        import tty

        # Keys arrive one by one and are not echoed; Ctrl-C stays what it is.
        tty.setcbreak(self._fd, termios.TCSANOW)
        termios.tcflush(self._fd, termios.TCIFLUSH)

    def key(self) -> str:
        """The next key, as a letter or one of the names above."""
        if os.name == "nt":
            import msvcrt

            return _key_name(msvcrt.getwch().encode("utf-8", "replace"))  # type: ignore[attr-defined,unused-ignore]
        return _key_name(_read_key(self._fd))

    def line(self) -> str:
        """A line that the person types and can correct; empty at the end of input."""
        if os.name == "nt":
            return input()
        self._put_back()
        # The terminal hands over whole lines now; Python's own buffer would keep what follows from `key`.
        return os.read(self._fd, _LINE).decode("utf-8", "replace").strip()

    def _put_back(self) -> None:
        if self._before is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)


def _read_key(fd: int) -> bytes:
    import select

    found = os.read(fd, 1)
    # An arrow or a function key: several bytes that belong together.
    while found.startswith(b"\x1b") and len(found) < _LONGEST and select.select([fd], [], [], _ESCAPE_SECONDS)[0]:
        more = os.read(fd, 1)
        found += more
        if not more or more == b"~" or (more.isalpha() and found != b"\x1bO"):
            break
    return found


def _key_name(pressed: bytes) -> str:
    if pressed in (b"", b"\x04"):
        return END
    if pressed == b"\x03":
        raise KeyboardInterrupt
    if pressed in (b"\r", b"\n", b" ", *_PAGE_DOWN):
        return NEXT
    if len(pressed) == 1 and 0x21 <= pressed[0] < 0x7F:
        return chr(pressed[0]).lower()
    return OTHER


def overview(review: Review) -> Iterator[Line]:
    """Servers and sets, before the tools."""
    yield text_line(f"You approve for {escaped(review.on_behalf_of)}.", "bold")
    waiting = count_parts(review.pending)
    sets = sum(not one.reviewed for one in review.sets)
    if sets:
        waiting.append("the servers together" if sets == 1 else f"{sets} sets of servers")
    yield text_line(f"For review: {in_words(waiting)}." if waiting else "Nothing waits for review.")
    yield from _found_lines(review)
    yield from heading("Servers")
    for server in review.servers:
        yield from _server(server)
    for one in review.sets:
        if not one.reviewed:
            yield from set_lines(one, review)


def _found_lines(review: Review) -> Iterator[Line]:
    """What the inspection found in what waits, before anything else: one line for each item."""
    found = sorted((view for view in review.pending if not view.plain), key=lambda view: view.concern)
    if found:
        yield from heading(f"Read with care: {count_items(found)} with findings")
    for view in found[:_FOUND]:
        what = f"{escaped(view.tool)} on {escaped(view.server)}: {escaped(worst(view).what)}"
        yield text_line(what, "bold red" if view.hard else "yellow", lead="  ", rest="    ")
    if len(found) > _FOUND:
        yield text_line(f"and {len(found) - _FOUND} more", lead="  ")


def _server(view: ServerView) -> Iterator[Line]:
    state = "connected" if view.connected else "not connected now"
    count = f"{count_items(view.tools)}, {view.pending} to review"
    yield text_line(f"{', '.join(map(escaped, view.seen.called))}  {state}, {count}", lead="  ", rest="    ")
    yield text_line(escaped(view.seen.server_id), "dim", lead="    ")
    if view.seen.target:
        yield text_line(escaped(view.seen.target), "dim", lead="    ")
    for notice in view.notices:
        yield text_line(f"! {escaped(notice)}", "yellow", lead="    ", rest="      ")
    for fact in view.started:
        yield text_line(escaped(fact), "dim", lead="    ")
    for one in view.arguments if view.pending else ():
        if one.kind == "argument":
            yield text_line(f"`{escaped(one.shown)}` {escaped(one.standing)}", "dim", lead="    ", rest="      ")
    approved = ", ".join(escaped(tool.tool) for tool in view.tools if tool.state == "approved")
    if approved:
        yield text_line(f"approved: {approved}", lead="    ", rest="      ")
    unfit = [tool for tool in view.tools if tool.state == "unfit"]
    for tool in unfit:
        why = escaped(tool.problem or tool.refusal)
        yield text_line(f"! {escaped(tool.tool)} cannot be approved: {why}", "red", lead="    ", rest="      ")


def set_lines(one: SetView, review: Review) -> Iterator[Line]:
    """Servers that meet, and what one of them says of another's tools."""
    where = f"group {escaped(one.group)}" if one.group else "outside of groups"
    yield blank()
    yield text_line(f"Servers that agents see together ({where}): not reviewed together yet", "bold yellow")
    yield text_line(f"{', '.join(map(escaped, one.servers))}; {len(one.servers)} of at most {one.most}", lead="  ")
    if one.is_first:
        yield text_line("No two of them were on one review", lead="  ")
        for name in one.servers:
            yield from _alike(name, one, review)
    else:
        for pair in one.open_pairs:
            yield text_line(f"{' and '.join(map(escaped, pair))} were never on one review", lead="  ")
            for name in dict.fromkeys(pair):
                yield from _alike(name, one, review)
    for finding in one.findings:
        yield from finding_lines(finding)


def _alike(name: str, one: SetView, review: Review) -> Iterator[Line]:
    """The identities behind a name that several servers have."""
    found = [server.seen for server in review.servers if (server.seen.name, server.seen.group) == (name, one.group)]
    if len(found) > 1:
        yield text_line(f"{len(found)} servers have the name {escaped(name)}:", lead="    ")
        for seen in found:
            yield text_line(escaped(seen.server_id), lead="      ", rest="        ")


def held_back(review: Review, one: SetView) -> list[ToolView]:
    """Tools that are approved, and wait until the servers of their set were reviewed together."""
    return [tool for server in review.servers if server.seen.name in one.servers for tool in server.tools if tool.held]
