"""One text: how it reads when tricks of spelling are undone, how it is quoted, and how many tokens it takes.

Folding gives one spelling to texts that look or read alike, with the way back to the characters they came from. It is
NFKD with its marks dropped (so an `é` is an `e`), case folded, nothing invisible, look-alike letters as the Latin ones
they imitate. Scripts written in syllables and ideographs keep their characters.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from callgate.inspection.data_files import load

_SNIPPET: Final = 80
# Devanagari has letters with a dot below or beside them that are typed in two ways, or left out.
_DOTTED: Final = re.compile("[\u0901\u0929\u0931\u0934\u093c\u0958-\u095f]")
_NUKTA: Final = "\u093c"
_KEPT: Final = re.compile("[\u0900-\u0dff\u0e00-\u0fff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af]")
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
# Letters of alphabets that models split well; digits; what is written without spaces; everything else by itself.
_TOKENS: Final = re.compile(r"[A-Za-z\u00c0-\u024f]{1,64}|\d{1,3}|[^\S\n]{1,16}|\n{1,8}|.", re.DOTALL)
_LETTERS_PER_TOKEN: Final = 6


@dataclass(frozen=True, slots=True)
class SpecialCharacters:
    """Characters that are drawn as nothing or as others. `look_alikes` gives the Latin letter that one looks like."""

    invisible: frozenset[str]
    bidi: frozenset[str]
    quotes: Mapping[str, str]
    look_alikes: Mapping[str, str]
    scripts: tuple[tuple[str, int, int], ...]


@functools.cache
def special_characters() -> SpecialCharacters:
    file = load("characters", dict[str, dict[str, str]])
    look_alikes = {pair[0]: pair[1] for pairs in file["look_alikes"].values() for pair in pairs.split()}
    # Letters in dark circles and squares, and the halves of flags: Unicode gives them no plain form.
    for first in (0x1F150, 0x1F170, 0x1F1E6):
        look_alikes.update((chr(first + index), chr(ord("a") + index)) for index in range(26))
    ranges = ((name, one.split("-")) for name, listed in file["scripts"].items() for one in listed.split())
    return SpecialCharacters(
        invisible=frozenset(file["unseen"]["invisible"]),
        bidi=frozenset(file["unseen"]["bidi"]),
        quotes=file["quotes"],
        look_alikes=look_alikes,
        scripts=tuple((name, int(first, 16), int(last, 16)) for name, (first, last) in ranges),
    )


def is_tag(char: str) -> bool:
    """A character of the tag block (U+E0000 to U+E007F): ASCII that nobody can see."""
    return "\U000e0000" <= char <= "\U000e007f"


def is_variation(char: str) -> bool:
    """A variation selector, old, new or Mongolian."""
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def script(char: str) -> str:
    """The script of a letter, as far as look-alikes go: latin, greek, cyrillic, armenian, cherokee, or empty."""
    code = ord(char)
    if code < 0x250 or 0x1E00 <= code <= 0x1EFF:
        return "latin" if char.isalpha() else ""
    return next((name for name, first, last in special_characters().scripts if first <= code <= last), "")


@dataclass(frozen=True, slots=True)
class FoldedText:
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


def fold(raw: str) -> FoldedText:
    """Case, width, marks, look-alikes and invisible characters folded away; markup stays."""
    if raw.isascii():
        return FoldedText(raw.lower(), None)
    pieces: list[str] = []
    origins: list[int] = []
    for index, char in enumerate(raw):
        piece = _folded(char)
        pieces.append(piece)
        origins.extend([index] * len(piece))
    return _without_look_alikes("".join(pieces), tuple(origins))


def without_markup(folded: FoldedText) -> FoldedText:
    """The same without tags and comment marks; what stands inside a comment stays, for that is what a model reads."""
    text = folded.text
    if "<" not in text and "*" not in text and "-->" not in text:
        return folded
    folded = _cut(folded, ((found.start(), found.end(), "") for found in _WITHIN.finditer(text)))
    return _cut(folded, ((found.start(), found.end(), " ") for found in _BETWEEN.finditer(folded.text)))


def unaccented(char: str) -> str:
    """NFKD, case folded, without combining marks."""
    parts = unicodedata.normalize("NFKD", char).casefold()
    return "".join(part for part in parts if not unicodedata.combining(part))


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
    special = special_characters()
    if char in special.invisible or char in special.bidi or is_tag(char) or is_variation(char):
        return ""
    if char in special.quotes:
        return special.quotes[char]
    if _DOTTED.match(char):
        return unicodedata.normalize("NFKD", char).replace(_NUKTA, "").replace("\u0901", "\u0902")
    if _KEPT.match(char):
        return char
    return "".join(" " if part.isspace() and part != "\n" else part for part in unaccented(char))


def _without_look_alikes(text: str, origins: tuple[int, ...]) -> FoldedText:
    """Look-alikes become Latin inside words of mixed scripts, and in whole words where the text is Latin otherwise."""
    mostly = _mostly_latin(text)
    look_alikes = special_characters().look_alikes

    def latinised(found: re.Match[str]) -> str:
        word = found[0]
        if word.isascii():
            return word
        mixed = len({script(char) for char in word}) > 1
        whole = mostly and all(char in look_alikes or char.isascii() for char in word)
        return "".join(look_alikes.get(char, char) for char in word) if mixed or whole else word

    text = _WORD.sub(latinised, text)
    # Letters in boxes are no letters to Unicode, so they are in no word.
    text = "".join(look_alikes.get(char, char) if char >= "\U0001f150" else char for char in text)
    return FoldedText(text, origins)


def _mostly_latin(text: str) -> bool:
    """By its letters, without the addresses that a text of any script may hold."""
    prose = _NAMED.sub(" ", text)
    latin = sum(char.isascii() and char.isalpha() for char in prose)
    return latin * 2 > sum(char.isalpha() for char in prose)


def _cut(folded: FoldedText, cuts: Iterable[tuple[int, int, str]]) -> FoldedText:
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
    return FoldedText("".join(pieces), tuple(places if origins is None else [origins[place] for place in places]))


def quoted(text: str, most: int = _SNIPPET) -> str:
    """A piece of hostile text for a sentence: what does not print is spelt out, and it is cut."""
    cut = text[:most]
    spelt = "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in cut)
    return f"“{spelt}{'…' if len(text) > most else ''}”"


def tokens(text: str) -> int:
    """How many tokens a model will about spend on a text: rather too many than too few, as it is meant for caps.

    A Latin word counts one token for every six letters begun, a group of up to three digits one, a run of blanks one
    unless it is the single space before a word, each mark one, a letter of another alphabet one, a character outside
    the Basic Multilingual Plane two. On English prose this is a few per cent above what byte-pair vocabularies give, on
    JSON and other scripts up to a half above.
    """
    count = 0
    for piece in _TOKENS.findall(text):
        first = piece[0]
        if first == " " and len(piece) == 1:
            continue
        if first.isalpha() and first < "\u0250":
            count += -(-len(piece) // _LETTERS_PER_TOKEN)
        else:
            count += 2 if first > "\uffff" else 1
    return count
