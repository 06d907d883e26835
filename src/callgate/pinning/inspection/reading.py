"""Every text of a tool, with its place: names, titles, descriptions, and each string and key of its schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from callgate.pinning.inspection.folding import Folded, fold, without_markup
from callgate.pinning.inspection.lexicon import mark_files
from callgate.pinning.inspection.subject import Inspected, Surroundings
from callgate.pinning.inspection.vocabulary import Match, Words

Kind: TypeAlias = Literal["name", "description", "key", "prose", "value"]

# Bounds of what is looked at. A gateway's own caps are lower; these hold where somebody raised them.
TEXT_CHARS: Final = 65_536
TOOL_CHARS: Final = 524_288
TEXTS: Final = 8_192
DEPTH: Final = 64
_SNIPPET: Final = 80


def listed(words: str) -> frozenset[str]:
    """A set of words, written as one writes words."""
    return frozenset(words.split())


_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_$-]{1,60}\Z")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_JOINTS: Final = re.compile(r"[_\-./:\s]{1,8}")
_MEMBERS: Final = frozenset({"icons", "execution"})
_PROSE: Final = frozenset({"description", "title", "$comment", "summary", "instructions", "hint"})
# Words of JSON Schema that say nothing to a model; anything else in their place is read.
_SCHEMA_WORDS: Final = listed(
    "string number integer boolean object array null date date-time time duration email uri url uuid hostname ipv4 "
    "ipv6 regex int32 int64 float double byte binary password json-pointer"
)
_KEYWORDS: Final = listed(
    "type properties required description items enum title default additionalProperties minimum maximum minLength "
    "maxLength minItems maxItems format pattern anyOf oneOf allOf const examples $schema $ref $defs definitions "
    "uniqueItems readOnlyHint destructiveHint idempotentHint openWorldHint nullable exclusiveMinimum exclusiveMaximum"
)


class Text:
    """One text and the forms it is read in."""

    def __init__(self, where: str, kind: Kind, raw: str) -> None:
        self.where = where
        self.kind = kind
        self.raw = raw

    @cached_property
    def folded(self) -> Folded:
        """As it looks: markup still in it."""
        return fold(self.raw)

    @cached_property
    def plain(self) -> Folded:
        """As it reads: no markup. A key is read as the words it is made of."""
        if self.kind in {"key", "name"}:
            parted = _JOINTS.sub(" ", _CAMEL.sub(" ", self.raw))
            return Folded(fold(parted).text, None) if len(parted) == len(self.raw) else _as_a_whole(parted, self.raw)
        return without_markup(self.folded)

    @cached_property
    def words(self) -> Words:
        words = Words(self.plain)
        mark_files(words)
        return words

    def quote(self, span: tuple[int, int]) -> str:
        """The original characters, made safe to print and not too long."""
        return shown(self.raw[span[0] : span[1]])

    def span(self, match: Match) -> tuple[int, int]:
        return self.words.span(match)


def _as_a_whole(parted: str, raw: str) -> Folded:
    """A key that was taken apart: any part of it is found at the whole."""
    text = fold(parted).text
    return Folded(text, tuple([0] * (len(text) - 1) + [len(raw) - 1]) if text else ())


def shown(text: str) -> str:
    """A piece of hostile text for a sentence: what does not print is spelt out, and it is cut."""
    cut = text[:_SNIPPET]
    spelt = "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in cut)
    return f"“{spelt}{'…' if len(text) > _SNIPPET else ''}”"


class Reading:
    """A tool, taken apart for the rules."""

    def __init__(self, tool: Inspected, around: Surroundings) -> None:
        self.tool = tool
        self.around = around
        # Places that were not read to their end, with how much is left.
        self.unread: list[tuple[str, str]] = []
        self.texts = tuple(self._texts())

    @property
    def name(self) -> str:
        return self.tool.name if isinstance(self.tool.name, str) else ""

    @cached_property
    def prose(self) -> tuple[Text, ...]:
        """What can hold a sentence: everything that has a blank or another script, and keys of more than one word."""
        return tuple(
            text for text in self.texts if _wordy(text.raw) or (text.kind == "key" and _CAMEL.search(text.raw))
        )

    def _texts(self) -> Iterator[Text]:
        room = TOOL_CHARS
        for count, (where, kind, raw) in enumerate(_walk(self.tool, self.unread)):
            if count >= TEXTS or room <= 0:
                self.unread.append((where, "it and what follows"))
                return
            most = min(TEXT_CHARS, room)
            if len(raw) > most:
                self.unread.append((where, f"{len(raw) - most:,} characters of it"))
            room -= len(raw)
            yield Text(where, kind, raw[:most])


def _wordy(raw: str) -> bool:
    return any(char in raw for char in " \n\t_-") or not raw.isascii() or len(raw) > 24


def _walk(tool: Inspected, unread: list[tuple[str, str]]) -> Iterator[tuple[str, Kind, str]]:
    """Depth first, without recursion: the order is that of the tool."""
    # Members that MCP does not know are the server's words by their very names.
    yield from ((_part(name), "key", str(name)) for name in tool.rest if str(name) not in _MEMBERS)
    stack: list[tuple[str, str, Any, int]] = [
        (_part(name), str(name), value, 0) for name, value in reversed(tool.members())
    ]
    while stack:
        where, key, value, depth = stack.pop()
        if isinstance(value, str):
            if value not in _SCHEMA_WORDS:
                yield where, _kind(where, key), value
        elif depth >= DEPTH and isinstance(value, Mapping | list | tuple):
            unread.append((where, "what lies deeper"))
        elif isinstance(value, Mapping):
            inner = []
            for name, each in value.items():
                path = f"{where}.{_part(name)}"
                if _says_something(key, name):
                    yield path, "key", str(name)
                inner.append((path, str(name), each, depth + 1))
            stack.extend(reversed(inner))
        elif isinstance(value, list | tuple):
            stack.extend(reversed([(f"{where}[{at}]", key, each, depth + 1) for at, each in enumerate(value)]))


def _kind(where: str, key: str) -> Kind:
    if where in {"name", "description"}:
        return "name" if where == "name" else "description"
    return "prose" if key in _PROSE or where == "title" else "value"


def _says_something(holder: str, name: Any) -> bool:
    """Whether a key is the server's own word: a keyword of JSON Schema is not, unless it names a property."""
    return holder in {"properties", "patternProperties", "$defs", "definitions"} or str(name) not in _KEYWORDS


def _part(name: Any) -> str:
    text = str(name)
    return text if _PLAIN_KEY.match(text) else shown(text)
