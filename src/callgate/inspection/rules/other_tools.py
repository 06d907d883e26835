"""Texts that reach beyond their own tool: to be called first, to change other calls, or to be taken for other tools."""

from __future__ import annotations

import functools
import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from callgate.inspection.data_files import pattern
from callgate.inspection.engine import Hit, quoted_hit, rule
from callgate.inspection.text import fold, quoted
from callgate.inspection.tool_texts import Text, ToolTexts
from callgate.inspection.words import Match, WordIndex

# Texts that want a tool called when nobody asked, or instead of all others.

_PRAISE: Final = pattern("priority", "praise")


@rule("priority.before-all")
def before_all(tool: ToolTexts) -> Iterator[Hit]:
    if not _opens_a_session(tool):
        yield from _first_of_all(tool)


@rule("mention.opens-session")
def opens_session(tool: ToolTexts) -> Iterator[Hit]:
    if _opens_a_session(tool):
        yield from _first_of_all(tool)


def _opens_a_session(tool: ToolTexts) -> bool:
    """Named or introduced as what one does first: it logs in, connects, selects."""
    texts = [text.words for text in tool.texts if text.kind in {"name", "description"}]
    return any(words.at("OPENER") and words.at("OPENER")[0] < 2 for words in texts)


def _first_of_all(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        matches = [
            *words.chain("BEFORE", ("EVERY", 4), ("TOOLS", 3)),
            *words.chain("BEFORE", ("OTHERS", 4), ("TOOL", 1)),
            *words.chain("EVERY", ("TURN", 2), ("MUST", 2), ("THROUGH", 4)),
            *(match for match in words.chain("BEFORE", ("EVERY", 4), ("OTHER", 1)) if _of_all_kinds(words, match)),
            *words.chain("NOTHING", ("USE", 4), ("UNTIL", 3)),
            *words.chain("BEFORE", ("EVERY", 3), ("DEEDS", 2)),
            *(
                match
                for match in words.chain("EVERY", ("TURN", 2))
                if words.near(match, "USE", 8) and words.near(match, "FIRST", 9) and words.near(match, "MUST", 10)
            ),
            *words.chain("EVERY", ("TURN", 2), ("USE", 5), ("FIRST", 3)),
        ]
        for match in matches:
            if not words.before(match[0], "NOT", 4) and not words.near(match, "SOME_TOOLS", 2):
                yield quoted_hit(text, match, "It wants to be called before everything else: {}.")


def _of_all_kinds(words: WordIndex, match: Match) -> bool:
    """ "Anything else", "any other tool"; not "any other page", which is about one kind of thing."""
    last = any(part[1] == match[1] for part in words.sentences)
    return last or words.words[match[1]] != "other" or words.after(match[1], ("TOOL", "DEEDS", "TURN", "USE"), 2)


@rule("priority.praise")
def praise(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        if text.kind in {"description", "prose"} and ".properties." not in text.where:
            found = _PRAISE.search(text.plain.text)
            if found:
                span = text.plain.span(found.start(), found.end())
                yield Hit(text.where, f"It praises itself to whoever chooses between tools: {text.quote(span)}.", span)


# Texts about the tools of other servers, and names that could be taken for theirs.

_NAME: Final = re.compile(r"(?P<quote>[`'\"“«(]?)(?P<name>\w[\w.:/-]{1,127})(?P<call>\(?)")
# Names that are not one such word are looked for as they are; so many of them.
_ODD_NAMES: Final = 200
# Of names that are nearly one's own: two servers that agree to have a thousand each are told of by a few.
_MOST_NEAR: Final = 20
_UNUSUAL: Final = re.compile(r"[_\d:/]|[a-z][A-Z]|\w-\w{2,64}-\w|\.\w")
_MARKS: Final = frozenset({"`", "'", '"', "«"})
_SHORTEST: Final = 5
_FIGURE: Final = re.compile(r"\d{4}|\bIBAN\b")
_SAME: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "-": "_", ".": "_", "5": "s"})


def _owners(tool: ToolTexts) -> dict[str, list[tuple[str, str]]]:
    """Other servers' tools by their folded names, without the name that this tool has itself."""
    owners: dict[str, list[tuple[str, str]]] = {}
    for server in sorted(tool.context.others):
        for name in sorted(tool.context.others[server]):
            if name != tool.name:
                owners.setdefault(_folded(name), []).append((server, name))
    return owners


@functools.lru_cache(maxsize=8_192)
def _folded(name: str) -> str:
    return fold(name).text


@rule("shadowing.other-tool")
def other_tool(tool: ToolTexts) -> Iterator[Hit]:
    yield from (hit for hit, honest in _spoken_of(tool) if not honest)


@rule("mention.other-tool")
def other_tool_mentioned(tool: ToolTexts) -> Iterator[Hit]:
    yield from (hit for hit, honest in _spoken_of(tool) if honest)


@functools.lru_cache(maxsize=1)
def _spoken_of(tool: ToolTexts) -> tuple[tuple[Hit, bool], ...]:
    """Each place where another server's tool is named, and whether the sentence only compares or passes on."""
    owners = _owners(tool)
    found: dict[tuple[str, str], tuple[Hit, bool]] = {}
    for hit, honest in _places(tool, owners) if owners else ():
        # Each tool once, and by what speaks against it: there are no more of them than neighbours.
        known = found.get((hit.server, hit.tool))
        if known is None or (known[1] and not honest):
            found[hit.server, hit.tool] = hit, honest
    return tuple(found.values())


def _places(tool: ToolTexts, owners: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[tuple[Hit, bool]]:
    # A tool that is told of with what speaks against it need not be looked for again.
    told: set[tuple[str, str]] = set()
    for text in tool.texts:
        if text.kind == "name":
            continue
        sentences = _Sentences(text)
        for server, name, start, end in _named_in(text, owners):
            if (server, name) in told:
                continue
            span = text.folded.span(start, end)
            honest = sentences.compares(span)
            if not honest:
                told.add((server, name))
            what = f"It speaks of {quoted(name)}, a tool of the server {quoted(server)}."
            yield Hit(text.where, what, span, server, name), honest


def _named_in(text: Text, owners: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[tuple[str, str, int, int]]:
    for spoken, at in _odd_names(owners, text.folded.text):
        yield from ((server, name, at, at + len(spoken)) for server, name in owners[spoken])
    for found in _NAME.finditer(text.folded.text):
        spoken = found["name"].rstrip(".:-/")
        if spoken in owners:
            marked = text.kind != "key" and (found["quote"] in _MARKS or found["call"])
            start = found.start("name")
            for server, name in owners[spoken]:
                if marked or _UNUSUAL.search(name):
                    yield server, name, start, start + len(spoken)


def _odd_names(owners: Mapping[str, Sequence[tuple[str, str]]], text: str) -> Iterator[tuple[str, int]]:
    odd = (name for name in owners if len(name) >= _SHORTEST and not _NAME.fullmatch(name))
    for name in itertools.islice(odd, _ODD_NAMES):
        at = text.find(name)
        if at >= 0:
            yield name, at


class _Sentences:
    """The sentences of a text, each judged once however many names are in it."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._judged: dict[int, bool] = {}

    @functools.cached_property
    def _parts(self) -> list[Match]:
        return list(self._text.words.sentences)

    @functools.cached_property
    def _ends(self) -> list[int]:
        return [self._text.span(part)[1] for part in self._parts]

    def compares(self, span: tuple[int, int]) -> bool:
        """Whether the sentence that holds this place only compares."""
        number = bisect_left(self._ends, span[1])
        if number == len(self._parts):
            return False
        if number not in self._judged:
            self._judged[number] = self._compares(self._parts[number])
        return self._judged[number]

    def _compares(self, part: Match) -> bool:
        words = self._text.words
        if words.within(part, ("MUST", "NOT", "EVERY", "URL", "MAIL", "STEERING")):
            return False
        if _FIGURE.search(self._text.original(part)):
            return False
        asked = ".properties." in self._text.where or words.within(part, ("USE", "PASS", "SEND", "READ", "DESTRUCTIVE"))
        return not asked or words.within(part, "COMPARISON")


@rule("lookalike.imitation")
def imitation(tool: ToolTexts) -> Iterator[Hit]:
    if tool.name.isascii():
        return
    looks = _skeleton(tool.name)
    for server in sorted(tool.context.others):
        for name in sorted(tool.context.others[server]):
            if name != tool.name and name.isascii() and _skeleton(name) == looks:
                what = f"{quoted(tool.name)} looks like {quoted(name)} of the server {quoted(server)}."
                yield Hit("name", what, (0, len(tool.name)), server, name)


@rule("lookalike.near-name")
def near_name(tool: ToolTexts) -> Iterator[Hit]:
    name = tool.name
    if len(name) < _SHORTEST or len(name) > 128:
        return
    for server in sorted(tool.context.others):
        near = (other for other in sorted(tool.context.others[server]) if other != name and _near(name, other))
        for other in itertools.islice(near, _MOST_NEAR):
            what = f"{quoted(name)} is nearly the name of {quoted(other)} of the server {quoted(server)}."
            yield Hit("name", what, (0, len(name)), server, other)


@rule("lookalike.same-name")
def same_name(tool: ToolTexts) -> Iterator[Hit]:
    if _UNUSUAL.search(tool.name):
        yield from _namesakes(tool)


@rule("mention.same-word")
def same_word(tool: ToolTexts) -> Iterator[Hit]:
    if not _UNUSUAL.search(tool.name):
        yield from _namesakes(tool)


def _namesakes(tool: ToolTexts) -> Iterator[Hit]:
    for server in sorted(tool.context.others):
        if tool.name and tool.name in tool.context.others[server]:
            what = f"The server {quoted(server)} has a tool of the same name."
            yield Hit("name", what, (0, len(tool.name)), server, tool.name)


@functools.lru_cache(maxsize=8_192)
def _skeleton(name: str) -> str:
    """As the name looks: folded, with the digits that pass for letters, and one kind of joint."""
    return _folded(name).translate(_SAME).replace("rn", "m")


def _near(name: str, other: str) -> bool:
    return len(other) >= _SHORTEST and _one_apart(name, other)


def _one_apart(name: str, other: str) -> bool:
    """One letter other, more, less or two swapped; but not a plural, nor another number."""
    if abs(len(name) - len(other)) > 1:
        return False
    if _skeleton(name) == _skeleton(other):
        return True
    ahead = _common(name, other)
    behind = min(_common(name[::-1], other[::-1]), min(len(name), len(other)) - ahead)
    mine, theirs = name[ahead : len(name) - behind], other[ahead : len(other) - behind]
    if len(mine) == len(theirs) == 2:
        return mine == theirs[::-1]
    if len(mine) > 1 or len(theirs) > 1:
        return False
    return (mine or theirs) not in {"s", "S"} and not (mine + theirs).isdigit()


def _common(one: str, two: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
