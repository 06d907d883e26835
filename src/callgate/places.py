"""Where things stand in a text of TOML or JSON: the readers of the standard library tell values, not places.

The text has been read by them before, so this only has to find its way through what is valid.
"""

from __future__ import annotations

import re
from typing import Final

from callgate.errors import Problem

Path = tuple[str | int, ...]

_WIDTH: Final = 100
_GAP: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[^\s]"
)
_CONTINUED: Final = re.compile(r"\\[ \t]*\n\s*")


class Places:
    """A text, and where each of its keys and values begins."""

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.text = text
        self.keys: dict[Path, int] = {}
        self.values: dict[Path, int] = {}
        # Keys that occur again, which JSON lets pass.
        self.again: list[tuple[Path, int]] = []

    def problem(self, at: int, key: str, what: str) -> Problem:
        """The mistake with its line, the line itself and a caret under its character."""
        begin = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[begin : len(self.text) if end < 0 else end].replace("\t", " ")
        column = at - begin
        cut = max(0, column - _WIDTH // 2) if len(line) > _WIDTH else 0
        shown = _printable(line[cut : cut + _WIDTH])
        excerpt = f"{_printable(what)}\n    {shown}\n    {' ' * (column - cut)}^"
        return Problem(self.source, self.text.count("\n", 0, at) + 1, key, excerpt)

    def of_key(self, path: Path) -> int:
        """Where a key begins, or the nearest thing around it."""
        return self._nearest(self.keys, path)

    def of_value(self, path: Path) -> int:
        """Where a value begins, or the nearest thing around it."""
        return self.values[path] if path in self.values else self.of_key(path)

    def line(self, path: Path) -> int | None:
        """The line of a key, or of the nearest thing around it; what is in a list stands where the list begins."""
        for at, part in enumerate(path):
            if isinstance(part, int) and path[: at + 1] in self.values:
                path = path[:at]
                break
        for length in range(len(path), 0, -1):
            if found := [at for key, at in self.keys.items() if key[:length] == path[:length]]:
                return self.text.count("\n", 0, min(found)) + 1
        return None

    def inside(self, path: Path, index: int) -> int:
        """Where a character of a string stands, quotes and escapes counted."""
        begin = self.of_value(path)
        match = _STRING.match(self.text, begin)
        return begin if match is None else begin + _skip(match[0], index)

    def _nearest(self, places: dict[Path, int], path: Path) -> int:
        for length in range(len(path), 0, -1):
            if path[:length] in places:
                return places[path[:length]]
        return 0


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _skip(raw: str, index: int) -> int:
    long = raw.startswith(('"""', "'''"))
    at = 3 if long else 1
    if long and raw.startswith("\n", at):
        at += 1
    escapes = raw.startswith('"')
    for _ in range(index + 1):
        while escapes and (continued := _CONTINUED.match(raw, at)):
            at = continued.end()
        last = at
        escape = _ESCAPE.match(raw, at) if escapes else None
        at = escape.end() if escape else at + 1
    return min(last, len(raw) - (3 if long else 1))


def toml_places(source: str, text: str) -> Places:
    """The places in a text that is valid TOML."""
    return _Toml(source, text).scanned()


def json_places(source: str, text: str) -> Places:
    """The places in a text that is valid JSON."""
    return _Json(source, text).scanned()


class _Scanner(Places):
    def __init__(self, source: str, text: str) -> None:
        super().__init__(source, text)
        self._at = 0

    def _note(self, path: Path, at: int) -> None:
        if path in self.keys:
            self.again.append((path, at))
        self.keys.setdefault(path, at)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self.text, self._at):
            self._at = match.end()

    def _string(self) -> str:
        match = _STRING.match(self.text, self._at)
        if match is None:  # not valid: nothing to find from here on
            self._at = len(self.text)
            return '""'
        self._at = match.end()
        return match[0]

    def _here(self) -> str:
        return self.text[self._at : self._at + 1]

    def _array(self, path: Path) -> None:
        self._at += 1
        position = 0
        while True:
            self._skip(_GAP)
            if self._here() in {"]", ""}:
                self._at += 1
                return
            if self._here() == ",":
                self._at += 1
                continue
            self._note((*path, position), self._at)
            self._value((*path, position))
            position += 1

    def _value(self, path: Path) -> None:
        self.values[path] = self._at
        here = self._here()
        if here in {'"', "'"}:
            self._string()
        elif here == "[":
            self._array(path)
        elif here == "{":
            self._table(path)
        else:
            begin = self._at
            self._skip(_SCALAR)
            self._at = max(self._at, begin + 1)

    def _table(self, path: Path) -> None:
        self._at += 1
        while True:
            self._skip(_GAP)
            if self._here() in {"}", ""}:
                self._at += 1
                return
            if self._here() == ",":
                self._at += 1
                continue
            self._member(path)

    def _member(self, path: Path) -> None:
        raise NotImplementedError


class _Json(_Scanner):
    def scanned(self) -> Places:
        self._skip(_GAP)
        self._value(())
        return self

    def _member(self, path: Path) -> None:
        at = self._at
        name = _unquoted(self._string())
        self._note((*path, name), at)
        self._skip(_GAP)
        self._at += 1
        self._skip(_GAP)
        self._value((*path, name))


class _Toml(_Scanner):
    def scanned(self) -> Places:
        table: Path = ()
        counts: dict[Path, int] = {}
        while True:
            self._skip(_GAP)
            at = self._at
            if at >= len(self.text):
                return self
            if self._here() == "[":
                array = self.text.startswith("[[", at)
                self._at += 2 if array else 1
                table = _numbered(self._key(), counts, last=not array)
                self._at += 2 if array else 1
                if array:
                    counts[table] = counts.get(table, -1) + 1
                    self.keys.setdefault(table, at)
                    table = (*table, counts[table])
                self.keys.setdefault(table, at)
            else:
                self._member(table)

    def _member(self, path: Path) -> None:
        at = self._at
        path = (*path, *self._key())
        self._note(path, at)
        self._at += 1
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> Path:
        parts: list[str | int] = []
        while True:
            self._skip(_SPACE)
            if bare := _BARE.match(self.text, self._at):
                parts.append(bare[0])
                self._at = bare.end()
            else:
                parts.append(_unquoted(self._string()))
            self._skip(_SPACE)
            if self._here() != ".":
                return tuple(parts)
            self._at += 1


def _numbered(path: Path, counts: dict[Path, int], *, last: bool) -> Path:
    """Puts in the current position in each array of tables on the way."""
    found: Path = ()
    for position, part in enumerate(path):
        found = (*found, part)
        if found in counts and (last or position < len(path) - 1):
            found = (*found, counts[found])
    return found


def _unquoted(raw: str) -> str:
    if raw.startswith("'"):
        return raw[1:-1]
    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", _unescaped, raw[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    if code := match[1] or match[2]:
        return chr(int(code, 16))
    return {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}.get(match[3], match[3])
