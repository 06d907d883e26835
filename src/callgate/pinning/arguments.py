"""Arguments that look as if something left the agent that should not have: keys, tokens, or unusually much of it.

A sample for alerts, not a check: it never refuses, and it never repeats what it found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# Looked at: the beginning and the end of what may be megabytes.
_WINDOW: Final = 65_536
# Arguments larger than this are worth a word, whatever is usual.
_LARGE: Final = 65_536

# How often one mark is followed up: nobody makes this slow by repeating it.
_TRIES: Final = 64
_MOST: Final = 8


class _Shape(NamedTuple):
    """What it is, how it begins, and what follows from there; looked for by its beginning, which is rare and quick."""

    what: str
    marks: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def _shape(what: str, marks: str, pattern: bytes) -> _Shape:
    return _Shape(f"looks like {what}", tuple(mark.encode() for mark in marks.split("|")), re.compile(pattern))


_SHAPES: Final = (
    _shape("an AWS access key", "AKIA|ASIA|AGPA|AIDA|AROA", rb"[A-Z]{4}[A-Z0-9]{16}(?![A-Z0-9])"),
    _shape("a GitHub token", "ghp_|gho_|ghu_|ghs_|ghr_", rb"gh[pousr]_[A-Za-z0-9]{36}"),
    _shape("a GitHub token", "github_pat_", rb"github_pat_[A-Za-z0-9_]{50}"),
    _shape("a GitLab token", "glpat-", rb"glpat-[A-Za-z0-9_-]{20}"),
    _shape("a Slack token", "xox", rb"xox[abeoprs]-[A-Za-z0-9-]{16}"),
    _shape("a Slack token", "hooks.slack.com/", rb"hooks\.slack\.com/services/T[A-Z0-9/]{16}"),
    _shape("a Google key", "AIza|ya29.", rb"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30}"),
    _shape("a Stripe key", "k_live_|k_test_", rb"(?<=[rs])k_(?:live|test)_[A-Za-z0-9]{16}"),
    _shape(
        "an API key of a model provider",
        "sk-",
        rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{32}",
    ),
    _shape("a package registry's token", "npm_|pypi-", rb"npm_[A-Za-z0-9]{36}|pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20}"),
    _shape("a Hugging Face token", "hf_", rb"hf_[A-Za-z0-9]{30}"),
    _shape(
        "a JSON Web Token",
        "eyJ",
        rb"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8}",
    ),
    _shape("a private key", "-----BEGIN ", rb"-----BEGIN (?:[A-Z]{2,10} ){0,3}PRIVATE KEY-----"),
)
# `api_key=`, `"token": "`, `password: `: a value of some length after a secret's name; looked for in small letters.
_NAMES: Final = (
    *(b"api_key", b"apikey", b"api-key", b"access_key", b"accesskey", b"access-key", b"private_key", b"secret"),
    *(b"token", b"passwd", b"password", b"passphrase", b"credential", b"authorization", b"bearer"),
)
# Every shape has so many of these letters in a row, or is a private key's head; most arguments have neither.
_SHORT: Final = 400
# The shortest object that holds one has an access key for a name.
_LEAST: Final = len('{"AKIA0123456789ABCDEF":1}')
_LETTERS: Final = bytes(bool(re.match(rb"[A-Za-z0-9+/_.=~-]", bytes([byte]))) for byte in range(256))
_RUN: Final = b"\1" * 16
_HEAD: Final = b"-----BEGIN "
_VALUE: Final = re.compile(
    rb"[A-Za-z0-9_-]{0,40}\\?[\"']?\s{0,3}[:= ]\s{0,3}(?:\\?[\"']){0,2}(?:[Bb]earer\s)?([A-Za-z0-9+/_.=~-]{16,512})"
)
_UNDER_ITS_NAME: Final = "looks like a secret under its name"


def odd(canonical: bytes, usual: int | None = None) -> tuple[str, ...]:
    """What is unusual about a call's arguments, in words: kinds of secrets, and size.

    `usual` is how many bytes they mostly have, where that is known.
    """
    size = len(canonical)
    if size < _LEAST:
        return ()
    # `find`, because `in` asks first whether the bytes are a number: this is done for every call.
    if size <= _SHORT and canonical.translate(_LETTERS).find(_RUN) < 0 and canonical.find(_HEAD) < 0:
        return ()
    found: dict[str, None] = {}
    for window in _windows(canonical):
        for shape in _SHAPES:
            for mark in shape.marks:
                if mark in window and any(shape.pattern.match(window, at) for at in _places(window, mark)):
                    found[shape.what] = None
        small = window.lower()
        for name in _NAMES:
            if name in small and any(_is_secret(window, at) for at in _places(small, name)):
                found[_UNDER_ITS_NAME] = None
                break
    if len(canonical) > (_LARGE if usual is None else max(4_096, 10 * usual)):
        found[f"is unusually large: {len(canonical)} bytes"] = None
    return tuple(found)[:_MOST]


def _places(window: bytes, mark: bytes) -> Iterator[int]:
    at = window.find(mark)
    for _ in range(_TRIES):
        if at < 0:
            return
        yield at
        at = window.find(mark, at + 1)


def _is_secret(window: bytes, at: int) -> bool:
    match = _VALUE.match(window, at)
    return match is not None and _is_random(match[1])


def _windows(data: bytes) -> tuple[bytes, ...]:
    if len(data) <= 2 * _WINDOW:
        return (data,)
    return data[:_WINDOW], data[-_WINDOW:]


def _is_random(value: bytes) -> bool:
    """Letters and digits mixed as no word or path is: most of them different, and of several kinds."""
    text = value.decode("ascii", "replace")
    kinds = (any(c.isdigit() for c in text), any(c.islower() for c in text), any(c.isupper() for c in text))
    if sum(kinds) < 2 or not kinds[0]:
        return False
    return len(set(text)) >= min(12, len(text) * 6 // 10)
