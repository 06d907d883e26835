"""A stranger's text as it is remembered: with what its readers may make of it, where letters are written as codes.

Whoever reads a page undoes its entities, its mail encoding and the ASCII form of its hosts without a thought. So each
of them stands beside the text as it came, and a value is known again in either spelling.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from typing import Final

from callgate.trust.provenance import normalise

# Hosts in one text that are written in their other form as well; no page names as many.
_HOSTS: Final = 500
_ENCODED: Final = re.compile(r"xn--[a-z0-9-]{1,59}")
# Read from the start of a word and never back: a long word without a dot costs its length once.
_HOST: Final = re.compile(r"(?<![\w-])[\w-]++(?:\.[\w-]++)+")
# No name of a host, and no part of one, is longer.
_NAME: Final = 253
_LABEL: Final = 63
# `=40` in mail is what `%40` is in a link.
_QUOTED: Final = re.compile(r"=([2-7][0-9a-f])")
# What a line too long for mail is broken with.
_SOFT_BREAK: Final = re.compile(r"=\r?\n")


def heard(text: str) -> str:
    """A text folded as a stranger's (`normalise.rough`), followed by what else it says."""
    folded = normalise.rough(text)
    more: list[str] = []
    if "&" in text and (plain := html.unescape(text)) != text:
        more.append(normalise.rough(plain))
    if "=" in text:
        whole = normalise.rough(_SOFT_BREAK.sub("", text)) if "=\n" in text or "=\r\n" in text else folded
        if whole is not folded or _QUOTED.search(whole) is not None:
            more.append(_QUOTED.sub(_letter, whole))
    if "xn--" in folded:
        more.append(_ENCODED.sub(lambda found: _decoded(found[0]), folded, count=_HOSTS))
    if not text.isascii():
        more += _encoded_hosts(text)
    return " ".join([folded, *more]) if more else folded


def _letter(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)).lower()


@lru_cache(4096)
def _decoded(label: str) -> str:
    """A part of a host as people read it; as it is where it means nothing."""
    try:
        return normalise.rough(label.removeprefix("xn--").encode("ascii").decode("punycode"))
    except (UnicodeError, ValueError, OverflowError):
        return label


def _encoded_hosts(text: str) -> list[str]:
    """The hosts in a text whose letters are beyond ASCII, in the form that machines send."""
    found: list[str] = []
    for match in _HOST.finditer(unicodedata.normalize("NFKC", text).casefold()):
        if len(match[0]) <= _NAME and not match[0].isascii():
            found.append(".".join(map(_encoded, match[0].split("."))))
            if len(found) == _HOSTS:
                break
    return found


@lru_cache(4096)
def _encoded(label: str) -> str:
    if label.isascii() or len(label) > _LABEL:
        return label
    return "xn--" + label.encode("punycode").decode("ascii")
