"""What is kept of each subject, and the arithmetic on it: medians over rounds, ratios taken round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one subject. CPU is in microseconds a request, None where no process stands in the middle."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float | None
    store_cpu_us: float | None = None
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A subject's rounds, or why it has none."""

    label: str
    samples: tuple[Sample, ...] = ()
    reason: str = ""


Rows = Mapping[str, Row]


def _median(values: Sequence[float | None], digits: int) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), digits) if known else None


def ratio(row: Row, base: Row | None, of: Callable[[Sample], float | None]) -> float | None:
    """The median of the ratios within each round: both were measured seconds apart, so a slow spell hits both."""
    if base is None:
        return None
    pairs = [(of(mine), of(theirs)) for mine, theirs in zip(row.samples, base.samples, strict=False)]
    return _median([mine / theirs for mine, theirs in pairs if mine is not None and theirs], 4)


def summary(row: Row, rows: Rows) -> dict[str, Any]:
    """One subject as `latest.json` has it; the keys are documented in the README."""
    if not row.samples:
        return {"label": row.label, "status": "unavailable", "reason": row.reason}
    samples = row.samples
    relay, fastmcp, shared = (rows.get(name) for name in ("relay", "fastmcp", "fastmcp-shared"))
    return {
        "label": row.label,
        "status": "failed" if row.reason else "ok",
        "reason": row.reason,
        "rounds": len(samples),
        "errors": sum(sample.errors for sample in samples),
        "requests_per_second": _median([sample.per_second for sample in samples], 1),
        "p50_ms": _median([sample.p50_ms for sample in samples], 3),
        "p99_ms": _median([sample.p99_ms for sample in samples], 3),
        "cpu_us_per_request": _median([sample.cpu_us for sample in samples], 1),
        "store_cpu_us_per_request": _median([sample.store_cpu_us for sample in samples], 1),
        "cpu_vs_relay": ratio(row, relay, lambda sample: sample.cpu_us),
        "throughput_vs_relay": ratio(row, relay, lambda sample: sample.per_second),
        "throughput_vs_fastmcp": ratio(row, fastmcp, lambda sample: sample.per_second),
        "throughput_vs_fastmcp_shared": ratio(row, shared, lambda sample: sample.per_second),
    }


def summaries(rows: Rows) -> dict[str, Any]:
    return {name: summary(row, rows) for name, row in rows.items()}
