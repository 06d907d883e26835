"""Texts as words that compare: one spelling for each date, time, number, address and link.

Two readings of a word serve two purposes. Its *atoms* are what it says, whole: `john.doe@gmail.com` is one atom, so
`doe@gmail.com` does not occur in it; values that vouch for others are compared by atoms, in order. Its *pieces* are
everything that could be put together again: `john`, `doe`, `gmail`, `com`; a stranger's text is compared by pieces, in
any order, so that blanks, halves and other separators hide nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import Final
from urllib.parse import unquote

# A word is what stands between blanks after these became blanks. Full stop, comma, colon and the like stay: they are
# part of numbers, times and addresses, and are taken off where they only end a word.
_BLANKS: Final = '"`<>()[]{}|;*\x00\x1f'
_PUNCTUATION: Final = str.maketrans(dict.fromkeys(_BLANKS, " "))
# The same for ASCII, in lower case, in one go.
_PLAIN: Final = bytes(32 if chr(code) in _BLANKS else code for code in bytes(range(256)).lower())
_QUOTES: Final = str.maketrans(
    dict.fromkeys("‘’‚‛′ʼ＇´", "'") | dict.fromkeys("“”„‟″«»‹›「」『』、。，：；！？（）【】《》", " ")
)
# Scripts that put no blanks between words: each character stands alone.
_UNSPACED: Final = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])"
)
# Letters that look like Latin ones. Folded only where a stranger's text is compared.
_ALIKE: Final = str.maketrans("аеорсухіјѕԁһԛԝвкмнтгαορτνικηυχοеϲ", "aeopcyxijsdhqwbkmhtraoptvikhuxoec")

_MONTHS: Final = {
    spelt: number
    for number, name in enumerate(
        [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ],
        1,
    )
    for spelt in ((name, name[:3], "sept") if number == 9 else (name, name[:3]))
}
_MONTH: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
# Words that only mean something with their neighbour; a text without any of them is taken word by word.
JOINING: Final = frozenset(
    spelt + end for spelt in (*_MONTHS, "am", "pm", "a.m", "p.m") for end in ("", ",", ".", ":", "'")
)
# Not "3 december 10 am", which is the third.
_MONTH_DAY: Final = re.compile(
    rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (\d{{4}}))?(?![\w-]|:\d| [ap]\.?m\b)"
)
_DAY_MONTH: Final = re.compile(
    rf"(?<![\w:.-])(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})\b\.?(?:,? (\d{{4}}))?(?![\w-]|:\d)"
)
_HALF_DAY: Final = re.compile(r"(?<![\w:.])(\d{1,2})(?::(\d\d))? ?([ap])\.?m\b\.?")
# An account number written in groups of four.
_GROUPED: Final = re.compile(r"\b[a-z]{2}\d{2}(?: [a-z0-9]{4}){2,7}(?: [a-z0-9]{1,3})?\b")
# How one begins, in a text of which only the shape is left; a search for that is much faster.
_SHAPE: Final = bytes(97 if 97 <= code <= 122 else 48 if 48 <= code <= 57 else 32 for code in range(256))
_GROUPED_SHAPE: Final = re.compile(rb"00 (?<=aa00 )")

_DATE_TIME: Final = re.compile(
    r"(\d{4})[-/](\d\d?)[-/](\d\d?)(?:[t_](\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?"
)
_EUROPEAN_DATE: Final = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})")
_TIME: Final = re.compile(r"(\d\d?):(\d\d)(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?")
_HALF_TIME: Final = re.compile(r"(\d\d?)(?::(\d\d))?([ap])m")
_NUMBER: Final = re.compile(r"([-+]?)[$€£¥]?(\d{1,3}(?:[,']\d{3})+|\d+)(?:\.(\d+))?[$€£¥%]?")
# All that a number, a date or a time can be made of.
_MAY_BE_WHOLE: Final = re.compile(r"[-+$€£¥,'.%/t_:zapm]*\d[-+$€£¥,'.%/t_:zapm\d]*")
# Letters and digits that are no time of the day.
_PLAIN_WORD: Final = re.compile(r"(?!\d{1,2}[ap]m\Z)[a-z0-9]+")
_SPLIT: Final = re.compile(r"[,=]|(?<!\d):(?!//)|:(?![\d/])|(?<=\w)[!?](?=\w)|\\+")
_SCHEME: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*://|mailto:)(?:www\.)?|^www\.")
_PIECE: Final = re.compile(r"[^\W_]+")
_EDGES: Final = "'.,:;!?-_/~#@&+=\\$€£%"

# Of a long text, what is looked at first; and how many words one that joins others can reach.
OPENING_CHARS: Final = 512
_OPENING_WORDS: Final = 32
_REACH: Final = 8

# The bound keeps a long run of letters from being read again from each of them; no address is as long.
LINK: Final = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{0,15}+://|//(?=[\w-]+\.)|www\.)[^\s<>\"'`()\[\]{}|\\^]+"
    r"|[\w.+-]{1,256}+@[\w-]+(?:\.[\w-]+)+",
    re.IGNORECASE,
)
LINK_MARKS: Final = ("@", "//", "www.")
# Parts of a secret that are kept, of such a length: a private key has lines of 64.
_SECRET_WORDS: Final = 64
_SECRET_CHARS: Final = 6
_PARTS: Final = re.compile(r"[/?&=#]")
_BLANK: Final = re.compile(r"\s")
ADDRESS: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
# A word that is a host, with or without what follows it.
HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?:[:/?#].*)?", re.IGNORECASE)


_ESCAPED: Final = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_PERCENT: Final = re.compile(r"%([2-7][0-9a-f])")

DATE, TIME = "\x01", "\x02"


def fold(text: str) -> str:
    """A text in one case and one Unicode form, without what cannot be seen, and with blanks for what only separates."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_QUOTES))
        text = "".join([c for c in text if unicodedata.category(c) != "Cf" and c not in "\u034f\u115f\u1160\u3164"])
        text = unicodedata.normalize("NFKC", text.casefold()).translate(_QUOTES)
        # The digits of other scripts are the same numbers.
        text = "".join([str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text])
        return _UNSPACED.sub(r" \1 ", text).translate(_PUNCTUATION)
    return text.encode("ascii").translate(_PLAIN).decode("ascii")


def rough(text: str) -> str:
    """The same for a stranger's text: letters that look alike are one, accents do not count, escapes are undone."""
    folded = fold(text)
    if not folded.isascii():
        plain = unicodedata.normalize("NFD", folded)
        folded = "".join([c for c in plain if unicodedata.category(c) != "Mn"]).translate(_ALIKE)
    if "\\" in folded:
        folded += " " + _ESCAPED.sub(_unescape, folded)
    if "%" in folded:
        folded += " " + _PERCENT.sub(lambda m: chr(int(m[1], 16)).lower(), folded)
    return folded


def _unescape(match: re.Match[str]) -> str:
    found = match[0]
    return fold(chr(int(found.removeprefix("\\u"), 16))) if len(found) == 6 else " "


def words(folded: str) -> list[str]:
    """The words of a folded text, with dates and times that take several words made into one each."""
    found = folded.split()
    return found if JOINING.isdisjoint(found) else joined(found)


def different(folded: str) -> Collection[str]:
    """The same where their order does not matter."""
    found = folded.split()
    each = set(found)
    return each if JOINING.isdisjoint(each) else set(joined(found))


def joined(found: list[str]) -> list[str]:
    """Months with their days and years, hours with their half of the day; only what stands near one is looked at."""
    made: list[str] = []
    start = stop = 0
    for at, word in enumerate(found):
        if word not in JOINING:
            continue
        if at - 2 > stop:
            made += _dated(found[start:stop])
            made += found[stop : at - 2]
            start = at - 2
        stop = at + 3
    return made + _dated(found[start:stop]) + found[stop:]


def _dated(near: list[str]) -> list[str]:
    text = " ".join(near)
    if not any(map(str.isdigit, text)):
        return near
    text = _MONTH_DAY.sub(lambda m: _date(m[3], _MONTHS[m[1]], int(m[2]), m[0]), text)
    text = _DAY_MONTH.sub(lambda m: _date(m[3], _MONTHS[m[2]], int(m[1]), m[0]), text)
    return _HALF_DAY.sub(_half_day, text).split()


def sequence(text: str) -> list[str]:
    """The words of a text that may vouch for a value; an account number in groups is one word."""
    return sequence_of(fold(text))


def sequence_of(folded: str) -> list[str]:
    """The same of a folded text."""
    return grouped(words(folded), folded)


def grouped(found: list[str], folded: str) -> list[str]:
    """The words of a folded text with each account number in groups as one word; the same list where it has none."""
    if len(found) < 3 or not may_be_grouped(folded):
        return found
    joined = " ".join(found)
    if _GROUPED.search(joined) is None:
        return found
    return _GROUPED.sub(lambda m: m[0].replace(" ", "") if sum(map(str.isdigit, m[0])) >= 8 else m[0], joined).split()


def opening(text: str) -> list[str]:
    """The first words of a long text, as `sequence` has them; none where that takes a look at all of it."""
    if len(text) <= OPENING_CHARS or not text.isascii():
        return []
    folded = fold(text[:OPENING_CHARS])
    found = folded.split(None, _OPENING_WORDS)
    # Dates and account numbers are made of a few words; those before them stay what they are.
    if len(found) <= _OPENING_WORDS or not JOINING.isdisjoint(found[:-1]) or may_be_grouped(folded):
        return []
    return found[: _OPENING_WORDS - _REACH]


def may_be_grouped(folded: str) -> bool:
    """Whether a folded text may hold an account number in groups."""
    return not folded.isascii() or _GROUPED_SHAPE.search(folded.encode("ascii").translate(_SHAPE)) is not None


def is_plain(word: str) -> bool:
    """Whether a word is one part, its atom and its piece alike."""
    if word.isalpha():
        return True
    # Only what ends so may be a time of the day.
    return word.isalnum() and word.isascii() and (word[-1] != "m" or _PLAIN_WORD.fullmatch(word) is not None)


def atoms(word: str) -> list[str]:
    """What a word says, each part in its one spelling."""
    if word.isalpha() or word[0] in (DATE, TIME) or _PLAIN_WORD.fullmatch(word) is not None:
        return [word]
    if (whole := _whole(word)) is not None:
        return whole
    core = word.strip(_EDGES)
    core = core.removesuffix("'s")
    if not core:
        return []
    if (whole := _whole(core)) is not None:
        return whole
    if (bare := _SCHEME.sub("", core)) != core:
        return [bare.rstrip("/.,")] if bare.rstrip("/.,") else []
    parts = [part for part in _SPLIT.split(core) if part]
    if len(parts) > 1:
        return [atom for part in parts for atom in atoms(part)]
    return [core.lstrip("#@")]


def pieces(word: str) -> list[str]:
    """Everything in a word that a value could be put together from."""
    found: list[str] = []
    for atom in atoms(word):
        if atom[0] in (DATE, TIME) or atom.isalnum() or is_number(atom):
            found.append(atom)
        else:
            found += _PIECE.findall(atom)
    return found


def parts(text: str) -> list[str]:
    """The pieces of a single value, in their order."""
    return _PIECE.findall(_SCHEME.sub("", rough(text).strip()))


def links(text: str, marks: Sequence[str] = LINK_MARKS) -> Iterator[str]:
    """The links and addresses in a text. Neither has blanks in it, so only words with a mark of theirs are read.
    `marks` are those that the text may have."""
    plain = text.lower() if "www." in marks else text
    if len(plain) != len(text):
        # Some letters become two.
        plain = "".join([char if len(char.lower()) > 1 else char.lower() for char in text])
    places = {mark: at for mark in marks if (at := plain.find(mark)) >= 0}
    end = 0
    while places:
        at = start = min(places.values())
        while start > end and not text[start - 1].isspace():
            start -= 1
        blank = _BLANK.search(text, at)
        end = len(text) if blank is None else blank.start()
        for match in LINK.finditer(text, start, end):
            yield match[0].rstrip(".,:;!?")
        places = {mark: at if at >= end else plain.find(mark, end) for mark, at in places.items()}
        places = {mark: at for mark, at in places.items() if at >= 0}


def details(text: str) -> set[str]:
    """What in a text could be an account, a card, a passport or a key: words of six and more signs, four of them
    digits."""
    found = [word for word in set(fold(text).split()) if _is_detail(word)]
    return {atom for word in found for atom in atoms(word) if _is_detail(atom) and atom[0] not in (DATE, TIME)}


def with_parts(text: str) -> set[str]:
    """The words of a text, and the parts of those that are links."""
    folded = fold(unquote(text)) if "%" in text else fold(text)
    found = set(folded.split())
    if _PARTS.search(folded) is None:
        return found
    return found.union(*(filter(None, _PARTS.split(word)) for word in found if _PARTS.search(word) is not None))


def of_secret(text: str) -> set[str]:
    """What a key, token or password is known again by."""
    folded = fold(text).split(None, _SECRET_WORDS)[:_SECRET_WORDS]
    return {atom for word in folded for atom in atoms(word) if len(atom) >= _SECRET_CHARS}


def _is_detail(word: str) -> bool:
    return 6 <= len(word) <= 512 and sum(map(str.isdigit, word)) >= 4


def number(value: float) -> str:
    """A JSON number as its atom."""
    if isinstance(value, float):
        # 1.89 is what 1 + 0.89 is meant to be.
        value = int(value) if value.is_integer() and abs(value) < 1e15 else round(value, 9)
    return repr(value)


def is_number(atom: str) -> bool:
    return _NUMBER.fullmatch(atom) is not None


def _whole(word: str) -> list[str] | None:
    """A word that is a number, a date or a time."""
    if _MAY_BE_WHOLE.fullmatch(word) is None:
        return None
    if (m := _NUMBER.fullmatch(word)) is not None:
        digits = re.sub("[,']", "", m[2])
        fraction = (m[3] or "").rstrip("0")
        sign = "-" if m[1] == "-" else ""
        return [sign + digits + ("." + fraction if fraction else "")]
    if (m := _DATE_TIME.fullmatch(word)) is not None:
        day = _date(m[1], int(m[2]), int(m[3]), word).strip()
        return [day, f"{TIME}{m[4]}:{m[5]}"] if m[4] else [day]
    if (m := _EUROPEAN_DATE.fullmatch(word)) is not None:
        return [_date(m[3], int(m[2]), int(m[1]), word).strip()]
    if (m := _TIME.fullmatch(word)) is not None:
        return [f"{TIME}{int(m[1]):02}:{m[2]}"]
    if (m := _HALF_TIME.fullmatch(word)) is not None:
        return [_half_day(m).strip()]
    return None


def _date(year: str | None, month: int, day: int, spelt: str) -> str:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return spelt
    return f" {DATE}{year or ''}-{month:02}-{day:02} "


def _half_day(match: re.Match[str]) -> str:
    hour = int(match[1])
    if not 1 <= hour <= 12:
        return match[0]
    return f" {TIME}{hour % 12 + (12 if match[3] == 'p' else 0):02}:{match[2] or '00'} "
