"""Counters, gauges and histograms that cost a tenth of a microsecond, in the form Prometheus reads.

prometheus_client takes a lock for each change (0.5 µs a counter, 1 µs a histogram, measured); here a change is one
addition, made on the event loop's thread, and the library only renders. Labels are bounded when a family is made: a
value outside its list is counted as "other", so that no peer can make the number of series grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

OTHER: Final = "other"


class Counter:
    """Only goes up."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Gauge:
    """Goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount

    def dec(self, amount: float = 1) -> None:
        self.value -= amount

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """How many observations fell below each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


Series = TypeVar("Series", Counter, Gauge, Histogram)


class Family(Generic[Series]):
    """All series of one metric. `at(...)` gives the one of a set of labels, always the same object: keep it."""

    def __init__(
        self,
        name: str,
        description: str,
        make: Callable[[], Series],
        labels: Mapping[str, Container[str]] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.labels = dict(labels or {})
        self._make: Callable[[], Series] = make
        self._series: dict[tuple[str, ...], Series] = {}

    def at(self, *values: str) -> Series:
        found = self._series.get(values)
        return self._bounded(values) if found is None else found

    def _bounded(self, values: tuple[str, ...]) -> Series:
        if len(values) != len(self.labels):
            raise TypeError(f"{self.name} takes the labels {', '.join(self.labels)}")
        bounded = tuple(
            str(value) if value in allowed else OTHER
            for value, allowed in zip(values, self.labels.values(), strict=True)
        )
        return self._series.setdefault(bounded, self._make())

    def items(self) -> Iterator[tuple[tuple[str, ...], Series]]:
        # A copy: rendering may run on another thread than counting.
        return iter(list(self._series.items()))

    @property
    def kind(self) -> str:
        return type(self._make()).__name__.lower()

    def collect(self) -> Metric:
        names = list(self.labels)
        metric: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
        match self._make():
            case Counter():
                metric = CounterMetricFamily(self.name, self.description, labels=names)
            case Gauge():
                metric = GaugeMetricFamily(self.name, self.description, labels=names)
            case Histogram():
                metric = HistogramMetricFamily(self.name, self.description, labels=names)
        for values, series in self.items():
            if isinstance(series, Histogram):
                assert isinstance(metric, HistogramMetricFamily)
                metric.add_metric(list(values), _buckets(series), series.sum)
            else:
                assert not isinstance(metric, HistogramMetricFamily)
                metric.add_metric(list(values), series.value)
        return metric


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, histogram.bounds), "+Inf"], list(histogram.counts), strict=True):
        total += count
        buckets.append((bound, total))
    return buckets
