"""What the concepts of the rules are called in other languages than English, by the name of the concept.

Pure data: `vocabulary.Concept` looks its name up here. A language is a table of groups, `GROUP: words | phrases`, words
parted by blanks and phrases by commas. Most groups are a concept of the same name; the others stand for several
concepts, since rules cut the same verbs in different ways. A star stands for any ending of a word. Words that mean
something else in another language, once accents are gone, stand in phrases only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from callgate.pinning.inspection.languages.arabic import ARABIC
from callgate.pinning.inspection.languages.chinese import CHINESE
from callgate.pinning.inspection.languages.germanic import DUTCH, GERMAN
from callgate.pinning.inspection.languages.hindi import HINDI
from callgate.pinning.inspection.languages.iberian import PORTUGUESE, SPANISH
from callgate.pinning.inspection.languages.japanese import JAPANESE
from callgate.pinning.inspection.languages.korean import KOREAN
from callgate.pinning.inspection.languages.romance import FRENCH, ITALIAN
from callgate.pinning.inspection.languages.slavic import POLISH, RUSSIAN
from callgate.pinning.inspection.languages.turkish import TURKISH

_GROUP: Final = re.compile(r"^(?=[A-Z_]{2,20}:)", re.MULTILINE)
_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "USER": ("USER", "FOREIGN_USER"),
    "WITHOUT": ("NOT", "WITHOUT"),
    "ASSISTANT": ("ASSISTANT", "MODEL"),
    "OTHER": ("OTHER", "OTHERS"),
    "EVERY": ("EVERY", "ALL_OF"),
    "READ": ("READ", "FETCHED"),
    "PASS": ("PASS", "MOVED"),
    "SEND": ("SEND", "MOVED"),
    "TELL": ("TELL", "TELL_OF"),
    "QUIETLY": ("QUIETLY", "CONCEALED"),
    "TALK": ("TALK", "TALKED"),
    "INNER": ("INNER", "OWN", "PROMPT"),
    "CONTENTS": ("CONTENTS", "WHOLE"),
    "GUARD": ("GUARD", "GUARDED"),
    "LOOKED_FOR": ("LOOKED_FOR", "LOOKS_FOR", "SEEKS"),
    "OWN_SERVER": ("OWN_SERVER", "SOME_TOOLS"),
    "FROM_NOW": ("FROM_NOW", "REACH"),
    "OFFICE": ("OFFICE_OF",),
    "UNASKED": ("UNASKED_FOR",),
    "RUN": ("RUN_THERE",),
    "VARIABLES": ("HOST", "SECRET"),
}


def _read(language: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each group of a language with its words and phrases."""
    for part in filter(None, _GROUP.split(language)):
        group, _, listed = part.partition(":")
        words, _, phrases = listed.partition("|")
        yield group, (*words.split(), *(" ".join(phrase.split()) for phrase in phrases.split(",") if phrase.strip()))


def _by_concept(languages: Iterable[str]) -> dict[str, tuple[str, ...]]:
    known: dict[str, dict[str, None]] = {}
    for language in languages:
        for group, entries in _read(language):
            for name in _GROUPS.get(group, (group,)):
                known.setdefault(name, {}).update(dict.fromkeys(entries))
    return {name: tuple(entries) for name, entries in known.items()}


WORDS: Final[Mapping[str, tuple[str, ...]]] = _by_concept(
    (
        GERMAN,
        DUTCH,
        FRENCH,
        ITALIAN,
        SPANISH,
        PORTUGUESE,
        RUSSIAN,
        POLISH,
        TURKISH,
        ARABIC,
        HINDI,
        CHINESE,
        JAPANESE,
        KOREAN,
    )
)
