"""How much each sentence of a tool reads like an order to a model, by weights that were learned from labelled texts.

The score is one sum: of the words of a sentence, of groups of words that mean about the same, of the concepts that the
rules speak of, of pairs of these, of the place where it stands, and of the rules that found something in it. The
weights are in `data/scorer.json`; `bench/inspection` learns them, and says how they do on texts that they were not
learned from.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from callgate.inspection.data_files import FOLDER
from callgate.inspection.tool_texts import Text, ToolTexts, names
from callgate.inspection.words import Match

_PIECE: Final = 40
STEM: Final = 5
_SHORT: Final = 4
_CONCEPTS: Final = 14
_SCALE: Final = 3.0
_FEW: Final = 12
_CAPITALS: Final = re.compile(r"\b[A-Z]{4,20}\b")
_PATH: Final = re.compile(
    r"(?<![\w:/])(?:~|\.{0,2})/[\w.-]{2,60}|(?<!\w)\.[a-z]{3,20}\b|\b[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{2,40}\b"
)


class ScorerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`scorer.json`, in hundredths: from where on rules are asked, their findings kept, and a finding is made, soft
    or hard; words by meaning; what each thing weighs, rules among the `marks`; and what more two of them weigh.
    """

    near: int
    agrees: int
    soft: int
    hard: int
    bias: int
    groups: list[str]
    marks: dict[str, int]
    single: dict[str, int]
    pairs: dict[str, dict[str, int]]


@functools.cache
def weights() -> ScorerFile:
    return msgspec.json.decode((FOLDER / "scorer.json").read_bytes(), type=ScorerFile)


@functools.cache
def word_groups() -> Mapping[str, str]:
    """The group of each word that has one."""
    return grouped(weights().groups)


def grouped(groups: Iterable[str]) -> dict[str, str]:
    return {word: f"#{number}" for number, words in enumerate(groups) for word in words.split()}


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or a name, and everything that is weighed in it."""

    text: Text
    match: Match
    span: tuple[int, int]
    marks: tuple[str, ...]
    single: set[str]
    pairs: set[tuple[str, str]]

    def score(self, weights: ScorerFile) -> float:
        marks = sum(weights.marks.get(name, 0) for name in self.marks)
        words = sum(weights.single.get(name, 0) for name in self.single)
        pairs = weights.pairs
        for one, two in self.pairs:
            row = pairs.get(one)
            if row is not None:
                words += row.get(two, 0)
        return weights.bias + marks + words * self.scale

    @property
    def scale(self) -> float:
        """By how much its words count: less in a long sentence, which has more of everything."""
        return _SCALE / math.sqrt(max(len(self.single) + len(self.pairs), _FEW))


def sentences(tool: ToolTexts, groups: Mapping[str, str]) -> Iterator[Sentence]:
    """Every sentence of a tool, and every name of more than one word."""
    purpose = purpose_of(tool)
    for text in tool.prose:
        parts = text.words.pieces(_PIECE)
        for part, concepts in zip(parts, _concepts(text, parts), strict=True):
            yield _sentence(text, part, concepts, purpose, groups)


def purpose_of(tool: ToolTexts) -> frozenset[str]:
    """The beginnings of the words that say what the tool is for."""
    said: list[str] = []
    for text in tool.texts:
        if text.kind == "name":
            said += text.words.words
        elif text.kind == "description":
            said += text.words.words[: next(iter(text.words.sentences), (0, -1))[1] + 1]
    return frozenset(word[:STEM] for word in said)


def _concepts(text: Text, parts: list[Match]) -> list[list[str]]:
    owner = [number for number, (first, last) in enumerate(parts) for _ in range(first, last + 1)]
    there: list[set[str]] = [set() for _ in parts]
    for concept, places in text.words.places.items():
        for place in places:
            there[owner[place]].add(concept)
    return [sorted(one)[:_CONCEPTS] for one in there]


def _sentence(
    text: Text,
    part: Match,
    concepts: list[str],
    purpose: frozenset[str],
    groups: Mapping[str, str],
) -> Sentence:
    # What stands on both sides of a word that says nothing is a pair.
    fillers = names("fillers")
    words = [word for word in text.words.words[part[0] : part[1] + 1] if word not in fillers]
    alike = [groups.get(word, "") for word in words]
    single = {*words, *alike, *concepts}
    single.discard("")
    if words:
        single.add(f"@first {alike[0] or words[0]}")
    pairs = {*itertools.pairwise(words)}
    for gap in (1, 2):
        pairs.update(pair for pair in zip(alike, alike[gap:], strict=False) if pair[0] and pair[1])
    pairs.update((one, two) for at, one in enumerate(concepts) for two in concepts[at + 1 :])
    place = ".key" if text.kind == "key" else ".parameter" if "Schema" in text.where[:12] else ""
    if place:
        pairs.update((place, concept) for concept in concepts)
        pairs.update((place, like or word) for like, word in zip(alike, words, strict=True))
    span = text.span(part)
    marks = tuple(_marks(text.raw[span[0] : span[1]], words, purpose))
    return Sentence(text, part, span, marks, single, pairs)


def _marks(raw: str, words: list[str], purpose: frozenset[str]) -> Iterator[str]:
    """What is seen at a glance, and how much of it the tool's purpose explains."""
    if "`" in raw:
        yield "@ticks"
    if "!" in raw:
        yield "@bang"
    if _CAPITALS.search(raw):
        yield "@capitals"
    if _PATH.search(raw):
        yield "@path"
    if words:
        yield f"@length {min(len(words) // 8, 4)}"
    telling = [word for word in words if len(word) >= _SHORT]
    explained = sum(word[:STEM] in purpose for word in telling)
    yield f"@explained {min(4 * explained // max(1, len(telling)), 3)}"
