"""A server's text as its reviewer reads it: whole, what is invisible spelt out, and what was found in it marked.

The text is cut into lines of runs, and the template draws each. Nothing is left out: the runs' own characters, joined,
are the text again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from callgate.approval.display import escape
from callgate.console.rendering import Shown
from callgate.inspection import ToolFinding

# So many blanks or empty lines push what follows out of sight; they are counted instead.
_BLANKS: Final = 40
_BREAKS: Final = 20
_SUSPECT: Final = re.compile(rf" {{{_BLANKS + 1},}}|\n{{{_BREAKS + 1},}}|[^\x20-\x7e\n]+")
# The tag block repeats ASCII from here on, drawn as nothing.
_TAGS: Final = 0xE0000
_TITLES: Final = 8
_NAMED: Final = {" ": "space", "\n": "line break", "\t": "tab"}


class Run(NamedTuple):
    """Characters that are drawn alike: as they are, or spelt out where nobody would see them.

    `tier` and `numbers` are those of the findings that it belongs to, `first` the numbers of those that begin here.
    """

    source: str
    text: Shown
    unseen: bool = False
    title: str = ""
    tier: str = ""
    numbers: str = ""
    first: str = ""


Line = list[Run]


class Marks:
    """The findings of one tool, numbered as they are listed beside its text."""

    def __init__(self, findings: Iterable[ToolFinding] = ()) -> None:
        self._places: dict[str, list[tuple[int, ToolFinding]]] = {}
        for number, found in enumerate(findings, 1):
            self._places.setdefault(place(found.where), []).append((number, found))

    def lines(self, where: str, text: str) -> list[Line]:
        """The lines of a text, with the findings at this place marked in it."""
        found = [(number, one) for number, one in self._places.get(place(where), ()) if one.span is not None]
        return _lines(text, found)

    def runs(self, where: str, text: str) -> Line:
        """The same for a text that stands in a line of its own: its line breaks are spelt out."""
        joined: Line = []
        for at, line in enumerate(self.lines(where, text)):
            if at:
                joined.append(Run("\n", Shown("line break"), unseen=True, title="line break"))
            joined += line
        return joined

    def on(self, where: str) -> tuple[str, str]:
        """Tier and numbers of what was found at a place as a whole."""
        found = [(number, one) for number, one in self._places.get(place(where), ()) if one.span is None]
        return _tier(found), _numbers(found)

    def under(self, where: str) -> bool:
        """Whether something was found further down from a place."""
        inside = f"{place(where)}."
        return any(one.startswith(inside) for one in self._places)


def plain(text: str) -> Line:
    """A text in which nothing was looked for."""
    return Marks().runs("", text)


def changed(text: str, *, spelt: bool) -> Line:
    """A piece of a difference; `spelt` where it came or went, so that blanks alone are seen too."""
    if spelt and text and not text.strip():
        return [Run(text, _spelt(text), unseen=True, title=_titles(text))]
    drawn: Line = []
    for at, line in enumerate(Marks().lines("", text)):
        if at:
            drawn += [Run("", Shown("line break"), unseen=True, title="line break")] if spelt else []
            drawn.append(Run("\n", Shown("\n")))
        drawn += line
    return drawn


def place(where: str) -> str:
    """One spelling for a path, whether it writes `items[0]` or `items.0`."""
    return re.sub(r"\[(\d+)\]", r".\1", where)


def _lines(text: str, found: Sequence[tuple[int, ToolFinding]]) -> list[Line]:
    starts: dict[int, list[tuple[int, ToolFinding]]] = {}
    ends: dict[int, set[int]] = {}
    for number, one in found:
        start, end = _within(one.span, len(text))
        starts.setdefault(start, []).append((number, one))
        ends.setdefault(end, set()).add(number)
    hidden = dict(_hidden(text))
    edges = sorted({0, len(text), *starts, *ends, *hidden, *hidden.values()})
    lines: list[Line] = [[]]
    open_now: list[tuple[int, ToolFinding]] = []
    unseen_until = 0
    for start, end in pairwise(edges):
        begun = starts.get(start, [])
        over = ends.get(start, set())
        open_now = [pair for pair in open_now if pair[0] not in over] + begun
        unseen_until = hidden.get(start, unseen_until)
        like = Run("", Shown(), start < unseen_until, "", _tier(open_now), _numbers(open_now), _numbers(begun))
        _put(text[start:end], like, lines)
    return lines


def _within(span: tuple[int, int] | None, length: int) -> tuple[int, int]:
    """A span that is there and holds a character, whatever a rule said."""
    start, end = span or (0, 0)
    start = max(0, min(start, length - 1))
    return start, max(start + 1, min(end, length))


def _put(text: str, like: Run, lines: list[Line]) -> None:
    """A piece of the text at the end of the lines, which go on where it has line breaks."""
    if like.unseen:
        # The last of many line breaks is drawn as one, and stands between the lines like any other.
        breaks = text.startswith("\n")
        own = text[:-1] if breaks else text
        lines[-1].append(like._replace(source=own, text=_spelt(text), title=_titles(text)))
        if breaks:
            lines.append([])
        return
    for at, part in enumerate(text.split("\n")):
        if at:
            lines.append([])
        if part:
            lines[-1].append(like._replace(source=part, text=Shown(part)))
            like = like._replace(first="")


def _hidden(text: str) -> Iterator[tuple[int, int]]:
    """Where characters stand that nobody would see, or that would cover what is around them."""
    for match in _SUSPECT.finditer(text):
        start, end = match.span()
        if match[0][0] in " \n":
            yield start, end
            continue
        for kind, group in groupby(range(start, end), key=lambda at: _kind(text[at])):
            first, *others = group
            last = others[-1] if others else first
            if kind == "unseen" or (kind == "mark" and _piled(text, first, last + 1)):
                yield first, last + 1


def _piled(text: str, start: int, end: int) -> bool:
    """Marks belong to the letter before them: few are read, many cover the lines around them."""
    before = text[start - 1 : start]
    cluster = ("" if before in ("\n", "\\") else before) + text[start:end]
    return escape(cluster) != cluster


@lru_cache(4096)
def _kind(char: str) -> str:
    if char > "\u02ff" and unicodedata.category(char) == "Mn" and escape(f"a{char}") == f"a{char}":
        return "mark"
    return "seen" if escape(char) == char else "unseen"


def _spelt(text: str) -> Shown:
    """`U+200B × 3 U+202E`; letters of the tag block, which spell ASCII out of sight, as what they spell."""
    parts = []
    for tagged, group in groupby(text, key=_is_tag):
        if tagged:
            word = "".join(chr(ord(char) - _TAGS) for char in group)
            parts.append(f"tag characters \u201c{word}\u201d")
            continue
        for char, same in groupby(group):
            count = sum(1 for _ in same)
            name = _NAMED.get(char, f"U+{ord(char):04X}")
            parts.append(name if count == 1 else f"{name} \u00d7 {count}")
    return Shown(" ".join(parts))


def _is_tag(char: str) -> bool:
    return 0x20 <= ord(char) - _TAGS <= 0x7E


def _titles(text: str) -> str:
    """What the characters are called, a few of them."""
    known = (
        _NAMED.get(char) or unicodedata.name(char, "a character without a name").lower() for char in text[:_TITLES]
    )
    return ", ".join(dict.fromkeys(known))


def _tier(found: Iterable[tuple[int, ToolFinding]]) -> str:
    tiers = {one.tier for _, one in found}
    return "hard" if "hard" in tiers else "soft" if tiers else ""


def _numbers(found: Iterable[tuple[int, ToolFinding]]) -> str:
    return ", ".join(str(number) for number, _ in found)
