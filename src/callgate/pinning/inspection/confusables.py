"""Letters that look like Latin ones, and the characters that are drawn as nothing."""

from __future__ import annotations

from typing import Final

_PAIRS: Final = (
    # Cyrillic
    "аa еe оo рp сc уy хx іi јj ѕs һh ԁd ԛq ԝw ѵv ӏl кk мm нh тt вb пn гr ьb ґr ҝk ҡk ӧo үy ұy ҽe ԍg ѡw зz иu "
    # Greek
    "αa βb γy δd εe ζz ηn θo ικ ιi κk λl μm νv ξe οo πn ρp ςs σo τt υu φo χx ψy ωw ϲc ϳj ϱp "
    # Armenian, Cherokee, Lisu and others
    "օo ոn սu հh յj ց g զq ոn Ꭺa Ᏼb Ꮯc Ꭰd Ꭼe Ꮐg Ꮋh Ꭵi Ꭻj Ꮶk Ꮮl Ꮇm Ꮲp Ꮢr Ꮪs Ꭲt Ꮩv Ꮃw Ꮍy Ꮓz "
    # Latin letters of other shapes: small capitals, dotless, with strokes, African, phonetic
    "ᴀa ʙb ᴄc ᴅd ᴇe ꜰf ɢg ʜh ɪi ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ʏy ᴢz ıi ȷj ɑa ɐa ɓb ɗd ɖd ɛe ǝe əe ɡg "
    "ɦh ɩi ɨi ƙk łl ɫl ɱm ɲn ŋn ƞn øo ɔc ƥp ɋq ɍr ɾr ʂs ƭt ŧt ʉu ʋv ɯm ɥh ʌv ʍw ʎy ƴy ʐz ƶz đd ħh ƀb ɉj ꞇt "
)
LOOKS_LIKE: Final[dict[str, str]] = {
    pair[0]: pair[1] for pair in _PAIRS.split() if len(pair) == 2 and pair[1].isascii()
}


def _squared() -> dict[str, str]:
    """Letters in dark circles and squares, and the halves of flags: Unicode gives them no plain form."""
    starts = (0x1F150, 0x1F170, 0x1F1E6)
    return {chr(start + index): chr(ord("a") + index) for start in starts for index in range(26)}


LOOKS_LIKE.update(_squared())

# Format characters and fillers that take no room.
INVISIBLE: Final = frozenset(
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u200c\u200d\u200e\u200f"
    "\u2060\u2061\u2062\u2063\u2064\u2065\u206a\u206b\u206c\u206d\u206e\u206f\u3164\ufeff\uffa0\ufff9\ufffa\ufffb"
)
BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


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
    for name, first, last in _SCRIPTS:
        if first <= code <= last:
            return name
    return ""


_SCRIPTS: Final = (
    ("greek", 0x370, 0x3FF),
    ("cyrillic", 0x400, 0x52F),
    ("armenian", 0x530, 0x58F),
    ("cherokee", 0x13A0, 0x13FF),
    ("cherokee", 0xAB70, 0xABBF),
)
