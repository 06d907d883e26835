"""The marks of a difference, kept out of a server's own text: what looks like one there is spelt out."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# The brackets of `[-`, `-]`, `{+` and `+}`, and those that look like them.
_OPENING: Final = (
    "[{\u2045\u2772\u2774\u27e6\u2983\u298b\u298d\u298f\u3014\u301a\ufe37\ufe39\ufe47\ufe5b\ufe5d\uff3b\uff5b"
)
_CLOSING: Final = (
    "]}\u2046\u2773\u2775\u27e7\u2984\u298c\u298e\u2990\u3015\u301b\ufe38\ufe3a\ufe48\ufe5c\ufe5e\uff3d\uff5d"
)
_BRACKET: Final = re.compile(f"[{re.escape(_OPENING + _CLOSING)}]")
# Drawn like a plus or a minus, beside all dashes and signs of mathematics.
_STROKES: Final = frozenset(
    "\u02d6\u02d7\u0640\u07fa\u1429\u2043\u2795\u2796\u271a\u271b\u271c\u30fc\u3161\u4e00\u5341\U0001029b"
)
_KINDS: Final = frozenset({"Pd", "Sm"})
_FRAMES: Final = range(0x2500, 0x2580)


def spelt(char: str) -> str:
    """As other characters that could mislead are shown."""
    return f"\\u{ord(char):04x}"


def without_marks(text: str, stroke: str = "") -> str:
    """An escaped text in which no mark of a difference can be read; `stroke` stands before and behind it."""

    def one(found: re.Match[str]) -> str:
        at = found.start()
        inner = at + 1 if found[0] in _OPENING else at - 1
        beside = text[inner] if 0 <= inner < len(text) else stroke
        return spelt(found[0]) if _is_stroke(beside) else found[0]

    return _BRACKET.sub(one, text)


def _is_stroke(char: str) -> bool:
    if char.isascii():
        return char in ("+", "-")
    return char in _STROKES or unicodedata.category(char) in _KINDS or ord(char) in _FRAMES
