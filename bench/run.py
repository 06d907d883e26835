"""Runs the whole benchmark: `python bench/run.py [--quick] [--only NAME ...] [--write-readme]`."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import agents
import approval
import audit
import console as console_bench
import held_sessions
import http_bench
import inspection
import pinning
import report
import stdio_bench
import trust
import wrapped
from agentdojo import run as agentdojo
from environments import CONTEXTFORGE, FASTMCP, Say, ensure
from processes import HERE, Unavailable
from rows import summaries
from sessions import run as sessions
from subjects import SUBJECTS, Bench, Subject, start_echo
from wire import HANDSHAKE, MODERN

RESULTS = HERE / "results" / "latest.json"
# A part of the run, or a quick one, must not pass for the whole.
PARTIAL = HERE / "results" / "partial.json"
README = HERE / "README.md"
TABLE_WIDTH = 132
PARTS = (
    "http",
    "modern",
    "sessions",
    "stdio",
    "wrapped",
    "audit",
    "approval",
    "inspection",
    "pinning",
    "trust",
    "agents",
    "agentdojo",
    "honest_sessions",
    "session_attacks",
    "console",
)
PACKAGES = ("callgate", "aiohttp", "uvicorn", "uvloop", "msgspec", "httptools", "cryptography", "webauthn")


@dataclass(frozen=True, slots=True)
class Plan:
    """How long each part measures; those of speed stay under six minutes on two cores, set-up aside."""

    rounds: int
    seconds: float
    modern_rounds: int
    stdio_rounds: int
    stdio_seconds: float
    parts: frozenset[str]
    subjects: tuple[Subject, ...]
    stdio_subjects: tuple[stdio_bench.StdioSubject, ...]
    quick: bool


def make_plan(quick: bool, only: list[str]) -> Plan:
    asked = set(only)
    names = asked - set(PARTS)
    return Plan(
        rounds=2 if quick else 5,
        seconds=0.6 if quick else 1.5,
        modern_rounds=1 if quick else 3,
        stdio_rounds=2 if quick else 5,
        stdio_seconds=0.4 if quick else 1.0,
        parts=frozenset(asked & set(PARTS) or PARTS),
        subjects=tuple(subject for subject in SUBJECTS if not names or subject.name in names),
        stdio_subjects=tuple(s for s in stdio_bench.STDIO_SUBJECTS if not names or s.name in names),
        quick=quick,
    )


def machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


class Steps:
    """Progress: a bar that moves with each round, and a line for what is being set up."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("benchmark", total=total)

    def step(self, text: str) -> None:
        self._progress.update(self._task, description=text)
        self._progress.advance(self._task)

    def say(self, text: str) -> None:
        self._progress.console.print(f"  {text}", style="dim", highlight=False)


def count_steps(plan: Plan) -> int:
    modern = sum(MODERN in subject.eras for subject in plan.subjects)
    return (
        ("http" in plan.parts) * len(plan.subjects) * (plan.rounds + 1)
        + ("modern" in plan.parts) * modern * (plan.modern_rounds + 1)
        + ("stdio" in plan.parts) * len(plan.stdio_subjects) * plan.stdio_rounds
        + ("sessions" in plan.parts) * sum(subject.name in held_sessions.MEASURED for subject in plan.subjects)
    )


def measure_http(plan: Plan, scratch: Path, steps: Steps) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        bench = Bench(start_echo(stack, scratch), scratch, steps.say)
        where = stack.enter_context(http_bench.started(plan.subjects, bench))
        if "http" in plan.parts:
            rows = http_bench.measure(plan.subjects, where, HANDSHAKE, plan.rounds, plan.seconds, steps.step)
            found["http"] = summaries(rows)
        if "modern" in plan.parts:
            modern = [subject for subject in plan.subjects if MODERN in subject.eras]
            rows = http_bench.measure(modern, where, MODERN, plan.modern_rounds, plan.seconds, steps.step)
            found["http_modern"] = summaries(rows)
    if "sessions" in plan.parts:
        # Fresh processes: what the load left in their allocators is not the sessions'.
        with ExitStack() as stack:
            bench = Bench(start_echo(stack, scratch), scratch / "sessions", steps.say)
            bench.scratch.mkdir(exist_ok=True)
            held = [subject for subject in plan.subjects if subject.name in held_sessions.MEASURED]
            where = stack.enter_context(http_bench.started(held, bench))
            found["sessions"] = held_sessions.measure(held, where.running, where.reasons, steps.step)
    return found


def prepare(plan: Plan, say: Say) -> None:
    """Makes the environments before the clock starts; a failure is told again, in the table, by the subject itself."""
    names = {subject.name for subject in plan.subjects} | {subject.name for subject in plan.stdio_subjects}
    wanted = [FASTMCP] if names & {"fastmcp", "fastmcp-shared"} else []
    wanted += [CONTEXTFORGE] if "contextforge" in names and plan.parts & {"http", "modern"} else []
    for environment in wanted:
        with suppress(Unavailable):
            ensure(environment, say)


def measure(plan: Plan, console: Console) -> dict[str, Any]:
    results: dict[str, Any] = {
        "schema": 1,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": 0.0,
        "quick": plan.quick,
        "machine": machine(),
        "versions": versions(),
    }
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="callgate-bench-", ignore_cleanup_errors=True) as folder,
        Progress(*columns, console=console) as progress,
    ):
        scratch = Path(folder)
        steps = Steps(progress, count_steps(plan))
        if plan.parts & {"http", "modern", "sessions"}:
            results |= measure_http(plan, scratch, steps)
        if "stdio" in plan.parts:
            subjects = list(plan.stdio_subjects)
            rows = stdio_bench.measure(subjects, scratch, plan.stdio_rounds, plan.stdio_seconds, steps.say, steps.step)
            results["stdio"] = summaries(rows)
        if "wrapped" in plan.parts:
            results["wrapped"] = wrapped.measure(steps.say, quick=plan.quick)
        if "audit" in plan.parts:
            results["audit"] = audit.measure(scratch, steps.say, quick=plan.quick)
        if "approval" in plan.parts:
            results["approval"] = approval.measure(scratch, steps.say, quick=plan.quick)
        if "inspection" in plan.parts:
            results["inspection"] = inspection.measure(steps.say, quick=plan.quick)
        if "pinning" in plan.parts:
            results["pinning"] = pinning.measure(scratch, steps.say, quick=plan.quick)
        if "trust" in plan.parts:
            results["trust"] = trust.measure(steps.say, quick=plan.quick)
        if "agents" in plan.parts:
            results["agents"] = agents.measure(scratch, steps.say, quick=plan.quick)
        if "agentdojo" in plan.parts:
            results["agentdojo"] = agentdojo.measure(steps.say)
        if "honest_sessions" in plan.parts:
            results["honest_sessions"] = sessions.measure_honest(steps.say, quick=plan.quick)
        if "session_attacks" in plan.parts:
            results["session_attacks"] = sessions.measure_attacks(steps.say, quick=plan.quick)
        if "console" in plan.parts:
            results["console"] = console_bench.measure(scratch, steps.say, quick=plan.quick)
    results["seconds"] = round(time.monotonic() - began, 1)
    results["targets"] = report.targets(results)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter rounds, for a first look")
    names = sorted({*PARTS, *(subject.name for subject in SUBJECTS)})
    parser.add_argument("--only", nargs="+", default=[], choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--write-readme", action="store_true", help="only put latest.json into the README")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, TABLE_WIDTH)
    if options.write_readme:
        report.write_readme(json.loads(RESULTS.read_text(encoding="utf-8")), README)
        return
    # The default of SIGTERM would leave the subjects behind; an exception unwinds the stacks that end them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = make_plan(options.quick, options.only)
    prepare(plan, console.print)
    results = measure(plan, console)
    written = PARTIAL if options.quick or options.only else RESULTS
    written.parent.mkdir(exist_ok=True)
    written.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    report.show(results, console)
    console.print(f"{written.relative_to(HERE.parent)} written; the run took {results['seconds']:.0f} s")


if __name__ == "__main__":
    main()
