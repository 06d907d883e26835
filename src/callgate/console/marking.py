"""A server's text as its reviewer reads it: whole, what is invisible spelt out, and what was found in it marked.

The text is cut into lines of runs, and the template draws each. Nothing is left out: the runs' own characters, joined,
are the text again.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, Final, Literal, NamedTuple

from callgate.approval.display import escape
from callgate.console.rendering import EscapedText
from callgate.inspection import ToolFinding
from callgate.inspection.text import quoted, script

# So many blanks or empty lines push what follows out of sight; they are counted instead.
_BLANKS: Final = 40
_BREAKS: Final = 20
_SUSPECT: Final = re.compile(rf" {{{_BLANKS + 1},}}|\n{{{_BREAKS + 1},}}|[^\x20-\x7e\n]+")
# The tag block repeats ASCII from here on, drawn as nothing.
_TAGS: Final = 0xE0000
_TITLES: Final = 8
_NAMED: Final = {" ": "space", "\n": "line break", "\t": "tab"}
# Beyond this a tree helps nobody; then the exact text below it is what is read.
MOST_LINES: Final = 2_000
_IN_A_LINE: Final = 32
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# Keys that stand in a path as they are; others are quoted there, and cut.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_$-]{1,60}\Z")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS: Final = ("$defs", "definitions", "patternProperties", "dependentSchemas")
_ONE: Final = (
    *("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames"),
    *("not", "if", "then", "else", "contentSchema"),
)


class Run(NamedTuple):
    """Characters that are drawn alike: as they are, or spelt out where nobody would see them.

    `tier` and `numbers` are those of the findings that it belongs to, `first` the numbers of those that begin here.
    """

    source: str
    text: EscapedText
    unseen: bool = False
    title: str = ""
    tier: str = ""
    numbers: str = ""
    first: str = ""


Runs = list[Run]


class TextMarks:
    """The findings of one tool, numbered as they are listed beside its text."""

    def __init__(self, findings: Iterable[ToolFinding] = ()) -> None:
        self._places: dict[str, list[tuple[int, ToolFinding]]] = {}
        for number, found in enumerate(findings, 1):
            self._places.setdefault(place(found.where), []).append((number, found))

    def lines(self, where: str, text: str) -> list[Runs]:
        """The lines of a text, with the findings at this place marked in it."""
        found = [(number, one) for number, one in self._places.get(place(where), ()) if one.span is not None]
        return _lines(text, found)

    def runs(self, where: str, text: str) -> Runs:
        """The same for a text that stands in a line of its own: its line breaks are spelt out."""
        joined: Runs = []
        for at, line in enumerate(self.lines(where, text)):
            if at:
                joined.append(Run("\n", EscapedText("line break"), unseen=True, title="line break"))
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


def plain(text: str) -> Runs:
    """A text in which nothing was looked for."""
    return TextMarks().runs("", text)


# Begun only where a word begins: otherwise a long word would be read again from each of its letters.
_HOST: Final = re.compile(r"(?<![\w.-])\w[\w-]{0,62}(?:\.[\w-]{1,63})+")
_HOSTS: Final = 8


def mixed_hosts(text: str) -> list[str]:
    """Host names in a text whose letters are of several alphabets, each with what is odd in it: `раypal.com` only looks
    like the name that one knows. Names in their ASCII form (`xn--…`) are read as what they stand for."""
    found: dict[str, None] = {}
    for match in _HOST.finditer(text):
        name = ".".join(map(_readable, match[0].split(".")))
        if name.isascii() or name in found:
            continue
        scripts = {script(char) or "other" for char in name if char.isalpha()}
        if len(scripts) > 1:
            found[name] = None
            if len(found) == _HOSTS:
                break
    return [f"“{escape(name)}” ({_odd_letters(name)})" for name in found]


_BEHIND_USER: Final = re.compile(
    r'(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://([^\s/?#"\\]{1,300})@([^\s/?#"\\@]{1,300})'
)


def hosts_behind_a_user(text: str) -> list[str]:
    """Addresses in a text that begin with a user's name which looks like a host: `https://bank.example@evil.example`
    leads to the second one."""
    found = dict.fromkeys(match.groups() for match in _BEHIND_USER.finditer(text) if "." in match[1])
    return [f"“{escape(user)}@{escape(host)}” leads to {escape(host)}" for user, host in list(found)[:_HOSTS]]


def _readable(label: str) -> str:
    if not label.lower().startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _odd_letters(name: str) -> str:
    odd = dict.fromkeys(char for char in name if char.isalpha() and not char.isascii())
    return ", ".join(f"{char}: {unicodedata.name(char, 'unnamed').lower()}" for char in list(odd)[:4])


def changed_runs(text: str, *, spelt: bool) -> Runs:
    """A piece of a difference; `spelt` where it came or went, so that blanks alone are seen too."""
    if spelt and text and not text.strip():
        return [Run(text, _spell_out(text), unseen=True, title=_titles(text))]
    drawn: Runs = []
    for at, line in enumerate(TextMarks().lines("", text)):
        if at:
            drawn += [Run("", EscapedText("line break"), unseen=True, title="line break")] if spelt else []
            drawn.append(Run("\n", EscapedText("\n")))
        drawn += line
    return drawn


def place(where: str) -> str:
    """One spelling for a path, whether it writes `items[0]` or `items.0`."""
    return re.sub(r"\[(\d+)\]", r".\1", where)


def _lines(text: str, found: Sequence[tuple[int, ToolFinding]]) -> list[Runs]:
    starts: dict[int, list[tuple[int, ToolFinding]]] = {}
    ends: dict[int, set[int]] = {}
    for number, one in found:
        start, end = _valid_span(one.span, len(text))
        starts.setdefault(start, []).append((number, one))
        ends.setdefault(end, set()).add(number)
    hidden = dict(_hidden(text))
    edges = sorted({0, len(text), *starts, *ends, *hidden, *hidden.values()})
    lines: list[Runs] = [[]]
    open_now: list[tuple[int, ToolFinding]] = []
    unseen_until = 0
    for start, end in pairwise(edges):
        begun = starts.get(start, [])
        over = ends.get(start, set())
        open_now = [pair for pair in open_now if pair[0] not in over] + begun
        unseen_until = hidden.get(start, unseen_until)
        like = Run("", EscapedText(), start < unseen_until, "", _tier(open_now), _numbers(open_now), _numbers(begun))
        _append_text(text[start:end], like, lines)
    return lines


def _valid_span(span: tuple[int, int] | None, length: int) -> tuple[int, int]:
    """A span that is there and holds a character, whatever a rule said."""
    start, end = span or (0, 0)
    start = max(0, min(start, length - 1))
    return start, max(start + 1, min(end, length))


def _append_text(text: str, like: Run, lines: list[Runs]) -> None:
    """A piece of the text at the end of the lines, which go on where it has line breaks."""
    if like.unseen:
        # The last of many line breaks is drawn as one, and stands between the lines like any other.
        breaks = text.startswith("\n")
        own = text[:-1] if breaks else text
        lines[-1].append(like._replace(source=own, text=_spell_out(text), title=_titles(text)))
        if breaks:
            lines.append([])
        return
    for at, part in enumerate(text.split("\n")):
        if at:
            lines.append([])
        if part:
            lines[-1].append(like._replace(source=part, text=EscapedText(part)))
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
            if kind == "unseen" or (kind == "mark" and _is_piled_up(text, first, last + 1)):
                yield first, last + 1


def _is_piled_up(text: str, start: int, end: int) -> bool:
    """Marks belong to the letter before them: few are read, many cover the lines around them."""
    before = text[start - 1 : start]
    cluster = ("" if before in ("\n", "\\") else before) + text[start:end]
    return escape(cluster) != cluster


@lru_cache(4096)
def _kind(char: str) -> str:
    if char > "\u02ff" and unicodedata.category(char) == "Mn" and escape(f"a{char}") == f"a{char}":
        return "mark"
    return "seen" if escape(char) == char else "unseen"


def _spell_out(text: str) -> EscapedText:
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
    return EscapedText(" ".join(parts))


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


class Branch(NamedTuple):
    """`open` and `close` stand around what is inside; `leaf` is a value.

    `keyword` is the word of JSON Schema that it stands under, where the key is the server's own.
    """

    what: Literal["open", "close", "leaf"]
    key: Sequence[Run] = ()
    keyword: str = ""
    tags: tuple[str, ...] = ()
    kind: str = ""
    text: Sequence[Run] = ()
    tier: str = ""
    numbers: str = ""


class _Item(NamedTuple):
    path: str
    key: str
    value: Any
    schema: bool
    keyword: str = ""
    required: bool = False


def outline(value: Any, where: str, marks: TextMarks, *, schema: bool = True) -> list[Branch] | None:
    """The lines of what stands at a path; None where a tree is no help: too deep, too many values."""
    lines: list[Branch] = []
    stack: list[Iterator[_Item]] = [iter([_Item(where, where, value, schema and isinstance(value, dict))])]
    while stack:
        item = next(stack[-1], None)
        if len(lines) == MOST_LINES:
            return None
        if item is None:
            stack.pop()
            if stack:
                lines.append(Branch("close"))
            continue
        inside = [] if _short(item, marks) else _inside(item)
        lines.append(_line(item, marks, leaf=not inside))
        if inside:
            stack.append(iter(inside))
    return lines


def _short(item: _Item, marks: TextMarks) -> bool:
    """A list of plain values, such as an enum, that fits into a line."""
    if not isinstance(item.value, list) or marks.under(item.path):
        return False
    if any(isinstance(one, (dict, list)) for one in item.value[:_IN_A_LINE]):
        return False
    return len(item.value) <= _IN_A_LINE and len(json.dumps(item.value)) <= 8 * _IN_A_LINE


def _line(item: _Item, marks: TextMarks, *, leaf: bool) -> Branch:
    tier, numbers = marks.on(item.path)
    # What was found at a path is in the text there, or, where there is none, in the name.
    key = plain(item.key) if isinstance(item.value, str) else marks.runs(item.path, item.key)
    made = Branch("leaf" if leaf else "open", key, item.keyword, _tags(item), "", (), tier, numbers)
    if not leaf:
        return made
    kind, text = _leaf(item, marks)
    return made._replace(kind=kind, text=text)


def _leaf(item: _Item, marks: TextMarks) -> tuple[str, Sequence[Run]]:
    value = item.value
    if isinstance(value, str):
        return "text", marks.runs(item.path, value)
    if item.schema and value:
        # Its type is all it says, and that stands beside its name.
        return "word", ()
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else "word", plain(json.dumps(value, ensure_ascii=False))


def _tags(item: _Item) -> tuple[str, ...]:
    tags = list(_types(item))
    if item.required:
        tags.append("required")
    if item.schema and not item.value:
        tags.append("takes anything")
    return tuple(tags)


def _types(item: _Item) -> list[str]:
    """The type of a schema, where it is written as types are."""
    kinds = item.value.get("type") if item.schema else None
    if isinstance(kinds, str):
        kinds = [kinds]
    known = isinstance(kinds, list) and all(isinstance(one, str) and one in _TYPES for one in kinds)
    return kinds if known and kinds else []


def _inside(item: _Item) -> list[_Item]:
    value = item.value
    if isinstance(value, list):
        return [_Item(f"{item.path}.{at}", f"[{at}]", one, schema=False) for at, one in enumerate(value)]
    if not isinstance(value, dict):
        return []
    if not item.schema:
        return [_Item(_path(item.path, key), key, one, schema=False) for key, one in value.items()]
    return [one for key, member in value.items() for one in _member(item, key, member)]


def _member(item: _Item, key: str, member: Any) -> Iterator[_Item]:
    """A keyword of a schema, as the lines it becomes."""
    path = _path(item.path, key)
    properties = item.value.get("properties")
    named = properties if isinstance(properties, dict) else {}
    required = item.value.get("required")
    needed = required if _all_named(required, named) else []
    if (key == "type" and _types(item)) or (key == "required" and needed):
        return
    if key == "properties" and named:
        for name, one in named.items():
            yield _Item(_path(path, name), name, one, isinstance(one, dict), "property", required=name in needed)
    elif key in _MAPS and isinstance(member, dict) and member:
        for name, one in member.items():
            yield _Item(_path(path, name), name, one, isinstance(one, dict), key)
    elif key in _LISTS and isinstance(member, list) and member:
        for at, one in enumerate(member):
            yield _Item(f"{path}.{at}", f"[{at}]", one, isinstance(one, dict), key)
    else:
        yield _Item(path, key, member, schema=key in _ONE and isinstance(member, dict))


def _path(before: str, key: str) -> str:
    """As the inspection writes it."""
    return f"{before}.{key if _PLAIN.match(key) else quoted(key)}"


def _all_named(required: Any, properties: Mapping[str, Any]) -> bool:
    """Whether a list of required names can be told by marking the properties, and by nothing else."""
    if not isinstance(required, list):
        return False
    return all(isinstance(name, str) and name in properties for name in required) and len(set(required)) == len(
        required
    )
