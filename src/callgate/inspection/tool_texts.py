"""Every text of a tool, with its place: names, titles, descriptions, and each string and key of its schemas."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Container, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from callgate.inspection.data_files import load
from callgate.inspection.model import InspectionContext, ToolDefinition
from callgate.inspection.text import FoldedText, fold, quoted, without_markup
from callgate.inspection.words import Match, WordIndex, mark_patterns

Kind: TypeAlias = Literal["name", "description", "key", "prose", "value"]

# Bounds of what is looked at. A gateway's own caps are lower; these hold where somebody raised them.
TEXT_CHARS: Final = 65_536
TOOL_CHARS: Final = 524_288
TEXTS: Final = 8_192
DEPTH: Final = 64
# A sentence of so many characters is quoted whole.
_QUOTED: Final = 240
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_$-]{1,60}\Z")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_JOINTS: Final = re.compile(r"[_\-./:\s]{1,8}")


class Text:
    """One text and the forms it is read in."""

    def __init__(self, where: str, kind: Kind, raw: str) -> None:
        self.where = where
        self.kind = kind
        self.raw = raw

    @cached_property
    def folded(self) -> FoldedText:
        """As it looks: markup still in it."""
        return fold(self.raw)

    @cached_property
    def plain(self) -> FoldedText:
        """As it reads: no markup. A key is read as the words it is made of."""
        if self.kind not in {"key", "name"}:
            return without_markup(self.folded)
        spaced = _JOINTS.sub(" ", _CAMEL.sub(" ", self.raw))
        text = fold(spaced).text
        if len(spaced) == len(self.raw):
            return FoldedText(text, None)
        # Any part of a key that was taken apart is found at the whole.
        return FoldedText(text, tuple([0] * (len(text) - 1) + [len(self.raw) - 1]) if text else ())

    @cached_property
    def words(self) -> WordIndex:
        words = WordIndex(self.plain)
        mark_patterns(words)
        return words

    def quote(self, span: tuple[int, int]) -> str:
        """The original characters, made safe to print and not too long."""
        return quoted(self.raw[span[0] : span[1]], _QUOTED)

    def span(self, match: Match) -> tuple[int, int]:
        return self.words.span(match)

    def around(self, match: Match) -> tuple[int, int]:
        """The characters of the sentence that holds a match, or of the match where the sentence is long."""
        first, last = self.words.sentence_of(match[0])[0], self.words.sentence_of(match[1])[1]
        whole = self.span((first, last))
        return whole if whole[1] - whole[0] <= _QUOTED else self.span(match)

    def original(self, match: Match) -> str:
        """The original characters of a match."""
        return self.raw[slice(*self.span(match))]


class ToolTexts:
    """A tool, taken apart for the rules."""

    def __init__(self, definition: ToolDefinition, context: InspectionContext) -> None:
        self.definition = definition
        self.context = context
        # Places that were not read to their end, with how much is left.
        self.unread: list[tuple[str, str]] = []
        self.texts = tuple(self._texts())

    @property
    def name(self) -> str:
        return self.definition.name if isinstance(self.definition.name, str) else ""

    @cached_property
    def prose(self) -> tuple[Text, ...]:
        """What can hold a sentence: everything that has a blank or another script, and keys of more than one word."""
        return tuple(
            text for text in self.texts if _wordy(text.raw) or (text.kind == "key" and _CAMEL.search(text.raw))
        )

    def narrowed(self, places: Container[str]) -> ToolTexts:
        """The same tool, of whose prose only names and some places are read."""
        other = copy.copy(self)
        other.prose = tuple(text for text in self.prose if text.kind == "key" or text.where in places)
        return other

    def _texts(self) -> Iterator[Text]:
        room = TOOL_CHARS
        for count, (where, kind, raw) in enumerate(_walk(self.definition, self.unread)):
            if count >= TEXTS or room <= 0:
                self.unread.append((where, "it and what follows"))
                return
            most = min(TEXT_CHARS, room)
            if len(raw) > most:
                self.unread.append((where, f"{len(raw) - most:,} characters of it"))
            room -= len(raw)
            yield Text(where, kind, raw[:most])


@functools.cache
def names(kind: str) -> frozenset[str]:
    """A set of names that are members of definitions or words of JSON Schema."""
    return frozenset(load("names", dict[str, str])[kind].split())


def _wordy(raw: str) -> bool:
    return any(char in raw for char in " \n\t_-") or not raw.isascii() or len(raw) > 24


def _walk(definition: ToolDefinition, unread: list[tuple[str, str]]) -> Iterator[tuple[str, Kind, str]]:
    """Depth first, without recursion: the order is that of the tool."""
    # Members that MCP does not know are the server's words by their very names.
    known = names("other_members")
    yield from ((_part(name), "key", str(name)) for name in definition.rest if str(name) not in known)
    schema_words, keywords, holders = names("schema_words"), names("keywords"), names("name_holders")
    stack: list[tuple[str, str, Any, int]] = [
        (_part(name), str(name), value, 0) for name, value in reversed(definition.members())
    ]
    while stack:
        where, key, value, depth = stack.pop()
        if isinstance(value, str):
            # Words of JSON Schema say nothing to a model; anything else in their place is read.
            if value not in schema_words:
                yield where, _kind(where, key), value
        elif depth >= DEPTH and isinstance(value, Mapping | list | tuple):
            unread.append((where, "what lies deeper"))
        elif isinstance(value, Mapping):
            inner = []
            for name, each in value.items():
                path = f"{where}.{_part(name)}"
                # A keyword of JSON Schema is not the server's own word, unless it names a property.
                if key in holders or str(name) not in keywords:
                    yield path, "key", str(name)
                inner.append((path, str(name), each, depth + 1))
            stack.extend(reversed(inner))
        elif isinstance(value, list | tuple):
            stack.extend(reversed([(f"{where}[{at}]", key, each, depth + 1) for at, each in enumerate(value)]))


def _kind(where: str, key: str) -> Kind:
    if where in {"name", "description"}:
        return "name" if where == "name" else "description"
    return "prose" if where == "title" or key in names("prose") else "value"


def _part(name: Any) -> str:
    text = str(name)
    return text if _PLAIN_KEY.match(text) else quoted(text)
