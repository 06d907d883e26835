"""One spelling for texts that look or read alike, with the way back to the characters they came from.

NFKD with its marks dropped (so an `é` is an `e`), case folded, nothing invisible, look-alike letters as the Latin ones
they imitate. Scripts written in syllables and ideographs keep their characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from callgate.pinning.inspection.confusables import BIDI, INVISIBLE, LOOKS_LIKE, is_tag, is_variation, script

# Devanagari has letters with a dot below or beside them that are typed in two ways, or left out.
_DOTTED: Final = re.compile("[\u0901\u0929\u0931\u0934\u093c\u0958-\u095f]")
_NUKTA: Final = "\u093c"
_KEPT: Final = re.compile("[\u0900-\u0dff\u0e00-\u0fff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_QUOTES: Final = {"’": "'", "‘": "'", "ʼ": "'", "′": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‐": "-", "‑": "-"}
_WORD: Final = re.compile(r"[^\W\d_]{1,64}")
# Addresses, paths and names of parameters, which are Latin in every language.
_NAMED: Final = re.compile(r"[a-z][a-z0-9+.-]{1,15}://\S{1,300}|(?<!\S)\S{1,64}@\S{1,64}|[~/.]\S{1,300}|`[^`\n]{1,80}`")
_INLINE: Final = r"</?(?:b|i|u|em|strong|span|font|wbr|mark|small|big|code|a)\b[^<>]{0,20}>"
# Inside a word: markup that leaves the word readable. Between words: any tag, but not its attributes, which may hold
# words of their own, and the marks of a comment.
_WITHIN: Final = re.compile(rf"(?<=\w)(?:{_INLINE}|\*{{1,3}}|<!---->){{1,4}}(?=\w)")
_BETWEEN: Final = re.compile(r"</?[a-z][\w:-]{0,40}\s{0,4}/?>?|<!--|-->|/\*|\*/")
_SEEN: Final[dict[str, str]] = {}
_REMEMBERED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Folded:
    """A folded text; `origins` has the original position of each character, or None where they are the same."""

    text: str
    origins: tuple[int, ...] | None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original characters behind a part of the folded text."""
        if self.origins is None:
            return start, end
        if not self.origins:
            return 0, 0
        last = len(self.origins) - 1
        return self.origins[min(start, last)], self.origins[min(max(end - 1, start), last)] + 1


def fold(raw: str) -> Folded:
    """Case, width, marks, look-alikes and invisible characters folded away; markup stays."""
    if raw.isascii():
        return Folded(raw.lower(), None)
    pieces: list[str] = []
    origins: list[int] = []
    for index, char in enumerate(raw):
        piece = _folded(char)
        pieces.append(piece)
        origins.extend([index] * len(piece))
    return _without_look_alikes("".join(pieces), tuple(origins))


def without_markup(folded: Folded) -> Folded:
    """The same without tags and comment marks; what stands inside a comment stays, for that is what a model reads."""
    text = folded.text
    if "<" not in text and "*" not in text and "-->" not in text:
        return folded
    cuts = [(found.start(), found.end(), "") for found in _WITHIN.finditer(text)]
    folded = _cut(folded, cuts)
    cuts = [(found.start(), found.end(), " ") for found in _BETWEEN.finditer(folded.text)]
    return _cut(folded, cuts)


def _folded(char: str) -> str:
    if char < "\x80":
        return char.lower()
    known = _SEEN.get(char)
    if known is not None:
        return known
    piece = _folded_once(char)
    if len(_SEEN) < _REMEMBERED:
        _SEEN[char] = piece
    return piece


def _folded_once(char: str) -> str:
    if char in INVISIBLE or char in BIDI or is_tag(char) or is_variation(char):
        return ""
    if char in _QUOTES:
        return _QUOTES[char]
    if _DOTTED.match(char):
        return unicodedata.normalize("NFKD", char).replace(_NUKTA, "").replace("\u0901", "\u0902")
    if _KEPT.match(char):
        return char
    parts = unicodedata.normalize("NFKD", char).casefold()
    kept = "".join(part for part in parts if not unicodedata.combining(part))
    return "".join(" " if part.isspace() and part != "\n" else part for part in kept)


def _without_look_alikes(text: str, origins: tuple[int, ...]) -> Folded:
    """Look-alikes become Latin inside words of mixed scripts, and in whole words where the text is Latin otherwise."""
    mostly = _mostly_latin(text)

    def latinised(found: re.Match[str]) -> str:
        word = found[0]
        if word.isascii():
            return word
        mixed = len({script(char) for char in word}) > 1
        whole = mostly and all(char in LOOKS_LIKE or char.isascii() for char in word)
        return "".join(LOOKS_LIKE.get(char, char) for char in word) if mixed or whole else word

    text = _WORD.sub(latinised, text)
    # Letters in boxes are no letters to Unicode, so they are in no word.
    text = "".join(LOOKS_LIKE.get(char, char) if char >= "\U0001f150" else char for char in text)
    return Folded(text, origins)


def _mostly_latin(text: str) -> bool:
    """By its letters, without the addresses that a text of any script may hold."""
    prose = _NAMED.sub(" ", text)
    latin = sum(char.isascii() and char.isalpha() for char in prose)
    return latin * 2 > sum(char.isalpha() for char in prose)


def _cut(folded: Folded, cuts: Iterable[tuple[int, int, str]]) -> Folded:
    text, origins = folded.text, folded.origins
    pieces: list[str] = []
    places: list[int] = []
    at = 0
    for start, end, instead in cuts:
        pieces += [text[at:start], instead]
        places += [*range(at, start), *[start] * len(instead)]
        at = end
    if not pieces:
        return folded
    pieces.append(text[at:])
    places.extend(range(at, len(text)))
    return Folded("".join(pieces), tuple(places if origins is None else [origins[place] for place in places]))
