"""How much is done, counted and not timed: the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable


def work(call: Callable[[], object]) -> int:
    """How many functions are called, ours and Python's own."""
    count = 0

    def counting(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(counting)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count
