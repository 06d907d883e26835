"""Looking through texts for what tries to steer a model, and for secrets: as the gateway does it with results.

A detector takes the texts of a result and gives one sentence for each thing it found. Authors may give others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final, TypeAlias

from callgate.errors import place
from callgate.inspection.scanner import ResultScanner

log = logging.getLogger("callgate.trust")
Detector: TypeAlias = Callable[[Sequence[str]], Iterable[str]]
BROKEN: Final = "A detector failed on this text, so it was not looked at."
_WARNINGS: Final = 16
_CHARS: Final = 300
# Made when it is first needed: it reads all rules.
_scanner: Final = cache(ResultScanner)


def suspicious(texts: Sequence[str]) -> tuple[str, ...]:
    """Orders to a model, hidden text, keys and tokens."""
    return _scanner().scan(texts)


def steering(texts: Sequence[str]) -> tuple[str, ...]:
    """Orders to a model and hidden text."""
    return _scanner().steering(texts)


def secrets(texts: Iterable[str]) -> dict[str, str]:
    """Each key, token and password in some texts, with the words for what it is."""
    return _scanner().secrets(texts)


def secret(text: str) -> bool:
    """Whether a text holds something of the shape of a key, token or password."""
    return _scanner().secret(text)


# For who makes results, and for who reads them: there, secrets are masked.
DETECTORS: Final[tuple[Detector, ...]] = (suspicious,)
OF_READERS: Final[tuple[Detector, ...]] = (steering,)


def scan(detectors: Iterable[Detector], texts: Sequence[str]) -> tuple[str, ...]:
    """What all of them found, bounded. One that breaks has not cleared the text."""
    found: dict[str, None] = {}
    for detector in detectors:
        try:
            found |= dict.fromkeys(str(one)[:_CHARS] for one in detector(texts))
        except Exception as error:  # noqa: BLE001 - the text is a stranger's: whatever it breaks is told
            log.error("a detector failed: %s", place(error))
            found[BROKEN] = None
    return tuple(found)[:_WARNINGS]
