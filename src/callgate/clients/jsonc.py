"""JSON as editors write it, with comments and trailing commas: read into a tree that knows where each value stands.

Nothing is ever written back from the tree: whoever changes a file replaces spans of its text, and every other byte
stays.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Literal

from callgate.errors import ConfigError

MAX_BYTES: Final = 16 * 2**20
MAX_DEPTH: Final = 100
MAX_VALUES: Final = 500_000

_BLANK: Final = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![0-9A-Za-z_.+-])")
_WORD: Final = re.compile(r"(?:true|false|null)(?![0-9A-Za-z_])")
_BOM: Final = "\ufeff"

Kind = Literal["object", "array", "string", "number", "word"]


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands: `text[start:end]`. `comma` is where a comma stands behind the last part."""

    kind: Kind
    start: int
    end: int
    string: str = ""
    members: tuple[Member, ...] = ()
    items: tuple[Node, ...] = ()
    comma: int | None = None

    def get(self, key: str) -> Member | None:
        return next((member for member in self.members if member.key == key), None)

    @property
    def strings(self) -> list[str] | None:
        """What an array of nothing but strings holds."""
        if self.kind != "array" or any(item.kind != "string" for item in self.items):
            return None
        return [item.string for item in self.items]


@dataclass(frozen=True, slots=True)
class Member:
    """A key, where it stands with its quotes, and its value."""

    key: str
    start: int
    end: int
    value: Node


class NotJson(ConfigError):
    """A text that is no JSON, and the place where it stops being some."""

    def __init__(self, source: str, line: int, column: int, what: str) -> None:
        super().__init__(
            f"{source}:{line}:{column}: {what}",
            advice="Nothing in this file was changed. Put it right in an editor, then run the command again.",
        )
        self.line = line
        self.column = column
        self.what = what


def decode(data: bytes, source: str) -> str:
    """The text of a file, every byte of it: the mark at the beginning and the line ends stay."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source}: the file is larger than {MAX_BYTES} bytes", advice="Is this the right file?")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise NotJson(source, line, column, "this is not UTF-8 text") from None


def scan(text: str, source: str = "the file") -> Node:
    """The whole text as a tree, or `NotJson`."""
    return _Scanner(text, source).whole()


class _Scanner:
    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._at = len(_BOM) if text.startswith(_BOM) else 0
        self._left = MAX_VALUES

    def whole(self) -> Node:
        self._skip()
        if self._at == len(self._text):
            raise self._wrong("the file is empty")
        node = self._value(0)
        self._skip()
        if self._at != len(self._text):
            raise self._wrong("there is more behind the end of the value")
        return node

    def _value(self, depth: int) -> Node:
        self._left -= 1
        if self._left < 0:
            raise self._wrong(f"the file has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise self._wrong(f"the file is nested deeper than {MAX_DEPTH} levels")
        char = self._text[self._at : self._at + 1]
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char == '"':
            return self._string()
        for kind, pattern in _PLAIN:
            if match := pattern.match(self._text, self._at):
                self._at = match.end()
                return Node(kind, match.start(), match.end())
        raise self._wrong("a value is missing here" if char in ("", ",", "}", "]", ":") else "this is not a JSON value")

    def _object(self, depth: int) -> Node:
        start, comma = self._at, None
        members: list[Member] = []
        seen: set[str] = set()
        self._at += 1
        while not self._closes("}", start, first=not members, comma=comma):
            if self._text[self._at] != '"':
                raise self._wrong("a key in double quotes is missing here")
            key = self._string()
            if key.string in seen:
                raise self._wrong(f"the key {json.dumps(key.string)} is here for the second time", key.start)
            seen.add(key.string)
            self._skip()
            if not self._text.startswith(":", self._at):
                raise self._wrong("a colon is missing here, behind the key")
            self._at += 1
            self._skip()
            members.append(Member(key.string, key.start, key.end, self._value(depth + 1)))
            comma = self._comma()
        return Node("object", start, self._at, members=tuple(members), comma=comma)

    def _array(self, depth: int) -> Node:
        start, comma = self._at, None
        items: list[Node] = []
        self._at += 1
        while not self._closes("]", start, first=not items, comma=comma):
            items.append(self._value(depth + 1))
            comma = self._comma()
        return Node("array", start, self._at, items=tuple(items), comma=comma)

    def _closes(self, bracket: str, start: int, *, first: bool, comma: int | None) -> bool:
        """Whether the object or array ends here; if it goes on, a comma has to stand before the next part."""
        self._skip()
        if self._at == len(self._text):
            raise self._wrong(f"the file ends here, and this {self._text[start]!r} is never closed", start)
        if self._text[self._at] == bracket:
            self._at += 1
            return True
        if not first and comma is None:
            raise self._wrong("a comma is missing before this")
        return False

    def _comma(self) -> int | None:
        self._skip()
        if not self._text.startswith(",", self._at):
            return None
        self._at += 1
        return self._at - 1

    def _string(self) -> Node:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._wrong("this string is never closed, or holds what JSON has to escape")
        self._at = match.end()
        raw = match[0]
        return Node("string", match.start(), match.end(), json.loads(raw) if "\\" in raw else raw[1:-1])

    def _skip(self) -> None:
        match = _BLANK.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        if self._text.startswith("/*", self._at):
            raise self._wrong("this comment is never closed")

    def _wrong(self, what: str, at: int | None = None) -> NotJson:
        at = self._at if at is None else at
        before = self._text[:at]
        return NotJson(self._source, before.count("\n") + 1, at - before.rfind("\n"), what)


_PLAIN: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (("number", _NUMBER), ("word", _WORD))
