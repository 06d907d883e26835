"""Which arguments can be given to conditions: whatever is too long or too much for a bounded answer is kept back.

A rule that reads an argument kept back fails, and so counts as its effect or `ask`: no text is so long that a rule
looks past it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_TEXT: Final = 64 * 1024
MAX_VALUES: Final = 10_000
# Characters times rounds of a loop: what one evaluation may have to go through.
MAX_WORK: Final = 2**24
# CEL ends an evaluation after so many rounds.
_ROUNDS: Final = 10_000
_LARGEST: Final = 2**63
# So few bytes hold neither a text nor a number of values over the limits.
_SURE: Final = 10_000


def surely_fits(size: int, loops: int, around: int) -> bool:
    """Whether arguments of so many bytes in canonical form, which is valid Unicode, fit whatever they are."""
    rounds = min(_ROUNDS, max(size, around, 1) ** loops) if loops else 1
    return size <= _SURE and size * rounds <= MAX_WORK


def unfit(args: Mapping[str, Any], loops: int = 0, around: int = 0) -> dict[str, str]:
    """The arguments that cannot be given to conditions with loops so deep, and why."""
    wrong: dict[str, str] = {}
    total = count = 0
    for key, value in args.items():
        kind = type(value)
        if kind is str and len(value) <= MAX_TEXT and value.isascii():  # nearly all
            total += len(value)
            count += 1
            continue
        if kind is bool or kind is float:
            count += 1
            continue
        weighed = _weigh(value)
        if isinstance(weighed, str):
            wrong[key] = weighed
        else:
            total += weighed[0]
            count += weighed[1]
    rounds = min(_ROUNDS, max(count, around, 1) ** loops) if loops else 1
    if total > 4 * MAX_TEXT or count > MAX_VALUES or total * rounds > MAX_WORK:
        for key in args:
            wrong.setdefault(key, "is too much together with the others")
    return wrong


def _weigh(value: Any) -> tuple[int, int] | str:
    """Characters and values in an argument, or why it cannot be given."""
    chars = count = 0
    stack = [value]
    while stack:
        one = stack.pop()
        count += 1
        if count > MAX_VALUES:
            return f"has more than {MAX_VALUES} values"
        if isinstance(one, str):
            if len(one) > MAX_TEXT:
                return f"is longer than {MAX_TEXT} characters"
            if not one.isascii() and not _is_text(one):
                return "is not valid Unicode"
            chars += len(one)
        elif isinstance(one, dict):
            stack.extend(one.keys())
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)
        elif isinstance(one, bool | float | None):
            continue
        elif not isinstance(one, int) or not -_LARGEST <= one < _LARGEST:
            return "is no number or value that rules can read"
    return chars, count


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
