"""Streamable HTTP: every subject started once, then short rounds in rotating order: noise falls on all alike."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from processes import HERE, Running, Unavailable
from rows import Row, Sample
from subjects import Bench, Subject

CONNECTIONS = 16
WARM_UP_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Started:
    running: Mapping[str, Running]
    reasons: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def started(subjects: Sequence[Subject], bench: Bench) -> Iterator[Started]:
    """All subjects running side by side; those that cannot start are named with the reason."""
    with ExitStack() as stack:
        running: dict[str, Running] = {}
        reasons: dict[str, str] = {}
        for subject in subjects:
            bench.say(f"starting {subject.label}")
            with ExitStack() as own:
                try:
                    running[subject.name] = subject.start(own, bench)
                except Unavailable as why:
                    reasons[subject.name] = str(why)
                    bench.say(f"{subject.label}: {why}")
                    continue
                stack.push(own.pop_all())
        yield Started(running, reasons)


def one_round(running: Running, era: str, seconds: float) -> Sample:
    """Runs the load generator in a process of its own and divides the CPU times it took by the requests."""
    command = [sys.executable, str(HERE / "load.py"), running.url, "--era", era, "--tool", running.tool]
    command += ["--connections", str(CONNECTIONS), "--seconds", str(seconds)]
    command += ["--key", running.key] if running.key else []
    command += ["--pid", str(running.pid)] if running.pid else []
    command += ["--store-pid", str(running.store_pid)] if running.store_pid else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise Unavailable(lines[-1][:200] if lines else f"the load generator ended with {done.returncode}")
    result = json.loads(done.stdout)
    answered = result["requests"] + result["errors"]
    if not result["requests"]:
        raise Unavailable(result["first_error"][:200] or "no answer")

    def each(cpu_seconds: float) -> float:
        return float(cpu_seconds / answered * 1e6)

    return Sample(
        per_second=result["requests"] / result["seconds"],
        p50_ms=result["p50_ms"],
        p99_ms=result["p99_ms"],
        cpu_us=each(result["middle_cpu_seconds"]) if running.pid else None,
        store_cpu_us=each(result["store_cpu_seconds"]) if running.store_pid else None,
        errors=result["errors"],
    )


def measure(
    subjects: Sequence[Subject], where: Started, era: str, rounds: int, seconds: float, step: Callable[[str], None]
) -> dict[str, Row]:
    reasons = dict(where.reasons)
    samples: dict[str, list[Sample]] = {subject.name: [] for subject in subjects}
    for number in range(-1, rounds):
        turn = max(number, 0) % len(subjects)
        for subject in (*subjects[turn:], *subjects[:turn]):
            step(f"{era} {subject.label}")
            if subject.name in reasons:
                continue
            try:
                # Round -1 warms up: first requests pay for lazy imports and empty caches.
                sample = one_round(where.running[subject.name], era, WARM_UP_SECONDS if number < 0 else seconds)
            except Unavailable as why:
                reasons[subject.name] = str(why)
                continue
            if number >= 0:
                samples[subject.name].append(sample)
    return {
        subject.name: Row(subject.label, tuple(samples[subject.name]), reasons.get(subject.name, ""))
        for subject in subjects
    }
