"""Answers about names, remembered: the same few come with every call. What is longer than names are is not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MOST: Final = 4096
_LONGEST: Final = 256


class _Answers(dict[str, T], Generic[T]):
    def __init__(self, work: Callable[[str], T]) -> None:
        super().__init__()
        self._work = work

    def __missing__(self, name: str) -> T:
        answer = self._work(name)
        if len(name) <= _LONGEST:
            if len(self) >= _MOST:
                self.clear()
            self[name] = answer
        return answer


def remembered(work: Callable[[str], T]) -> Callable[[str], T]:
    """The same function, asked once for each name; others write names too, so both their number and their length are
    bounded."""
    return _Answers(work).__getitem__
