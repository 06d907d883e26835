"""Words that mean the same to a rule, in several languages, and texts as lists of words.

A rule asks whether such words stand near each other, in an order or in any; so it is about what a text does, not a
quotation. Every word is looked up once for all rules, so the cost is one pass over the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from callgate.pinning.inspection.folding import Folded, fold
from callgate.pinning.inspection.languages import WORDS

# Scripts without blanks, and Hangul, whose words have their endings glued on: known words are found inside a run.
_RUNS: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
# The vowel signs of Devanagari are letters of its words, though not to Unicode.
_LETTER: Final = r"[\w\u0900-\u0963\u0970-\u097f]"
_TOKEN: Final = re.compile(
    r"(?P<url>[a-z][a-z0-9+.-]{1,15}://[^\s\"'<>`)\]}]{1,300})"
    r"|(?P<mail>[a-z0-9][a-z0-9.+_-]{0,63}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})"
    rf"|(?P<word>{_LETTER}{{1,64}}(?:'(?:s|t|re|ll|ve|d|m)\b)?)"
    rf"|(?P<stop>(?<!e\.g)(?<!i\.e)[.!?;；]{{1,8}}(?=[\s\"')*_]|\Z|[\u3000-\u303f{_RUNS}])"
    rf"|[。।॥؟۔؛]{{1,8}}|(?<=[{_RUNS}])[!?;]{{1,8}}"
    r"|\n[^\S\n]{0,20}(?:\n|[-*•#>]|\d{1,2}[.)]\s))"
)
_IN_RUN: Final = re.compile(f"[{_RUNS}]")
_LATIN_IN_RUN: Final = re.compile(r"[a-z0-9_]{1,64}")
# Arabic writes "and" and "the" as part of the word.
_ARABIC: Final = re.compile(r"[\u0621-\u064a]")
_ARABIC_HEAD: Final = re.compile(r"[وف]?(?:[بك]?ال|لل)?")
_ROOT: Final = 3
# So many unknown characters of a run count as one word.
_UNKNOWN: Final = 3
# An entry that ends in a star is known by its beginning; by so much of it, in ASCII and elsewhere, it is looked up.
_HEAD: Final = 4
_SHORT_HEAD: Final = 3
# A sentence that ends between two words puts them this much further apart.
_STOP: Final = 5


_WORDS: Final[dict[str, tuple[Concept, ...]]] = {}
_STEMS: Final[dict[str, tuple[tuple[str, Concept], ...]]] = {}
_PHRASES: Final[dict[str, list[tuple[tuple[str, ...], Concept]]]] = {}
# Phrases in which a word is known by its beginning, by their first word.
_INFLECTED: Final[dict[str, list[tuple[tuple[str, ...], Concept]]]] = {}
# Phrases of scripts whose words are found inside runs: they are looked for in the text itself.
_SPACED: Final[dict[str, tuple[Concept, ...]]] = {}
# Words inside runs by their first character, the longest first.
_INSIDE: Final[dict[str, tuple[tuple[str, tuple[Concept, ...]], ...]]] = {}


class Concept:
    """Words with one meaning. Phrases of up to four words are written with spaces.

    It knows from the beginning what other languages have for its name: see `languages`.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        for entry in WORDS.get(name, ()):
            _learn(fold(entry).text, self)

    def __repr__(self) -> str:
        return self.name


# One concept, or any of several.
Wanted: TypeAlias = Concept | tuple[Concept, ...]
Step: TypeAlias = tuple[Wanted, int]
Match: TypeAlias = tuple[int, int]

URL: Final = Concept("URL")
MAIL: Final = Concept("MAIL")


def concept(name: str, *lists: str) -> Concept:
    """A new concept: words parted by blanks, phrases parted by commas in lists that have a comma.

    A star at the end of a word of four letters or more stands for any ending; the first word of a phrase has none.
    """
    made = Concept(name)
    for words in lists:
        for entry in words.split(",") if "," in words else words.split():
            _learn(fold(entry.strip()).text, made)
    return made


def _learn(entry: str, made: Concept) -> None:
    if not entry:
        return
    if _IN_RUN.search(entry) and " " in entry:
        _SPACED[entry] = (*_SPACED.get(entry, ()), made)
        return
    if _IN_RUN.search(entry):
        known = dict(_INSIDE.get(entry[0], ()))
        known[entry] = (*known.get(entry, ()), made)
        _INSIDE[entry[0]] = tuple(sorted(known.items(), key=lambda each: -len(each[0])))
        return
    words = tuple(_split(entry))
    if len(words) > 1:
        table = _INFLECTED if "*" in entry else _PHRASES
        table.setdefault(words[0], []).append((words, made))
    elif entry.endswith("*"):
        head = _head(words[0])
        _STEMS[head] = (*_STEMS.get(head, ()), (words[0][:-1], made))
    else:
        _WORDS[words[0]] = (*_WORDS.get(words[0], ()), made)


def _split(entry: str) -> Iterator[str]:
    for found in _TOKEN.finditer(entry):
        if found["word"]:
            yield _bare(found["word"]) + ("*" if entry[found.end() : found.end() + 1] == "*" else "")


def _head(word: str) -> str:
    return word[: _HEAD if word.isascii() else _SHORT_HEAD]


def _bare(word: str) -> str:
    """An Arabic word without what is written together with it; any other word as it is."""
    if word.isascii() or not _ARABIC.match(word):
        return word
    head = _ARABIC_HEAD.match(word)
    return word[head.end() :] if head and len(word) - head.end() >= _ROOT else word


def _means(word: str) -> tuple[Concept, ...]:
    """What a word means, by itself or by its beginning."""
    known = _WORDS.get(word)
    if known is not None:
        return known
    stems = _STEMS.get(_head(word))
    return tuple(made for stem, made in stems if word.startswith(stem)) if stems else ()


def _inside(run: str, at: int) -> tuple[str, tuple[Concept, ...]]:
    """The longest known word that begins here, or nothing."""
    for entry, meant in _INSIDE.get(run[at], ()):
        if run.startswith(entry, at):
            return entry, meant
    return "", ()


def _inflects(words: Sequence[str], phrase: tuple[str, ...]) -> bool:
    """Whether the words are those of a phrase, of which some may be known by their beginning."""
    return len(words) == len(phrase) and all(
        word.startswith(wanted[:-1]) if wanted[-1] == "*" else word == wanted
        for word, wanted in zip(words, phrase, strict=True)
    )


# Words that mean something else together: a password is not asked for where somebody is told to keep one safe.
_IDIOM: Final = concept(
    "IDIOM",
    ", ".join(
        f"{verb} {what} in {whose} password manager"
        for verb in ("store", "save", "keep", "put")
        for what in ("it", "them", "this")
        for whose in ("a", "the", "your", "their")
    ),
)
_IDIOM_WORDS: Final = 6


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
        self._has_runs = False
        self._read()
        self._phrases()

    def _read(self) -> None:
        along = 0
        for found in _TOKEN.finditer(self.folded.text):
            kind = found.lastgroup
            word = found[0]
            if kind == "stop":
                along += _STOP
                continue
            if kind == "word" and not word.isascii():
                if _IN_RUN.search(word):
                    self._has_runs = True
                    along = self._run(word, found.start(), along)
                    continue
                word = _bare(word)
            along += 1
            self._put(word, found.start(), found.end(), along)
            if kind == "word":
                self._place(_means(word))
            else:
                self._place((URL if kind == "url" else MAIL,))

    def _place(self, meant: Iterable[Concept]) -> None:
        """Puts concepts at the word that was read last."""
        index = len(self.words) - 1
        for each in meant:
            places = self.places.setdefault(each, [])
            if not places or places[-1] != index:
                places.append(index)

    def _put(self, word: str, start: int, end: int, along: int) -> None:
        self.words.append(word)
        self.starts.append(start)
        self.ends.append(end)
        self.along.append(along)

    def _run(self, run: str, start: int, along: int) -> int:
        """Characters without blanks: known words of them, the longest first, and what is left between these."""
        at = unknown = 0
        while at < len(run):
            latin = _LATIN_IN_RUN.match(run, at)
            entry, meant = (latin[0], _means(latin[0])) if latin else _inside(run, at)
            if not entry and unknown % _UNKNOWN:
                self.words[-1] += run[at]
                self.ends[-1] += 1
            else:
                along += 1
                size = len(entry) or 1
                self._put(run[at : at + size], start + at, start + at + size, along)
                self._place(meant)
            unknown = 0 if entry else unknown + 1
            at += len(entry) or 1
        return along

    def _phrases(self) -> None:
        found: dict[Concept, list[int]] = {}
        for index, word in enumerate(self.words):
            for phrase, made in _PHRASES.get(word, ()):
                if tuple(self.words[index : index + len(phrase)]) == phrase:
                    found.setdefault(made, []).append(index)
            for phrase, made in _INFLECTED.get(word, ()):
                if _inflects(self.words[index : index + len(phrase)], phrase):
                    found.setdefault(made, []).append(index)
        for index, meant in self._spaced() if self._has_runs else ():
            for made in meant:
                found.setdefault(made, []).append(index)
        for made, indexes in found.items():
            self.places[made] = sorted({*self.places.get(made, ()), *indexes})
        if _IDIOM in found:
            self._without({at for first in found[_IDIOM] for at in range(first, first + _IDIOM_WORDS)})

    def _without(self, idioms: set[int]) -> None:
        """Takes the words of idioms from what they mean one by one."""
        for made, places in list(self.places.items()):
            kept = [place for place in places if place not in idioms]
            if kept:
                self.places[made] = kept
            else:
                del self.places[made]

    def _spaced(self) -> Iterator[tuple[int, tuple[Concept, ...]]]:
        text = self.folded.text
        for phrase, meant in _SPACED.items():
            at = text.find(phrase)
            while at >= 0:
                yield min(bisect_right(self.ends, at), len(self.words) - 1), meant
                at = text.find(phrase, at + len(phrase))

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
