"""Words that mean the same to a rule, in several languages, and texts as lists of words.

A rule asks whether such words stand near each other, in an order or in any; so it is about what a text does, not a
quotation. Every word is looked up once for all rules, so the cost is one pass over the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from callgate.pinning.inspection.folding import Folded, fold

_CJK: Final = "\u3040-\u30ff\u3400-\u9fff"
_TOKEN: Final = re.compile(
    r"(?P<url>[a-z][a-z0-9+.-]{1,15}://[^\s\"'<>`)\]}]{1,300})"
    r"|(?P<mail>[a-z0-9][a-z0-9.+_-]{0,63}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})"
    r"|(?P<word>\w{1,64}(?:'(?:s|t|re|ll|ve|d|m)\b)?)"
    r"|(?P<stop>(?<!e\.g)(?<!i\.e)[.!?;。！？；]{1,8}(?=[\s\"')*_]|\Z|[\u3000-\u9fff])|\n[^\S\n]{0,20}(?:\n|[-*•#>]|\d{1,2}[.)]\s))"
)
_HAS_CJK: Final = re.compile(f"[{_CJK}]")
# A sentence that ends between two words puts them this much further apart.
_STOP: Final = 5


class Concept:
    """Words with one meaning. Phrases of up to four words are written with spaces."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


# One concept, or any of several.
Wanted: TypeAlias = Concept | tuple[Concept, ...]
Step: TypeAlias = tuple[Wanted, int]
Match: TypeAlias = tuple[int, int]

_WORDS: Final[dict[str, tuple[Concept, ...]]] = {}
_PHRASES: Final[dict[str, list[tuple[tuple[str, ...], Concept]]]] = {}
_IDEOGRAMS: Final[dict[str, tuple[Concept, ...]]] = {}
URL: Final = Concept("URL")
MAIL: Final = Concept("MAIL")


def concept(name: str, *lists: str) -> Concept:
    """A new concept: words parted by blanks, phrases parted by commas in lists that have a comma."""
    made = Concept(name)
    for words in lists:
        for entry in words.split(",") if "," in words else words.split():
            _learn(fold(entry.strip()).text, made)
    return made


def _learn(entry: str, made: Concept) -> None:
    if not entry:
        return
    if _HAS_CJK.search(entry):
        _IDEOGRAMS[entry] = (*_IDEOGRAMS.get(entry, ()), made)
        return
    words = tuple(_split(entry))
    if len(words) == 1:
        _WORDS[words[0]] = (*_WORDS.get(words[0], ()), made)
    else:
        _PHRASES.setdefault(words[0], []).append((words, made))


def _split(entry: str) -> Iterator[str]:
    yield from (found["word"] for found in _TOKEN.finditer(entry) if found["word"])


class Words:
    """A folded text as words: where each starts and ends, how far along it is, and where each concept occurs."""

    def __init__(self, folded: Folded) -> None:
        self.folded = folded
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.words: list[str] = []
        # Distances, in words; an end of a sentence counts for several.
        self.along: list[int] = []
        self.places: dict[Concept, list[int]] = {}
        self._unions: dict[Wanted, Sequence[int]] = {}
        self._read()
        self._phrases()

    def _read(self) -> None:
        along = 0
        for found in _TOKEN.finditer(self.folded.text):
            kind = found.lastgroup
            if kind == "stop":
                along += _STOP
                continue
            if kind == "word" and _HAS_CJK.search(found[0]):
                along = self._ideograms(found[0], found.start(), along)
                continue
            along += 1
            self._put(found[0], found.start(), found.end(), along)
            index = len(self.words) - 1
            if kind == "word":
                for each in _WORDS.get(found[0], ()):
                    self.places.setdefault(each, []).append(index)
            else:
                self.places.setdefault(URL if kind == "url" else MAIL, []).append(index)

    def _put(self, word: str, start: int, end: int, along: int) -> None:
        self.words.append(word)
        self.starts.append(start)
        self.ends.append(end)
        self.along.append(along)

    def _ideograms(self, run: str, start: int, along: int) -> int:
        """A run of characters without blanks: known words of it, the longest first, and single characters."""
        at = 0
        while at < len(run):
            size = next((size for size in (8, 7, 6, 5, 4, 3, 2, 1) if run[at : at + size] in _IDEOGRAMS), 1)
            along += 1
            self._put(run[at : at + size], start + at, start + at + size, along)
            for each in _IDEOGRAMS.get(run[at : at + size], ()):
                self.places.setdefault(each, []).append(len(self.words) - 1)
            at += size
        return along

    def _phrases(self) -> None:
        for index, word in enumerate(self.words):
            for phrase, made in _PHRASES.get(word, ()):
                if tuple(self.words[index : index + len(phrase)]) == phrase:
                    self.places.setdefault(made, []).append(index)

    def mark(self, made: Concept, start: int) -> None:
        """Put a concept that was found by other means at the word that holds this position, or the next."""
        if self.words:
            index = min(bisect_right(self.ends, start), len(self.words) - 1)
            places = self.places.setdefault(made, [])
            places.insert(bisect_left(places, index), index)
            self._unions.clear()

    def at(self, wanted: Wanted) -> Sequence[int]:
        """Where a concept occurs, or any of several."""
        if isinstance(wanted, Concept):
            return self.places.get(wanted, ())
        found = self._unions.get(wanted)
        if found is None:
            found = sorted({place for made in wanted for place in self.places.get(made, ())})
            self._unions[wanted] = found
        return found

    def _has(self, wanted: Wanted) -> bool:
        if isinstance(wanted, Concept):
            return wanted in self.places
        return not self.places.keys().isdisjoint(wanted)

    def chain(self, first: Wanted, *steps: Step) -> list[Match]:
        """Where the concepts follow each other, each at most so many words after the one before it."""
        if not self._has(first):
            return []
        for made, _ in steps:
            if not self._has(made):
                return []
        wanted = [(first, 0), *steps]
        made, gap = wanted[-1]
        ends = [(place, place) for place in self.at(made)]
        for made, before in reversed(wanted[:-1]):
            ends = self._reaching(self.at(made), ends, gap)
            gap = before
        return ends

    def _reaching(self, places: Sequence[int], ends: Sequence[Match], gap: int) -> list[Match]:
        nexts = [start for start, _ in ends]
        reaching = []
        for place in places:
            at = bisect_right(nexts, place)
            if at < len(nexts) and self.along[nexts[at]] - self.along[place] <= gap:
                reaching.append((place, ends[at][1]))
        return reaching

    def together(self, within: int, *concepts: Wanted) -> list[Match]:
        """Where all of the concepts stand within so many words, in any order."""
        for made in concepts:
            if not self._has(made):
                return []
        found = sorted((self.at(made) for made in concepts), key=len)
        matches = []
        for place in found[0]:
            reach = [place, *(self._nearest(places, place) for places in found[1:])]
            if self.along[max(reach)] - self.along[min(reach)] <= within:
                matches.append((min(reach), max(reach)))
        return matches

    def _nearest(self, places: Sequence[int], place: int) -> int:
        at = bisect_left(places, place)
        return min(places[max(at - 1, 0) : at + 1], key=lambda other: abs(self.along[other] - self.along[place]))

    def before(self, place: int, wanted: Wanted, within: int) -> bool:
        """Whether the concept stands at most so many words before this one."""
        places = self.at(wanted)
        at = bisect_left(places, place)
        return at > 0 and self.along[place] - self.along[places[at - 1]] <= within

    def after(self, place: int, wanted: Wanted, within: int) -> bool:
        """Whether the concept stands at most so many words after this one."""
        places = self.at(wanted)
        at = bisect_right(places, place)
        return at < len(places) and self.along[places[at]] - self.along[place] <= within

    def near(self, match: Match, wanted: Wanted, within: int) -> bool:
        """Whether the concept stands inside the match or at most so many words from it."""
        places = self.at(wanted)
        at = bisect_left(places, match[0])
        inside = at < len(places) and places[at] <= match[1]
        return inside or self.before(match[0], wanted, within) or self.after(match[1], wanted, within)

    def sentences(self) -> Iterator[Match]:
        """The first and last word of each sentence."""
        first = 0
        for at in range(1, len(self.words) + 1):
            if at == len(self.words) or self.along[at] - self.along[at - 1] > _STOP:
                yield first, at - 1
                first = at

    def within(self, match: Match, wanted: Wanted) -> bool:
        """Whether the concept stands between these two words, both included."""
        places = self.at(wanted)
        at = bisect_left(places, match[0])
        return at < len(places) and places[at] <= match[1]

    def span(self, match: Match) -> tuple[int, int]:
        """The original characters of a match."""
        return self.folded.span(self.starts[match[0]], self.ends[match[1]])
