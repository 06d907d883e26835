"""On which line a key of a TOML file stands: tomllib tells values, not places.

The text has been read by tomllib before, so this only has to find its way through valid TOML 1.0. What stands inside
an inline table is found at the key that holds the table.
"""

from __future__ import annotations

import re
from typing import Final

Path = tuple[str | int, ...]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PLAIN: Final = re.compile(r"[^\"'\[\]{}#\n]+")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class KeyLines:
    """The lines of a file's tables and keys."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[Path, int] = {}
        self._counted = (0, 1)
        self._arrays: dict[Path, int] = {}
        self._scan()

    def line(self, path: Path) -> int | None:
        """The line of a key, or of the nearest table or key around it."""
        for length in range(len(path), 0, -1):
            if found := self._lines.get(path[:length]):
                return found
        return None

    def _scan(self) -> None:
        table: Path = ()
        while True:
            self._skip(_BLANK)
            if self._at >= len(self._text):
                return
            line = self._line_here()
            if self._text[self._at] == "[":
                table = self._header(line)
            else:
                path = self._resolve(table + self._key())
                self._note(path, line)
                self._at += 1
                self._value()

    def _header(self, line: int) -> Path:
        array = self._text.startswith("[[", self._at)
        self._at += 2 if array else 1
        path = self._resolve(self._key(), last=not array)
        self._at += 2 if array else 1
        if array:
            self._arrays[path] = self._arrays.get(path, -1) + 1
            self._note(path, line)
            path = (*path, self._arrays[path])
        self._note(path, line)
        return path

    def _resolve(self, path: Path, *, last: bool = True) -> Path:
        """Puts in the current index of each array of tables on the way."""
        resolved: Path = ()
        for position, part in enumerate(path):
            resolved = (*resolved, part)
            if resolved in self._arrays and (last or position < len(path) - 1) and not _has_index(path, position):
                resolved = (*resolved, self._arrays[resolved])
        return resolved

    def _note(self, path: Path, line: int) -> None:
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)

    def _key(self) -> Path:
        parts: list[str | int] = []
        while True:
            self._skip(_SPACE)
            if bare := _BARE.match(self._text, self._at):
                parts.append(bare[0])
                self._at = bare.end()
            else:
                parts.append(_unquote(self._string()))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return tuple(parts)
            self._at += 1

    def _value(self) -> None:
        """Goes to the end of a value: the newline or the end of the text that is not inside brackets or strings."""
        depth = 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in "\"'":
                self._string()
                continue
            if char == "#":
                self._skip(_BLANK if depth else _COMMENT)
                continue
            if char == "\n" and not depth:
                return
            if char in "[{":
                depth += 1
            elif char in "]}":
                depth -= 1
            plain = _PLAIN.match(self._text, self._at)
            self._at = plain.end() if plain else self._at + 1

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:  # not valid TOML: nothing to find from here on
            self._at = len(self._text)
            return '""'
        self._at = match.end()
        return match[0]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self._text, self._at):
            self._at = match.end()

    def _line_here(self) -> int:
        position, line = self._counted
        line += self._text.count("\n", position, self._at)
        self._counted = (self._at, line)
        return line


def _has_index(path: Path, position: int) -> bool:
    return position + 1 < len(path) and isinstance(path[position + 1], int)


def _unquote(quoted: str) -> str:
    if quoted.startswith("'"):
        return quoted[1:-1]
    return _ESCAPE.sub(_unescape, quoted[1:-1])


def _unescape(match: re.Match[str]) -> str:
    if code := match[1] or match[2]:
        return chr(int(code, 16))
    return _SHORT.get(match[3], match[3])
