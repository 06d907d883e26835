"""Counters, gauges and histograms that cost a tenth of a microsecond, in the form Prometheus reads.

prometheus_client takes a lock for each change (0.5 µs a counter, 1 µs a histogram, measured); here a change is one
addition, made on the event loop's thread, and the library only renders. Labels are bounded when a family is made: a
value outside its list is counted as "other", so that no peer can make the number of series grow.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final, Generic, Self, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from callgate._version import __version__
from callgate.errors import Reason

OTHER: Final = "other"


class Counter:
    """Only goes up."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Gauge(Counter):
    """Goes up and down."""

    __slots__ = ()

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


class Family(dict[tuple[str, ...], Series], Generic[Series]):
    """All series of one metric by their labels. `at(...)` gives the one of a set of labels, always the same: keep it.
    One that is not there yet is made when it is first asked for."""

    def __init__(
        self,
        name: str,
        description: str,
        make: Callable[[], Series],
        labels: Mapping[str, Container[str]] | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.description = description
        self.labels = dict(labels or {})
        self._make: Callable[[], Series] = make

    @property
    def series(self) -> Self:
        """For who looks a series up for each call."""
        return self

    def at(self, *values: str) -> Series:
        return self[values]

    def __missing__(self, values: tuple[str, ...]) -> Series:
        if len(values) != len(self.labels):
            raise TypeError(f"{self.name} takes the labels {', '.join(self.labels)}")
        bounded = tuple(
            str(value) if value in allowed else OTHER
            for value, allowed in zip(values, self.labels.values(), strict=True)
        )
        return self.setdefault(bounded, self._make())

    @property
    def kind(self) -> str:
        return type(self._make()).__name__.lower()

    def collect(self) -> Metric:
        names = list(self.labels)
        metric: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
        match self._make():
            case Gauge():
                metric = GaugeMetricFamily(self.name, self.description, labels=names)
            case Counter():
                metric = CounterMetricFamily(self.name, self.description, labels=names)
            case Histogram():
                metric = HistogramMetricFamily(self.name, self.description, labels=names)
        # A copy: rendering may run on another thread than counting.
        for values, series in list(self.items()):
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


CALL_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
GATE_BOUNDS: Final = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)

NO_REASON: Final = "none"
_REASONS: Final = frozenset({NO_REASON, *(reason.value for reason in Reason)})
_VERDICTS: Final = frozenset({"pass", "refuse"})
_TRUST_ALERTS: Final = frozenset({"flagged", "labels_missing", "masked"})
_SOURCES: Final = frozenset({"web-bot-auth", "oauth", "api-key", "none"})
_TOOL_CHANGES: Final = frozenset({"new", "text", "beside", "gone", "back", "grown", "arguments"})
_TRANSPORTS: Final = frozenset({"http", "stdio"})
_METHODS: Final = frozenset({"GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH"})
_STATUSES: Final = frozenset(str(status) for status in range(100, 600))


class Metrics(Collector):
    """The metrics of one gateway, with a registry of their own."""

    def __init__(self, servers: Iterable[str] = ()) -> None:
        self._servers = set(servers)
        server = {"server": self._servers}
        self.calls = Family(
            "callgate_calls_total",
            "Tool calls that came to the gate, by what it said and why.",
            Counter,
            {**server, "verdict": _VERDICTS, "reason": _REASONS},
        )
        self.call_seconds = Family(
            "callgate_call_seconds",
            "Time from a tool call's arrival to the end of its answer.",
            lambda: Histogram(CALL_BOUNDS),
            server,
        )
        self.gate_seconds = Family(
            "callgate_gate_seconds",
            "Time the gate took to decide a tool call and to have the decision on record.",
            lambda: Histogram(GATE_BOUNDS),
        )
        self.in_flight = Family("callgate_in_flight", "Requests under way.", Gauge)
        self.sessions = Family(
            "callgate_sessions",
            "Sessions that the gateway holds for servers started by a command.",
            Gauge,
            {**server, "transport": _TRANSPORTS},
        )
        self.upstream_errors = Family(
            "callgate_upstream_errors_total",
            "Failures of the servers behind the gateway.",
            Counter,
            {**server, "reason": _REASONS},
        )
        self.http_requests = Family(
            "callgate_http_requests_total",
            "HTTP requests answered, by method and status.",
            Counter,
            {"method": _METHODS, "status": _STATUSES},
        )
        self.audit_pending = Family("callgate_audit_pending", "Audit records that wait to be written.", Gauge)
        self.audit_append_failures = Family(
            "callgate_audit_append_failures_total",
            "Audit records that could not be written; each refused its call.",
            Counter,
        )
        self.audit_lost = Family(
            "callgate_audit_lost_total",
            "Outcomes of calls that are not on record, because they could not be written.",
            Counter,
        )
        self.audit_tampered = Family(
            "callgate_audit_tampered",
            "1 once this process has found that the audit log was tampered with, until it is restarted.",
            Gauge,
        )
        self.audit_cosigned_size = Family(
            "callgate_audit_cosigned_size",
            "Records of the audit log up to the last head that enough witnesses cosigned.",
            Gauge,
        )
        self.audit_unseen_seconds = Family(
            "callgate_audit_unseen_seconds",
            "For how long the oldest audit record that no quorum of witnesses has seen waits.",
            Gauge,
        )
        self._witnesses = set[str]()
        self.witness_failing = Family(
            "callgate_witness_failing",
            "1 while a witness has not cosigned the newest head that it was asked for.",
            Gauge,
            {"witness": self._witnesses},
        )
        self.process_starts = Family(
            "callgate_process_starts_total", "Processes started for servers with a command.", Counter, server
        )
        self.tool_changes = Family(
            "callgate_tool_changes_total",
            "Tools that were met for the first time, changed, or grew, and arguments that look like secrets.",
            Counter,
            {**server, "what": _TOOL_CHANGES},
        )
        self.trust_alerts = Family(
            "callgate_trust_alerts_total",
            "Results that were flagged, held back or masked, and tools whose labels went missing.",
            Counter,
            {**server, "what": _TRUST_ALERTS},
        )
        self.agent_requests = Family(
            "callgate_agent_requests_total",
            "Requests by how their sender proved who they are.",
            Counter,
            {"source": _SOURCES},
        )
        self.agent_refusals = Family(
            "callgate_agent_refusals_total",
            "Requests refused because of who sent them, or because nobody could tell who did.",
            Counter,
            {"reason": _REASONS},
        )
        self.tools_waiting = Family("callgate_tools_waiting", "Tools of a server that wait for review.", Gauge, server)
        self.kill_switch = Family("callgate_kill_switch", "1 while the kill switch refuses every call.", Gauge)
        self.build_info = Family(
            "callgate_build_info",
            "Always 1; the labels tell which version runs.",
            Gauge,
            {"version": {__version__}, "python": {platform.python_version()}},
        )
        self.build_info.at(__version__, platform.python_version()).set(1)
        for family in self.families():
            if not family.labels:
                family.at()  # a series without labels is there from the start, at zero
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def families(self) -> list[Family[Counter] | Family[Gauge] | Family[Histogram]]:
        """Every metric, in the order in which they are shown."""
        return [family for family in vars(self).values() if isinstance(family, Family)]

    def collect(self) -> Iterator[Metric]:
        """For the registry."""
        return (family.collect() for family in self.families())

    def know(self, servers: Iterable[str], witnesses: Iterable[str] = ()) -> None:
        """Takes the names of a new configuration; what was counted stays."""
        self._servers.update(servers)
        self._witnesses.update(witnesses)

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self._registry)


def by_worker(texts: list[tuple[int, bytes]]) -> bytes:
    """What the processes of one gateway have counted, as one text: each sample says whose it is."""
    families: dict[str, list[str]] = {}
    for worker, text in texts:
        family: list[str] = []
        for line in text.decode().splitlines():
            if line.startswith("# HELP "):
                family = families.setdefault(line.split(" ", 3)[2], [])
                family += [] if family else [line]
            elif line.startswith("#"):
                family += [] if line in family else [line]
            else:
                family.append(_of_worker(line, worker))
    return "".join(f"{line}\n" for family in families.values() for line in family).encode()


def _of_worker(sample: str, worker: int) -> str:
    """One more label; no name of a metric has a brace or a blank."""
    name, braced, rest = sample.partition("{")
    if braced and " " not in name:
        return f'{name}{{worker="{worker}",{rest}'
    name, _, rest = sample.partition(" ")
    return f'{name}{{worker="{worker}"}} {rest}'
