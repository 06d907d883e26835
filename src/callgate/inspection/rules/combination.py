"""Sentences in which several things come together that are harmless one by one.

An order to the model, somebody's private data, a place to put it, other tools, a guard to be skipped: an honest
description has one of these in a sentence, perhaps two. The weights were first set by judgement and then moved, but
not far, to where they part the labelled texts best; each corpus was left out once to see that they hold elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from callgate.inspection.data_files import load, pattern
from callgate.inspection.engine import Hit, quoted_hit, rule
from callgate.inspection.scorer import STEM, purpose_of
from callgate.inspection.tool_texts import Text, ToolTexts
from callgate.inspection.words import Concept, Match, WordIndex

_IN_TICKS: Final = pattern("combination", "in_ticks")
_ACCOUNTS: Final = pattern("combination", "accounts")
_FIGURES: Final = re.compile(r"\d{4}|0x|bc1")


class WeightsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`weights.toml`: groups of concepts, the weight of each concept, and what more two groups weigh together."""

    pairs: list[tuple[str, str, int]]
    groups: dict[str, str]
    weights: dict[Concept, int]


def _group(listed: str) -> frozenset[Concept]:
    """The concepts of a list of concepts and groups."""
    found: set[Concept] = set()
    for name in listed.split():
        found |= _group(_FILE.groups[name]) if name in _FILE.groups else {name}
    return frozenset(found)


_FILE: Final = load("weights", WeightsFile)
_WEIGHTS: Final[dict[Concept, int]] = _FILE.weights
_PAIRS: Final[tuple[tuple[frozenset[Concept], frozenset[Concept], int], ...]] = tuple(
    (_group(one), _group(other), more) for one, other, more in _FILE.pairs
)
_FILES: Final = _group("files")
_PURPOSE: Final = _group("purpose")
_KEEN: Final = _group("keen")
_COUNTED: Final = frozenset(_WEIGHTS) | _group("unweighted")
# For a second and a third of the keen ones.
_MORE_KEEN: Final = (0, 0, 10, 15)
_LIMIT: Final = 32
# For each doubling of the number of sentences beyond a few.
_FEW: Final = 3
_PER_DOUBLING: Final = 3
_MOST_BY_CHANCE: Final = 12
_LONG_OPENING: Final = 40
_CHUNK: Final = 45


def _score(there: set[Concept]) -> int:
    """How much comes together in one sentence."""
    if not there.isdisjoint(("KEY_FILE", "HOST_DATA")):
        there.discard("SECRET")
    if "ASSISTANT" in there:
        there.discard("MODEL")
    if not there.isdisjoint(("OWN_SERVER", "SOME_TOOLS")):
        there -= {"OTHER_SOURCES", "RIVAL_TOOLS", "EVERY_TIME", "OTHER", "EVERY"}
    if "TOOL" in there and not there.isdisjoint(("OTHER", "EVERY")):
        there.add("ALL_TOOLS")
    weight = sum(_WEIGHTS.get(one, 0) for one in there)
    weight += sum(more for one, two, more in _PAIRS if not there.isdisjoint(one) and not there.isdisjoint(two))
    return weight + _MORE_KEEN[min(len(there & _KEEN), 3)]


def _threshold(tool: ToolTexts) -> float:
    """How much is too much. It takes more in a long definition, where more comes together by chance, but not much
    more: length is no cover."""
    sentences = sum(len(text.words.sentences) for text in tool.texts if text.kind in {"description", "prose"})
    return _LIMIT + min(_MOST_BY_CHANCE, _PER_DOUBLING * math.log2(max(1, sentences / _FEW)))


def _purpose_of(tool: ToolTexts) -> frozenset[str]:
    """The beginnings of the words that say what the tool is for, and the concepts of files that its opening names."""
    openings = [text.words for text in tool.texts if text.kind == "description" and text.words.sentences]
    files = [concept for words in openings for concept in _FILES if words.within(words.sentences[0], concept)]
    return frozenset([*purpose_of(tool), *files])


def _mark_patterns(text: Text) -> None:
    """Concepts that are found by a pattern."""
    for found in _IN_TICKS.finditer(text.plain.text):
        text.words.mark("SINK", found.end() - 2)
    if _FIGURES.search(text.raw):
        for found in _ACCOUNTS.finditer(text.plain.text):
            text.words.mark("ACCOUNT", found.start())


def _concepts_by_sentence(text: Text, parts: list[Match], purpose: frozenset[str]) -> list[set[Concept]]:
    """What each sentence has of the things that are weighed."""
    owner = [number for number, (first, last) in enumerate(parts) for _ in range(first, last + 1)]
    there: list[set[Concept]] = [set() for _ in parts]
    _mark_patterns(text)
    _place_words(text, owner, there, purpose)
    _place_refusals(text.words, owner, there)
    if text.where == "description" and there:
        _place_opening(text, parts, there)
    if ".properties." in text.where:
        for one in there:
            one.add("PARAMETER")
    return there


def _place_words(text: Text, owner: list[int], there: list[set[Concept]], purpose: frozenset[str]) -> None:
    words = text.words
    opens = text.where == "description"
    for concept, places in words.places.items():
        if concept not in _COUNTED:
            continue
        for place in places:
            number = owner[place]
            its = concept in purpose or (concept in _PURPOSE and words.words[place][:STEM] in purpose)
            if not its or (opens and number == 0):
                there[number].add(concept)


def _place_refusals(words: WordIndex, owner: list[int], there: list[set[Concept]]) -> None:
    """What a "not" is about, and what is the person's to do."""
    for concept, wanted, gap in (
        ("NOT_TOLD", "TELL_OF", 3),
        ("NOT_GUARDED", "GUARDED", 4),
        ("NOT_TAKEN", ("SECRET", "KEY_FILE", "SETTINGS_FILE", "PRIVATE_DATA", "CONVERSATION", "OBEY_TEXT"), 4),
    ):
        for match in words.chain("NOT", (wanted, gap)):
            there[owner[match[1]]].add(concept)
    for match in words.chain("NOT", ("WITHOUT", 9)):
        # "Never … without the user's approval" asks for it.
        if match[0] < match[1] and owner[match[0]] == owner[match[1]]:
            there[owner[match[1]]] -= {"NO_CONFIRMATION", "CONSENT"}
            there[owner[match[1]]].add("ASKS_USER")
    for match in words.chain("USER", ("MAY", 1)):
        # What the person is to do is no order to the model, unless it is what they are not to do.
        if "NOT" not in there[owner[match[0]]]:
            there[owner[match[0]]].add("USER_DOES")


def _place_opening(text: Text, parts: list[Match], there: list[set[Concept]]) -> None:
    there[0].add("OPENING")
    # What a scanner looks for stands after its first word, as objects and not as orders.
    if text.words.at("DETECTION")[:1] in ([0], (0,)) and parts[0][1] < _LONG_OPENING:
        there[0].add("SCREENS")


@rule("combined.sentence")
def sentence(tool: ToolTexts) -> Iterator[Hit]:
    purpose, limit = _purpose_of(tool), _threshold(tool)
    for text in tool.prose:
        if text.kind == "key":
            continue
        parts = text.words.pieces(_CHUNK)
        for part, there in zip(parts, _concepts_by_sentence(text, parts, purpose), strict=True):
            if there and _score(there) >= limit:
                yield quoted_hit(text, part, "Several things come together that honest texts keep apart: {}.")
