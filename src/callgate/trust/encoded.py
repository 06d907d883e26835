"""Text that a result holds as Base64: whoever reads the result may undo it, so it counts as read."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

# Members that hold bytes, however few.
_BYTES: Final = ("blob", "data")
# Elsewhere, so many signs without a blank. A search in a text of which only the shape is left is much faster.
_SIGNS: Final = bytes(97 if chr(code).isalnum() and code < 128 else 32 for code in range(256))
_SHORTEST: Final = 20
_RUN: Final = b"a" * _SHORTEST
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/_-]{20,}+(?:(?:\\r|\\n|[\r\n]){1,4}[A-Za-z0-9+/_-]{1,200}+)*+={0,2}")
_BREAKS: Final = re.compile(r"\\[rn]|\s")
_ALONE: Final = re.compile(r"[A-Za-z0-9+/_\s-]*+={0,2}\s*")
# Places in one result that are looked at.
_TRIED: Final = 8_192
_LINES: Final = 16
_MARKS: Final = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def text_of(encoded: str) -> str | None:
    """The text that some Base64 stands for; None where it stands for other bytes, or is none."""
    body = _BREAKS.sub("", encoded).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
        text = raw.decode(next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8-sig"))
    except (binascii.Error, ValueError):
        return None
    return text if text and text.translate(_SPACES).isprintable() else None


_SPACES: Final = dict.fromkeys(map(ord, "\n\r\t\f"), " ")


def runs(text: str) -> Iterator[re.Match[str]]:
    """The places in a text that may be Base64."""
    if _RUN in _shape(text):
        yield from _ENCODED.finditer(text)


def _shape(text: str) -> bytes:
    return text.encode("ascii", "replace").translate(_SIGNS)


def may_hold(raw: bytes) -> bool:
    """Whether some JSON may hold a text as Base64, or other bytes: most does not."""
    return _RUN in raw.translate(_SIGNS) or b'"blob"' in raw or b'"data"' in raw or b"\\u" in raw


def unpacked(texts: Iterable[str], value: Any = None, leaves: int = 0) -> tuple[list[str], bool]:
    """The texts that stand in others as Base64, over several lines or on one of them, and those that the members for
    bytes hold, anywhere in a decoded value; and whether there are other bytes, or more of it than can be looked at."""
    found, unread = _members(value, leaves) if value is not None else ([], False)
    holding = [text for text in texts if len(text) >= _SHORTEST and _RUN in _shape(text)]
    if not holding:
        return found, unread
    many = (one[0] for text in holding for one in _ENCODED.finditer(text))
    for run in islice(many, _TRIED):
        whole = text_of(run)
        made = map(text_of, _BREAKS.split(run)[:_LINES]) if whole is None else [whole]
        found += [text for text in made if text is not None]
    return found, unread or next(many, None) is not None


def _members(value: Any, leaves: int) -> tuple[list[str], bool]:
    found: list[str] = []
    unread = False
    open_: list[Any] = [value]
    while open_ and leaves > 0:
        one = open_.pop()
        leaves -= 1
        if isinstance(one, dict):
            for name in _BYTES:
                given = one.get(name)
                if isinstance(given, str) and given:
                    text = text_of(given) if _ALONE.fullmatch(given) else given
                    unread |= text is None
                    found += [] if text is None else [text]
            open_ += [each for each in one.values() if isinstance(each, dict | list)]
        elif isinstance(one, list):
            open_ += [each for each in one if isinstance(each, dict | list)]
    return found, unread or bool(open_)
