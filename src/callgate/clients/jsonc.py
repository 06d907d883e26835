"""JSON with comments, with the place of each part, and changes to such a text by span: the rest stays, to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

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
_PLAIN: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (("number", _NUMBER), ("word", _WORD))
MASK: Final = '"***"'
# What holds secrets by custom; what a diff shows of it is that it is there.
_SECRET: Final = frozenset({"env", "headers"})
_INDENT: Final = re.compile(r"(?:\A\ufeff?|\r?\n)[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value and where it stands: `text[start:end]`. `comma` is where a comma stands behind the last part."""

    kind: Kind
    start: int
    end: int
    string: str = ""
    members: tuple[JsonMember, ...] = ()
    items: tuple[JsonNode, ...] = ()
    comma: int | None = None

    def get(self, key: str) -> JsonMember | None:
        return next((member for member in self.members if member.key == key), None)

    @property
    def strings(self) -> list[str] | None:
        """What an array of nothing but strings holds."""
        if self.kind != "array" or any(item.kind != "string" for item in self.items):
            return None
        return [item.string for item in self.items]


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A key, where it stands with its quotes, and its value."""

    key: str
    start: int
    end: int
    value: JsonNode


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


def scan(text: str, source: str = "the file") -> JsonNode:
    """The whole text as a tree, or `NotJson`."""
    return _Scanner(text, source).whole()


class _Scanner:
    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._at = len(_BOM) if text.startswith(_BOM) else 0
        self._left = MAX_VALUES

    def whole(self) -> JsonNode:
        self._skip()
        if self._at == len(self._text):
            raise self._wrong("the file is empty")
        node = self._value(0)
        self._skip()
        if self._at != len(self._text):
            raise self._wrong("there is more behind the end of the value")
        return node

    def _value(self, depth: int) -> JsonNode:
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
                return JsonNode(kind, match.start(), match.end())
        raise self._wrong("a value is missing here" if char in ("", ",", "}", "]", ":") else "this is not a JSON value")

    def _object(self, depth: int) -> JsonNode:
        start, comma = self._at, None
        members: list[JsonMember] = []
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
            members.append(JsonMember(key.string, key.start, key.end, self._value(depth + 1)))
            comma = self._comma()
        return JsonNode("object", start, self._at, members=tuple(members), comma=comma)

    def _array(self, depth: int) -> JsonNode:
        start, comma = self._at, None
        items: list[JsonNode] = []
        self._at += 1
        while not self._closes("]", start, first=not items, comma=comma):
            items.append(self._value(depth + 1))
            comma = self._comma()
        return JsonNode("array", start, self._at, items=tuple(items), comma=comma)

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

    def _string(self) -> JsonNode:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._wrong("this string is never closed, or holds what JSON has to escape")
        self._at = match.end()
        raw = match[0]
        return JsonNode("string", match.start(), match.end(), json.loads(raw) if "\\" in raw else raw[1:-1])

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


class Edit(NamedTuple):
    """`text[start:end]` becomes `new`; `shown` is how a diff shows that, where it holds a secret."""

    start: int
    end: int
    new: str
    shown: str | None = None


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with its edits made."""
    out, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise ConfigError("two changes of one place", advice="Nothing was changed. Edit this entry by hand.")
        out += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*out, text[at:]])


def quote_words(words: Iterable[str]) -> str:
    """The words as they stand in an array."""
    return ", ".join(json.dumps(word, ensure_ascii=False) for word in words)


def gap_before(text: str, member: JsonMember) -> str:
    """What separates this member from the one before: a line of its own with its indentation, or a blank."""
    found = _INDENT.search(text, max(0, member.start - 400), member.start)
    return found[0].lstrip("\ufeff") if found and "\n" in found[0] else " "


def remove_member(holder: JsonNode, member: JsonMember) -> Edit:
    """Takes a member away, and one comma with it."""
    place = holder.members.index(member)
    if place:
        return Edit(holder.members[place - 1].value.end, member.value.end, "")
    if len(holder.members) > 1:
        return Edit(member.start, holder.members[1].start, "")
    return Edit(member.start, member.value.end if holder.comma is None else holder.comma + 1, "")


def remove_item(array: JsonNode, place: int) -> Edit:
    """Takes an item away, and one comma with it."""
    items = array.items
    if place:
        return Edit(items[place - 1].end, items[place].end, "")
    if len(items) > 1:
        return Edit(items[0].start, items[1].start, "")
    return Edit(items[0].start, items[0].end if array.comma is None else array.comma + 1, "")


def remove_first(array: JsonNode, count: int) -> Edit:
    """Takes the first items of an array away."""
    items = array.items
    if count < len(items):
        return Edit(items[0].start, items[count].start, "")
    return Edit(items[0].start, items[-1].end if array.comma is None else array.comma + 1, "")


class Hunk(NamedTuple):
    """Some lines before and after, and the number of the first."""

    line: int
    before: list[str]
    after: list[str]


def hunks(text: str, tree: JsonNode, edits: Sequence[Edit], context: int = 2) -> list[Hunk]:
    """What a person is shown of the edits: whole lines, with the lines around them, and no secrets."""
    masks = _masks(tree)
    found: list[tuple[int, int, list[Edit]]] = []
    for edit in sorted(edits):
        start, end = _around(text, edit.start, edit.end, context)
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1]), [*found[-1][2], edit]
        else:
            found.append((start, end, [edit]))
    return [
        Hunk(
            text.count("\n", 0, start) + 1,
            _lines(text, start, end, [mask for mask in masks if start <= mask.start and mask.end <= end]),
            _lines(text, start, end, [*_shown_edits(inside), *_other_masks(masks, inside, start, end)]),
        )
        for start, end, inside in found
    ]


def difference(before: str, after: str, tree: JsonNode) -> Edit:
    """All that differs, as one edit of whole lines; `tree` is that of the text after it."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    start, kept = sum(map(len, new[:head])), sum(map(len, new[len(new) - tail :]))
    end = len(after) - kept
    inside = [Edit(m.start - start, m.end - start, m.new) for m in _masks(tree) if start <= m.start and m.end <= end]
    return Edit(start, len(before) - kept, after[start:end], apply(after[start:end], inside))


def _around(text: str, start: int, end: int, context: int) -> tuple[int, int]:
    """The span widened to whole lines, and by so many more."""
    start = text.rfind("\n", 0, start) + 1
    for _ in range(context):
        start = text.rfind("\n", 0, max(0, start - 1)) + 1
    for _ in range(context + 1):
        following = text.find("\n", end)
        end = len(text) if following < 0 else following + 1
    return start, end


def _lines(text: str, start: int, end: int, edits: Iterable[Edit]) -> list[str]:
    moved = [Edit(edit.start - start, edit.end - start, edit.new) for edit in edits]
    lines = apply(text[start:end], moved).lstrip("\ufeff").split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _shown_edits(edits: Iterable[Edit]) -> list[Edit]:
    return [Edit(edit.start, edit.end, edit.new if edit.shown is None else edit.shown) for edit in edits]


def _other_masks(masks: Iterable[Edit], edits: Sequence[Edit], start: int, end: int) -> list[Edit]:
    return [
        mask
        for mask in masks
        if start <= mask.start
        and mask.end <= end
        and not any(edit.start < mask.end and mask.start < edit.end for edit in edits)
    ]


def _masks(tree: JsonNode) -> list[Edit]:
    """The values of everything under `env` and `headers`, and addresses that carry more than a place."""
    found: list[Edit] = []
    todo = [tree]
    while todo:
        node = todo.pop()
        todo += node.items
        for member in node.members:
            if member.key in _SECRET and member.value.kind == "object":
                values = [inner.value for inner in member.value.members]
                found += [Edit(value.start, value.end, MASK) for value in values if value.kind == "string"]
            elif member.value.kind == "string" and may_be_secret(member.value.string):
                found.append(Edit(member.value.start, member.value.end, MASK))
            else:
                todo.append(member.value)
    return sorted(found)


def may_be_secret(url: str) -> bool:
    """Whether an address may hold a secret: a password, a query, a variable, or a part that looks like a key."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("http", "https"):
        return False
    return re.search(r"[@?#$]", rest) is not None or re.search(r"/[^/]*[0-9A-Za-z_-]{20}", rest) is not None
