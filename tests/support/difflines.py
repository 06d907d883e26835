"""Reads a printed difference as a person does who sees no colours: by its marks alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from callgate.cli.printing import GUTTER, Line, fold_lines
from callgate.pinning.review.views import Piece

_PART: Final = re.compile(r"\[-(?P<gone>.*?)-\]|\{\+(?P<new>.*?)\+\}", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u\{([0-9a-f]+)\}|u([0-9a-f]{4})|(.))", re.DOTALL)


def read_back(lines: Iterable[Line]) -> list[Piece]:
    """The pieces that were printed."""
    printed = [text.plain for text in fold_lines(lines, None)]
    assert all(line.startswith(GUTTER) for line in printed)
    return list(_read("\n".join(line.removeprefix(GUTTER) for line in printed)))


def _read(text: str) -> Iterator[Piece]:
    end = 0
    for match in _PART.finditer(text):
        if match.start() > end:
            yield Piece("same", _plain(text[end : match.start()]))
        end = match.end()
        if match["gone"] is not None:
            yield Piece("gone", _changed(match["gone"]))
        else:
            yield Piece("new", _changed(match["new"]))
    if end < len(text):
        yield Piece("same", _plain(text[end:]))


def _changed(text: str) -> str:
    """What is drawn in changed pieces stands for white space."""
    return _plain(text.replace("↵\n", "\n").replace("·", " "))


def _plain(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        long, short, letter = match.groups()
        return chr(int(long or short, 16)) if long or short else {"n": "\n", "r": "\r", "t": "\t"}.get(letter, letter)

    return _ESCAPE.sub(one, text)


def read_value(line: str) -> str:
    """The JSON between the marks of a line."""
    found = _PART.fullmatch(line)
    assert found is not None, line
    value = next(one for one in found.groups() if one is not None)
    # JSON has no such escape; the ones that it has stay.
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[0], value)
