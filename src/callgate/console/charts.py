"""Small charts, drawn on the server: bars over time, as numbers that the template puts into an SVG.

No colour and no size of type is chosen here; the stylesheet does that. Whoever cannot see a chart has the same numbers
in a table beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from callgate.console.tally import HOUR_MS, Counts

WIDTH: Final = 240
HEIGHT: Final = 56
_GAP: Final = 1.5
# What there is any of can be seen.
_LEAST: Final = 2.0


@dataclass(frozen=True)
class Bar:
    """One bar; `at` is when its time begins."""

    x: float
    y: float
    width: float
    height: float
    at: int
    value: int


@dataclass(frozen=True)
class Chart:
    """Bars of one kind of thing, with their sum and the highest of them."""

    bars: Sequence[Bar]
    total: int
    most: int
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True)
class Row:
    """One line of the table beside the charts."""

    at: int
    allowed: int
    refused: int
    asked: int
    approved: int


@dataclass(frozen=True)
class Share:
    """One reason among several: how often, and how wide its bar is, of a hundred."""

    name: str
    count: int
    width: float


def chart(values: Sequence[tuple[int, int]]) -> Chart:
    """Bars for pairs of a time and a number, as high as they are of the highest."""
    most = max((value for _, value in values), default=0)
    step = WIDTH / max(1, len(values))
    bars = []
    for number, (at, value) in enumerate(values):
        height = max(_LEAST, value / most * HEIGHT) if value else 0.0
        bars.append(Bar(_short(number * step), _short(HEIGHT - height), _short(step - _GAP), _short(height), at, value))
    return Chart(bars, sum(value for _, value in values), most)


def rows(counts: Counts, hours: int, each: int) -> list[Row]:
    """What happened in each `each` hours of the last `hours`, the oldest first."""
    first = counts.hour - hours + 1
    made = []
    allowed = _by_hour((one.hour, one.calls) for one in counts.calls if one.verdict == "allow")
    refused = _by_hour((one.hour, one.calls) for one in counts.calls if one.verdict != "allow")
    asked = _by_hour((one.hour, one.requests) for one in counts.asked)
    approved = _by_hour((one.hour, one.requests) for one in counts.asked if one.state in ("approved", "used"))
    for start in range(first, counts.hour + 1, each):
        span = range(start, start + each)
        sums = [sum(one.get(hour, 0) for hour in span) for one in (allowed, refused, asked, approved)]
        made.append(Row(start * HOUR_MS, *sums))
    return made


def shares(found: Iterable[tuple[str, int]], most: int) -> list[Share]:
    """The most frequent ones, and the rest in one."""
    every = list(found)
    shown = every[:most]
    if rest := sum(count for _, count in every[most:]):
        shown.append(("others", rest))
    highest = max((count for _, count in shown), default=1)
    return [Share(name, count, _short(max(1.0, count / highest * 100))) for name, count in shown]


def _by_hour(pairs: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    made: dict[int, int] = {}
    for hour, count in pairs:
        made[hour] = made.get(hour, 0) + count
    return made


def _short(value: float) -> float:
    return round(value, 2)
