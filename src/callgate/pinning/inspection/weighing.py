"""How much comes together in a sentence of things that are harmless one by one.

An order to the model, somebody's private data, a place to put it, other tools, a guard to be skipped: an honest
description has one of these in a sentence, perhaps two. The weights were first set by judgement and then moved, but
not far, to where they part the labelled texts best; each corpus was left out once to see that they hold elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from callgate.pinning.inspection import cues
from callgate.pinning.inspection.lexicon import (
    ASSISTANT,
    CONFIGURED,
    EVERY,
    EXAMPLE,
    MODEL,
    MUST,
    NOT,
    OTHER,
    SECRET,
    SENSITIVE,
    SOME_TOOLS,
    TOOL,
    USER,
    WITHOUT,
)
from callgate.pinning.inspection.reading import Reading, Text
from callgate.pinning.inspection.vocabulary import MAIL, URL, Concept, Match, Words, concept

_GUARD: Final = concept(
    "GUARDED", "confirmation verify warning warnings consent approval permission review checks yes", "no verify"
)
_TELL: Final = concept(
    "TELL_OF",
    "tell mention mentioned inform notify disclose reveal say show shown alert explain name announce warn bring report "
    "erwahne digas mentionne сообщай",
)
_MAY: Final = concept(
    "MAY", "must should can may need needs has have will could runs wants", "has to, have to, need to"
)
_DEALS: Final = concept(
    "DEALS",
    "order orders payment payments quantity amount recipient recipients addressed transfer transfers invoice mail "
    "mails",
)
_IN_TICKS: Final = re.compile(
    r"(?:in|as|into|to|with|field|parameter|argument|dans|en|im|feld|nel|w|em|no|campo|champ|в|поле|في) "
    r"(?:the )?[`'\"]\w{1,40}[`'\"]|[`'\"]\w{1,40}[`'\"] ?(?:に|里|裡|中|에|로|में)"
    r"|[`'\"]\w{1,40}[`'\"] (?:field|parameter|argument|map)"
    r"|(?:in|as|into|to) the \w{1,40} (?:field|parameter|argument)\b"
)
# Accounts that money can go to: an IBAN, an address of a chain of blocks, a card.
_ACCOUNTS: Final = re.compile(
    r"\b[a-z]{2}\d{2}(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,3})?\b|\b0x[0-9a-f]{40}\b|\bbc1[a-z0-9]{20,60}\b"
    r"|\b\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}\b"
)
_FIGURES: Final = re.compile(r"\d{4}|0x|bc1")
# A definition that begins like a message of failure asks for what would mend it.
_BROKEN_OPENING: Final = re.compile(
    r"\W{0,8}(?:error|warning|fatal|exception|failed|alert|connection (?:lost|refused|failed)"
    r"|authentication (?:failed|required)|session expired|token expired|unauthori[sz]ed|access denied"
    r"|rate limit exceeded|timeout|http ?[45]\d\d)\b"
)
# Files of a person's home that programs keep their settings in.
_DOT_FILES: Final = re.compile(r"(?<![\w.])~/\.[a-z][\w.-]{1,40}")
_MANY_TIMES: Final = re.compile(r"\b[1-9]\d{1,9} times\b")
# Not words of their own, but where they stand: a parameter in quotation marks; the opening sentence; a parameter's own
# text; words after a "not".
_SINK: Final = Concept("SINK")
_OPENING: Final = Concept("OPENING")
_PARAMETER: Final = Concept("PARAMETER")
_NOT_TOLD: Final = Concept("NOT_TOLD")
_NOT_GUARDED: Final = Concept("NOT_GUARDED")
_NOT_TAKEN: Final = Concept("NOT_TAKEN")
_ALL_TOOLS: Final = Concept("ALL_TOOLS")
_SCREENS: Final = Concept("SCREENS")
_ACCOUNT: Final = Concept("ACCOUNT")
_BROKEN: Final = Concept("BROKEN")
_DOT_FILE: Final = Concept("DOT_FILE")
_USER_DOES: Final = Concept("USER_DOES")
_LONG: Final = Concept("LONG")

_SECRETS: Final = frozenset({SECRET, SENSITIVE, CONFIGURED, cues.PRIVATE, cues.HOST})
_KNOWN: Final = frozenset({cues.TALKED, cues.INNER})
_DATA: Final = _SECRETS | _KNOWN | {cues.ELSEWHERE}
_FILES: Final = frozenset({SENSITIVE, CONFIGURED})
# What a tool may be about: words of its name and of its opening sentence are its business. A file that holds keys is so
# only if the opening names such a file: "docker" in a name does not explain ~/.docker/config.json.
_ITS_BUSINESS: Final = (_SECRETS - _FILES) | _KNOWN | {cues.OUTWARD, cues.RUN, cues.HARMED, _DEALS}
_KEEN: Final = frozenset(
    {
        cues.CONCEALED,
        cues.CONSENT,
        cues.UNASKED,
        cues.OFFICE,
        cues.HEEDED,
        cues.DEFIED,
        cues.CAST,
        cues.REACH,
        cues.RIVAL,
        cues.TOLD,
        cues.LURED,
        cues.LOOPED,
        cues.RUN,
    }
)
_ADDRESS: Final = frozenset({URL, MAIL})
_MOVED: Final = frozenset({cues.MOVED})

# Weights, in tenths.
_WEIGHTS: Final[dict[Concept, int]] = {
    cues.CONCEALED: 27,
    cues.DEFIED: 24,
    cues.CONSENT: 25,
    cues.UNASKED: 25,
    cues.CAST: 25,
    cues.LOOPED: 18,
    cues.HEEDED: 21,
    SENSITIVE: 19,
    cues.REACH: 16,
    cues.RUN: 16,
    cues.RIVAL: 15,
    cues.INNER: 15,
    cues.OFFICE: 14,
    cues.OUTWARD: 14,
    _ALL_TOOLS: 14,
    cues.PRIVATE: 13,
    _NOT_TOLD: 13,
    cues.ELSEWHERE: 12,
    cues.HOST: 12,
    CONFIGURED: 11,
    _NOT_GUARDED: 10,
    ASSISTANT: 10,
    cues.TOLD: 10,
    cues.WHOLE: 10,
    cues.TALKED: 10,
    cues.REPLIED: 9,
    cues.HARMED: 9,
    SECRET: 9,
    cues.LURED: 8,
    MODEL: 7,
    USER: 7,
    MUST: 7,
    cues.OFTEN: 6,
    cues.MOVED: 6,
    cues.BECAUSE: 5,
    _SINK: 5,
    cues.FETCHED: 4,
    _DEALS: 4,
    NOT: 2,
    cues.PLAIN: -8,
    _OPENING: -9,
    EXAMPLE: -12,
    cues.LOOKED_FOR: -15,
    _PARAMETER: -16,
    _NOT_TAKEN: -25,
    cues.KEPT: -25,
    cues.LEAVE_ASKED: -25,
    cues.OWN_SERVER: -30,
    cues.PROMOTED: 8,
    cues.DIVERTED: 4,
    cues.SWITCHED: -12,
    cues.PASSED_ON: -16,
    _ACCOUNT: 10,
    _BROKEN: 8,
    _DOT_FILE: 10,
    _USER_DOES: -8,
    _LONG: -2,
}
_Group: TypeAlias = frozenset[Concept]
# What more it is when two of them stand in one sentence.
_PAIRS: Final[tuple[tuple[_Group, _Group, int], ...]] = (
    (_DATA, _MOVED, 8),
    (_DATA, frozenset({_SINK}), 12),
    (_DATA, frozenset({cues.WHOLE}), 7),
    (_DATA, frozenset({_PARAMETER}), 8),
    (_KNOWN | {cues.HOST, cues.ELSEWHERE}, frozenset({_PARAMETER}), 13),
    (_SECRETS, _KNOWN | {cues.ELSEWHERE}, 5),
    (_KNOWN, frozenset({cues.ELSEWHERE}), 5),
    (frozenset({cues.ELSEWHERE}), frozenset({cues.MOVED, cues.WHOLE}), 8),
    (_ADDRESS, _ADDRESS, 12),
    (_ADDRESS, _MOVED, 11),
    (frozenset({SECRET, SENSITIVE, cues.PRIVATE}), frozenset({cues.LURED}), 25),
    (_KEEN, frozenset({cues.HARMED}), 7),
    (_KEEN, frozenset({ASSISTANT, MODEL}), 5),
    (_KEEN, _DATA, 7),
    (_KEEN, _MOVED, 6),
    (frozenset({_OPENING}), frozenset({cues.LOOKED_FOR}), -25),
    (frozenset({_OPENING}), frozenset({_SCREENS}), -40),
)
# For a second and a third of the keen ones.
_MORE_KEEN: Final = (0, 0, 10, 15)
_ENOUGH: Final = 32
# For each doubling of the number of sentences beyond a few.
_FEW: Final = 3
_PER_DOUBLING: Final = 3
_MOST_BY_CHANCE: Final = 12
_STEM: Final = 5
_LONG_OPENING: Final = 40
_LONGEST: Final = 45
_LONG_WORDS: Final = 30
_PLACED: Final = frozenset({*_WEIGHTS, *_DATA, *_KEEN, *_ADDRESS, OTHER, EVERY, TOOL, SOME_TOOLS})


def weigh(there: set[Concept]) -> int:
    """How much comes together in one sentence."""
    if not there.isdisjoint((SENSITIVE, cues.HOST)):
        there.discard(SECRET)
    if ASSISTANT in there:
        there.discard(MODEL)
    if not there.isdisjoint((cues.OWN_SERVER, SOME_TOOLS)):
        there -= {cues.ELSEWHERE, cues.RIVAL, cues.REACH, OTHER, EVERY}
    if TOOL in there and not there.isdisjoint((OTHER, EVERY)):
        there.add(_ALL_TOOLS)
    weight = sum(_WEIGHTS.get(one, 0) for one in there)
    weight += sum(more for one, two, more in _PAIRS if not there.isdisjoint(one) and not there.isdisjoint(two))
    return weight + _MORE_KEEN[min(len(there & _KEEN), 3)]


def enough(tool: Reading) -> float:
    """How much is too much. It takes more in a long definition, where more comes together by chance, but not much
    more: length is no cover."""
    sentences = sum(1 for text in tool.prose if text.kind != "key" for _ in text.words.sentences())
    return _ENOUGH + min(_MOST_BY_CHANCE, _PER_DOUBLING * math.log2(max(1, sentences / _FEW)))


def pieces(part: Match) -> Iterator[Match]:
    """Lists and tables without full stops are one long sentence, in which much comes together by chance."""
    for first in range(part[0], part[1] + 1, _LONGEST):
        yield first, min(first + _LONGEST - 1, part[1])


def business_of(tool: Reading) -> frozenset[str]:
    """The beginnings of the words that say what the tool is for, and kinds of files by their concept's name."""
    said_: list[str] = []
    files: list[str] = []
    for text in tool.texts:
        if text.kind == "name":
            said_ += text.words.words
        elif text.kind == "description":
            opening = next(text.words.sentences(), (0, -1))
            said_ += text.words.words[: opening[1] + 1]
            files = [made.name for made in _FILES if text.words.within(opening, made)]
    return frozenset([*(word[:_STEM] for word in said_), *files])


def _mark(text: Text) -> None:
    """Things that are told by their shape."""
    for found in _IN_TICKS.finditer(text.plain.text):
        text.words.mark(_SINK, found.end() - 2)
    for found in _MANY_TIMES.finditer(text.plain.text):
        text.words.mark(cues.LOOPED, found.start())
    if "~/." in text.raw:
        for found in _DOT_FILES.finditer(text.plain.text):
            text.words.mark(_DOT_FILE, found.start())
    if _FIGURES.search(text.raw):
        for found in _ACCOUNTS.finditer(text.plain.text):
            text.words.mark(_ACCOUNT, found.start())


def placed(text: Text, parts: list[Match], business: frozenset[str]) -> list[set[Concept]]:
    """What each sentence has of the things that are weighed."""
    owner = [number for number, (first, last) in enumerate(parts) for _ in range(first, last + 1)]
    there: list[set[Concept]] = [set() for _ in parts]
    _mark(text)
    _place_words(text, owner, there, business)
    _place_refusals(text.words, owner, there)
    for one, (first, last) in zip(there, parts, strict=True):
        if last - first >= _LONG_WORDS:
            one.add(_LONG)
    if text.where == "description" and there:
        _place_opening(text, parts, there)
    if ".properties." in text.where:
        for one in there:
            one.add(_PARAMETER)
    return there


def _place_words(text: Text, owner: list[int], there: list[set[Concept]], business: frozenset[str]) -> None:
    words = text.words
    opens = text.where == "description"
    for made, places in words.places.items():
        if made not in _PLACED:
            continue
        for place in places:
            number = owner[place]
            its = made.name in business or (made in _ITS_BUSINESS and words.words[place][:_STEM] in business)
            if not its or (opens and number == 0):
                there[number].add(made)


def _place_refusals(words: Words, owner: list[int], there: list[set[Concept]]) -> None:
    """What a "not" is about, and what is the person's to do."""
    for made, wanted, gap in (
        (_NOT_TOLD, _TELL, 3),
        (_NOT_GUARDED, _GUARD, 4),
        (_NOT_TAKEN, (SECRET, SENSITIVE, CONFIGURED, cues.PRIVATE, cues.TALKED, cues.HEEDED), 4),
    ):
        for match in words.chain(NOT, (wanted, gap)):
            there[owner[match[1]]].add(made)
    for match in words.chain(NOT, (WITHOUT, 9)):
        # "Never … without the user's approval" asks for it.
        if match[0] < match[1] and owner[match[0]] == owner[match[1]]:
            there[owner[match[1]]] -= {cues.UNASKED, cues.CONSENT}
            there[owner[match[1]]].add(cues.LEAVE_ASKED)
    for match in words.chain(USER, (_MAY, 1)):
        # What the person is to do is no order to the model, unless it is what they are not to do.
        if NOT not in there[owner[match[0]]]:
            there[owner[match[0]]].add(_USER_DOES)


def _place_opening(text: Text, parts: list[Match], there: list[set[Concept]]) -> None:
    there[0].add(_OPENING)
    # What a scanner looks for stands after its first word, as objects and not as orders.
    if text.words.at(cues.LOOKED_FOR)[:1] in ([0], (0,)) and parts[0][1] < _LONG_OPENING:
        there[0].add(_SCREENS)
    if _BROKEN_OPENING.match(text.plain.text):
        for one in there:
            one.add(_BROKEN)
