"""Words that mean the same to a rule, in several languages, and texts as lists of words.

A concept is a name for words and phrases with one meaning. `concepts.toml` has them; each file in `languages/` adds
what one language has for them. A rule asks whether such concepts stand near each other, in an order or in any; so it
is about what a text does, not a quotation. Every word is looked up once for all rules, so the cost is one pass over
the text.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from callgate.inspection.data_files import FOLDER, load, pattern
from callgate.inspection.text import FoldedText, fold

Concept: TypeAlias = str
# One concept, or any of several.
Wanted: TypeAlias = Concept | tuple[Concept, ...]
# A concept and how many words it may follow the one before it.
Step: TypeAlias = tuple[Wanted, int]
# The first and the last word.
Match: TypeAlias = tuple[int, int]
_Phrases: TypeAlias = dict[str, list[tuple[tuple[str, ...], Concept]]]

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
HEAD: Final = 4
SHORT_HEAD: Final = 3
# A sentence that ends between two words puts them this much further apart.
_STOP: Final = 5
# A concept whose words mean something else together: a password is not asked for where somebody is told to keep one
# safe.
_IDIOM: Final = "IDIOM"
_IDIOM_WORDS: Final = 6
# Patterns of concepts that are found by their shape.
_MARKS: Final = ("some_others", "key_files", "settings", "variables")


class ConceptsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`concepts.toml`: words of each concept, those without words of their own, and what groups of a language are."""

    marked: dict[str, str]
    groups: dict[str, list[str]]
    words: dict[str, str]


def _entries(listed: str) -> Iterator[str]:
    """Each entry of `words | phrases`: words parted by blanks, phrases parted by commas."""
    words, _, phrases = listed.partition("|")
    yield from words.split()
    yield from filter(None, (" ".join(phrase.split()) for phrase in phrases.split(",")))


@functools.cache
def foreign_words() -> Mapping[Concept, tuple[str, ...]]:
    """What the concepts are called in other languages than English."""
    groups = load("concepts", ConceptsFile).groups
    found: dict[Concept, dict[str, None]] = {}
    for path in sorted((FOLDER / "languages").glob("*.toml")):
        for group, listed in load(f"languages/{path.stem}", dict[str, str]).items():
            for concept in groups.get(group, (group,)):
                found.setdefault(concept, {}).update(dict.fromkeys(_entries(listed)))
    return {concept: tuple(entries) for concept, entries in found.items()}


@functools.cache
def lexicon() -> Lexicon:
    """Every word and phrase of the data files."""
    file = load("concepts", ConceptsFile)
    made = Lexicon()
    for concept in (*file.marked, *file.words):
        for entry in (*_entries(file.words.get(concept, "")), *foreign_words().get(concept, ())):
            made.add(fold(entry).text, concept)
    made.sort()
    return made


class Lexicon:
    """Words and phrases with what they mean, by how they are found in a text.

    A star at the end of a word of four letters or more stands for any ending; the first word of a phrase has none.
    """

    def __init__(self) -> None:
        self.words: dict[str, tuple[Concept, ...]] = {}
        self.stems: dict[str, tuple[tuple[str, Concept], ...]] = {}
        # By their first word; `inflected` are those in which a word is known by its beginning.
        self.phrases: _Phrases = {}
        self.inflected: _Phrases = {}
        # Phrases of scripts whose words are found inside runs: they are looked for in the text itself.
        self.spaced: dict[str, tuple[Concept, ...]] = {}
        # Words inside runs by their first character, the longest first.
        self.inside: dict[str, dict[str, tuple[Concept, ...]]] = {}
        self.patterns = {name: pattern("marks", name) for name in _MARKS}

    def add(self, entry: str, concept: Concept) -> None:
        if _IN_RUN.search(entry):
            table = self.spaced if " " in entry else self.inside.setdefault(entry[0], {})
            table[entry] = (*table.get(entry, ()), concept)
            return
        words = tuple(_split(entry))
        if len(words) > 1:
            phrases = self.inflected if "*" in entry else self.phrases
            phrases.setdefault(words[0], []).append((words, concept))
        elif entry.endswith("*"):
            head = _head(words[0])
            self.stems[head] = (*self.stems.get(head, ()), (words[0][:-1], concept))
        else:
            self.words[words[0]] = (*self.words.get(words[0], ()), concept)

    def sort(self) -> None:
        for first, entries in self.inside.items():
            self.inside[first] = dict(sorted(entries.items(), key=lambda each: -len(each[0])))

    def meaning(self, word: str) -> tuple[Concept, ...]:
        """What a word means, by itself or by its beginning."""
        known = self.words.get(word)
        if known is not None:
            return known
        stems = self.stems.get(_head(word))
        return tuple(concept for stem, concept in stems if word.startswith(stem)) if stems else ()

    def longest_inside(self, run: str, at: int) -> tuple[str, tuple[Concept, ...]]:
        """The longest known word that begins here, or nothing."""
        for entry, meant in self.inside.get(run[at], {}).items():
            if run.startswith(entry, at):
                return entry, meant
        return "", ()


def _split(entry: str) -> Iterator[str]:
    for found in _TOKEN.finditer(entry):
        if found["word"]:
            yield without_particles(found["word"]) + ("*" if entry[found.end() : found.end() + 1] == "*" else "")


def _head(word: str) -> str:
    return word[: HEAD if word.isascii() else SHORT_HEAD]


def without_particles(word: str) -> str:
    """An Arabic word without what is written together with it; any other word as it is."""
    if word.isascii() or not _ARABIC.match(word):
        return word
    head = _ARABIC_HEAD.match(word)
    return word[head.end() :] if head and len(word) - head.end() >= _ROOT else word


def _inflects(words: Sequence[str], phrase: tuple[str, ...]) -> bool:
    """Whether the words are those of a phrase, of which some may be known by their beginning."""
    return len(words) == len(phrase) and all(
        word.startswith(wanted[:-1]) if wanted[-1] == "*" else word == wanted
        for word, wanted in zip(words, phrase, strict=True)
    )


class WordIndex:
    """A folded text as words: where each starts and ends, how far along it is, and where each concept occurs."""

    def __init__(self, folded: FoldedText) -> None:
        self.folded = folded
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.words: list[str] = []
        # Distances, in words; an end of a sentence counts for several.
        self.along: list[int] = []
        self.places: dict[Concept, list[int]] = {}
        self._lexicon = lexicon()
        self._unions: dict[Wanted, Sequence[int]] = {}
        self._has_runs = False
        self._read()
        self._find_phrases()

    def _read(self) -> None:
        meaning = self._lexicon.meaning
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
                    along = self._read_run(word, found.start(), along)
                    continue
                word = without_particles(word)
            along += 1
            meant = meaning(word) if kind == "word" else ("URL" if kind == "url" else "MAIL",)
            self._add(word, found.start(), found.end(), along, meant)

    def _add(self, word: str, start: int, end: int, along: int, meant: Iterable[Concept]) -> None:
        index = len(self.words)
        self.words.append(word)
        self.starts.append(start)
        self.ends.append(end)
        self.along.append(along)
        for concept in meant:
            places = self.places.setdefault(concept, [])
            if not places or places[-1] != index:
                places.append(index)

    def _read_run(self, run: str, start: int, along: int) -> int:
        """Characters without blanks: known words of them, the longest first, and what is left between these."""
        at = unknown = 0
        while at < len(run):
            latin = _LATIN_IN_RUN.match(run, at)
            if latin:
                entry, meant = latin[0], self._lexicon.meaning(latin[0])
            else:
                entry, meant = self._lexicon.longest_inside(run, at)
            if not entry and unknown % _UNKNOWN:
                self.words[-1] += run[at]
                self.ends[-1] += 1
            else:
                along += 1
                size = len(entry) or 1
                self._add(run[at : at + size], start + at, start + at + size, along, meant)
            unknown = 0 if entry else unknown + 1
            at += len(entry) or 1
        return along

    def _find_phrases(self) -> None:
        phrases, inflected = self._lexicon.phrases, self._lexicon.inflected
        found: dict[Concept, list[int]] = {}
        for index, word in enumerate(self.words):
            for phrase, concept in phrases.get(word, ()):
                if tuple(self.words[index : index + len(phrase)]) == phrase:
                    found.setdefault(concept, []).append(index)
            for phrase, concept in inflected.get(word, ()):
                if _inflects(self.words[index : index + len(phrase)], phrase):
                    found.setdefault(concept, []).append(index)
        for index, meant in self._find_spaced() if self._has_runs else ():
            for concept in meant:
                found.setdefault(concept, []).append(index)
        for concept, indexes in found.items():
            self.places[concept] = sorted({*self.places.get(concept, ()), *indexes})
        if _IDIOM in found:
            self._remove({at for first in found[_IDIOM] for at in range(first, first + _IDIOM_WORDS)})

    def _remove(self, idioms: set[int]) -> None:
        """Takes the words of idioms from what they mean one by one."""
        kept = {concept: [at for at in places if at not in idioms] for concept, places in self.places.items()}
        self.places = {concept: places for concept, places in kept.items() if places}

    def _find_spaced(self) -> Iterator[tuple[int, tuple[Concept, ...]]]:
        text = self.folded.text
        for phrase, meant in self._lexicon.spaced.items():
            at = text.find(phrase)
            while at >= 0:
                yield self._word_at(at), meant
                at = text.find(phrase, at + len(phrase))

    def _word_at(self, start: int) -> int:
        """The word that holds this position, or the next."""
        return min(bisect_right(self.ends, start), len(self.words) - 1)

    def mark(self, concept: Concept, start: int) -> None:
        """Put a concept that was found by other means at the word that holds this position, or the next."""
        if self.words:
            index = self._word_at(start)
            places = self.places.setdefault(concept, [])
            places.insert(bisect_left(places, index), index)
            self._unions.clear()

    def at(self, wanted: Wanted) -> Sequence[int]:
        """Where a concept occurs, or any of several."""
        if isinstance(wanted, str):
            return self.places.get(wanted, ())
        found = self._unions.get(wanted)
        if found is None:
            found = sorted({place for concept in wanted for place in self.places.get(concept, ())})
            self._unions[wanted] = found
        return found

    def _has(self, wanted: Wanted) -> bool:
        if isinstance(wanted, str):
            return wanted in self.places
        return not self.places.keys().isdisjoint(wanted)

    def chain(self, first: Wanted, *steps: Step) -> list[Match]:
        """Where the concepts follow each other, each at most so many words after the one before it."""
        if not self._has(first):
            return []
        for concept, _ in steps:
            if not self._has(concept):
                return []
        wanted = [(first, 0), *steps]
        concept, gap = wanted[-1]
        ends = [(place, place) for place in self.at(concept)]
        for concept, before in reversed(wanted[:-1]):
            ends = self._reaching(self.at(concept), ends, gap)
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
        for concept in concepts:
            if not self._has(concept):
                return []
        found = sorted((self.at(concept) for concept in concepts), key=len)
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
        return (
            self.within(match, wanted) or self.before(match[0], wanted, within) or self.after(match[1], wanted, within)
        )

    def within(self, match: Match, wanted: Wanted) -> bool:
        """Whether the concept stands between these two words, both included."""
        places = self.at(wanted)
        at = bisect_left(places, match[0])
        return at < len(places) and places[at] <= match[1]

    @functools.cached_property
    def sentences(self) -> tuple[Match, ...]:
        """The first and last word of each sentence."""
        along = self.along
        starts = [0, *(at for at in range(1, len(along)) if along[at] - along[at - 1] > _STOP)]
        return tuple(zip(starts, [start - 1 for start in starts[1:]] + [len(along) - 1], strict=True)) if along else ()

    def pieces(self, most: int) -> list[Match]:
        """The sentences; lists and tables without full stops are a long one, and parted."""
        return [(at, min(at + most - 1, last)) for first, last in self.sentences for at in range(first, last + 1, most)]

    def sentence_of(self, place: int) -> Match:
        """The sentence that holds a word."""
        return self.sentences[bisect_right(self.sentences, (place, len(self.words))) - 1]

    def span(self, match: Match) -> tuple[int, int]:
        """The original characters of a match."""
        return self.folded.span(self.starts[match[0]], self.ends[match[1]])


def mark_patterns(words: WordIndex) -> None:
    """Puts KEY_FILE and SETTINGS_FILE where such files are named, and SOME_TOOLS where tools of one kind are."""
    text = words.folded.text
    patterns = lexicon().patterns
    if " other " in text or " of the " in text:
        for found in patterns["some_others"].finditer(text):
            words.mark("SOME_TOOLS", found.end() - 1)
    for found in patterns["key_files"].finditer(text):
        words.mark("KEY_FILE", found.start())
        if not found[0].isalpha() and " " not in found[0]:
            words.mark("KEY_PATH", found.start())
    for found in patterns["settings"].finditer(text):
        words.mark("SETTINGS_FILE", found.start())
    for found in patterns["variables"].finditer(text) if "_" in text else ():
        words.mark("SECRET", found.start())
