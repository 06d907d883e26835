"""Text for a terminal. Hostile text cannot leave its line: it is spelt out, folded at the width, never cut."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rich.cells import get_character_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from callgate.cli.common import console

# Stands before every line of a server's own text, so that none of them passes for a line of ours.
GUTTER: Final = "  │ "
HIDDEN: Final = "black on yellow"
# Not underlined: a line there would hide every underscore, and id_rsa would be two words.
POINTED: Final = "bold red reverse"
_NARROWEST: Final = 8
# In text that is escaped, a backslash always begins one of these.
_SPELT: Final = re.compile(r"\\(?:u[0-9a-f]{4}|u\{[0-9a-f]+\}|[nrt])|\\\\")
# Not torn apart at the end of a line: marks of a difference, and what is spelt out.
_WHOLE: Final = re.compile(rf"\[-|-\]|\{{\+|\+\}}|{_SPELT.pattern}")
_CELL: Final = 120
_DIGITS: Final = 16


class Line(NamedTuple):
    """One line of content. `lead` stands before it, and `rest` before what of it goes on in the next line."""

    text: Text
    lead: str = ""
    rest: str | None = None


def text_line(text: str, style: str = "", *, lead: str = "", rest: str | None = None) -> Line:
    """A line of our own words."""
    return Line(Text(text, style=style), lead, rest)


def blank() -> Line:
    return text_line("")


def heading(text: str) -> list[Line]:
    return [blank(), text_line(text, "bold")]


def fact(name: str, value: str, style: str = "", *, width: int = 11) -> Line:
    """A name, and what is said of it; both are fit to be shown."""
    lead = f"{name:<{width}} "
    return text_line(value, style, lead=lead, rest=" " * len(lead))


def quote_lines(text: str, lead: str = GUTTER, spans: Sequence[tuple[int, int]] = ()) -> Iterator[Line]:
    """A text of the server, line by line as it is, with its invisible characters spelt out and spans marked."""
    for part in mark_spans(text, spans).split("\n", allow_blank=True):
        yield Line(part, lead, lead)


def mark_spans(text: str, spans: Sequence[tuple[int, int]] = (), *, style: str = "", keep_lines: bool = True) -> Text:
    """The text spelt out. It is cut at the borders of the spans first: what is spelt out is longer than it was."""
    from callgate.approval.display import escape

    within = [(max(0, start), min(len(text), end)) for start, end in spans]
    cuts = sorted({0, len(text), *(at for span in within for at in span if 0 <= at <= len(text))})
    out = Text(style=style)
    for start, end in itertools.pairwise(cuts):
        pointed = any(begin <= start and end <= stop for begin, stop in within)
        out.append(escape(text[start:end], keep_lines=keep_lines), POINTED if pointed else "")
    return highlight_escapes(out)


def highlight_escapes(text: Text) -> Text:
    """Colours what was spelt out, so that it is seen to be no part of the words."""
    for match in _SPELT.finditer(text.plain):
        if match[0] != "\\\\":
            text.stylize(HIDDEN, *match.span())
    return text


def fold_lines(lines: Iterable[Line], width: int | None) -> Iterator[Text]:
    """As many lines as they take on a terminal of that width; whole where there is none."""
    for line in lines:
        rest = line.lead if line.rest is None else line.rest
        lead = line.lead
        if width is not None and max(len(lead), len(rest)) > width - _NARROWEST:
            lead, rest = lead[: max(0, width - _NARROWEST)], "  "
        room = None if width is None else max(_NARROWEST, width - max(len(lead), len(rest)))
        for at, part in enumerate(_fold(line.text, room)):
            yield Text().append(rest if at else lead, "dim").append_text(part)


def _fold(text: Text, width: int | None) -> list[Text]:
    """Cut behind a space where one is near, and anywhere else where not; every character stays."""
    if width is None or not text.plain:
        return [text]
    cuts: list[int] = []
    begins = {
        at: found.start() for found in _WHOLE.finditer(text.plain) for at in range(found.start() + 1, found.end())
    }
    start = used = space = 0
    for at, char in enumerate(text.plain):
        size = get_character_cell_size(char)
        if used + size > width and at > start:
            near = begins.get(at, at)
            start = space if space > start else near if near > start else at
            cuts.append(start)
            used = sum(get_character_cell_size(one) for one in text.plain[start:at])
        used += size
        if char == " ":
            space = at + 1
    return list(text.divide(cuts))


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """All of them at once."""
    width = console.width if console.is_terminal else None
    for text in fold_lines(lines, width):
        console.print(text, soft_wrap=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Rows for people. Names come from clients and callers: as plain text, with control characters made visible; what
    is text with a style already is printed as it is."""
    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell), overflow="fold") for cell in row))
    console().print(table)


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def plain(text: str, most: int = _CELL) -> str:
    """Text on one line that cannot steer a terminal."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[:most])
    return shown if len(text) <= most else shown + "…"


def moment(at: int | None) -> str:
    """A time for people, local, to the minute."""
    return "-" if at is None else f"{datetime.fromtimestamp(at / 1000).astimezone():%Y-%m-%d %H:%M}"


def escaped(text: str) -> str:
    """A name or an identity on one line, whole, with what is invisible spelt out."""
    from callgate.approval.display import escape

    return escape(text)


def short_hash(approval_hash: str) -> str:
    """Enough digits of a hash for people to tell texts apart; nothing is approved by them."""
    return approval_hash.removeprefix("sha256:")[:_DIGITS] or "-"


def word_to_type(word: str) -> str:
    """A word as a shell takes it, on one line: what cannot be seen or typed is written as bash and zsh escape it."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    if word.isprintable() and escaped(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(_shell_escape(char) for char in word) + "'"


def _shell_escape(char: str) -> str:
    if char.isascii() and char.isprintable():
        return f"\\{char}" if char in "\\'" else char
    # As bytes: a shell turns \u2800 into what its locale has for it, and in C that is nothing.
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def show_when(at: int) -> str:
    """A time for people, local, to the millisecond."""
    return datetime.fromtimestamp(at / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")[:23]
