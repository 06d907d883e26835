"""Runs the official MCP conformance suite against a server, or against a gateway in front of one.

    python tests/conformance/run.py                       # starts the fixture server and tests it directly
    python tests/conformance/run.py --url URL             # tests what listens there
    python tests/conformance/run.py --version 2026-07-28  # one protocol version only

The suite is an npm package. It and a node new enough for it are installed once, at exact versions, into the folder
that CALLGATE_NODE_TOOLS names, or into .cache/conformance of the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

# Run as a script, this file is not inside a package: the folder above has to be found first.
from support.node import NodeError, install, node_in, present, tools_folder  # noqa: E402

SUITE_PACKAGE = "@modelcontextprotocol/conformance"
SUITE_VERSION = "0.2.0-alpha.12"

# Checks that a conforming server passes, by protocol version, in the selection `--suite all --spec-version V`.
EXPECTED_PASSES: Mapping[str, int] = {"2025-11-25": 84, "2026-07-28": 152}

SCENARIO_SECONDS = 240
SUITE_SECONDS = 540

# server-<scenario>-<ISO time with - for : and .>
_RESULT_FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z")
_COUNT = re.compile(r"^Running .* \((?P<count>\d+) scenarios\) against ", re.MULTILINE)


class SuiteError(Exception):
    """The suite could not be installed or did not run to its end; says nothing about the server."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A check that did not pass."""

    scenario: str
    check: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Totals:
    """One run of the suite. Two runs of equally conforming servers have equal `scenarios`.

    `scenarios` maps scenario to check to status; the second and later checks of one id are `id#2`, `id#3`.
    INFO entries are left out: they are the suite's trace of the exchange, and their number depends on timing.
    """

    version: str
    passed: int
    failed: int
    warnings: int
    skipped: int
    scenarios: Mapping[str, Mapping[str, str]]
    problems: tuple[Problem, ...]

    @property
    def conforming(self) -> bool:
        return not self.problems and self.passed == EXPECTED_PASSES[self.version]


@dataclass(frozen=True, slots=True)
class Tools:
    """The installed suite and the node that runs it."""

    node: Path
    suite: Path


# --- installing -------------------------------------------------------------------------------------------------


def install_tools(folder: Path | None = None) -> Tools:
    """The suite's tools, fetched with npm if this exact pair of versions is not there yet."""
    try:
        prefix = install(f"suite-{SUITE_VERSION}", [f"{SUITE_PACKAGE}@{SUITE_VERSION}"], folder)
        return Tools(node_in(prefix), present(prefix, Path(SUITE_PACKAGE) / "dist" / "index.js"))
    except NodeError as error:
        raise SuiteError(str(error)) from None


# --- running ----------------------------------------------------------------------------------------------------


def run_suite(url: str, version: str, output_dir: Path) -> Totals:
    """Run every scenario that applies at `version` against `url`; keep what the suite writes in `output_dir`.

    `url` has to name a loopback host, or the suite's DNS rebinding scenario fails by definition.
    """
    tools = install_tools()
    output_dir.mkdir(parents=True, exist_ok=True)
    results = Path(tempfile.mkdtemp(dir=output_dir, prefix=f"{version}-"))
    command = [
        str(tools.node),
        "--require",
        str(HERE / "patient.cjs"),
        str(tools.suite),
        "server",
        "--url",
        url,
        "--suite",
        "all",
        "--spec-version",
        version,
    ]
    limits = ["--timeout", str(SCENARIO_SECONDS * 1000), "--output-dir", str(results)]
    log = results / "suite.log"
    with log.open("w") as out:
        try:
            # The exit code only repeats whether a check failed; the results are counted below.
            subprocess.run([*command, *limits], stdout=out, stderr=out, timeout=SUITE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise SuiteError(f"the suite did not finish in {SUITE_SECONDS} s; see {log}") from None
    announced = _COUNT.search(log.read_text())
    if announced is None:
        raise SuiteError(f"the suite did not start: {_last_line(log.read_text())}")
    totals = read_results(version, results)
    if len(totals.scenarios) != int(announced["count"]):
        raise SuiteError(f"the suite ran {len(totals.scenarios)} of {announced['count']} scenarios; see {log}")
    return totals


def read_results(version: str, folder: Path) -> Totals:
    scenarios: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    statuses: Counter[str] = Counter()
    for result in sorted(folder.iterdir()):
        match = _RESULT_FOLDER.fullmatch(result.name)
        if match is None:
            continue
        scenario = match["scenario"]
        checks = scenarios[scenario] = {}
        seen: Counter[str] = Counter()
        for check in _checks(result / "checks.json", scenario):
            status = check["status"]
            if status == "INFO":
                continue
            seen[check["id"]] += 1
            key = check["id"] if seen[check["id"]] == 1 else f"{check['id']}#{seen[check['id']]}"
            checks[key] = status
            statuses[status] += 1
            if status != "SUCCESS":
                problems.append(Problem(scenario, key, status, check.get("errorMessage") or ""))
    return Totals(
        version=version,
        passed=statuses["SUCCESS"],
        failed=statuses["FAILURE"],
        warnings=statuses["WARNING"],
        skipped=statuses["SKIPPED"],
        scenarios=scenarios,
        problems=tuple(problems),
    )


def _checks(path: Path, scenario: str) -> list[dict[str, Any]]:
    if not path.exists():
        # The suite makes the folder first and writes no file when the scenario itself threw: it counts one failure.
        return [{"id": scenario, "status": "FAILURE", "errorMessage": "the scenario threw; see suite.log"}]
    checks: list[dict[str, Any]] = json.loads(path.read_text())
    return checks


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


# --- the fixture server -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def fixture_server() -> Iterator[str]:
    """The URL of a fixture server that runs as long as the block does."""
    command = [sys.executable, str(HERE / "server.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            greeting = server.stdout.readline()
            if not greeting.startswith("listening on "):
                raise SuiteError("the fixture server did not start")
            yield greeting.removeprefix("listening on ").strip()
        finally:
            server.terminate()
            try:
                server.wait(timeout=5)
            except subprocess.TimeoutExpired:
                server.kill()


# --- command line -----------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the MCP conformance suite")
    parser.add_argument("--url", help="server or gateway under test; without it, the fixture server, directly")
    parser.add_argument("--version", nargs="+", choices=sorted(EXPECTED_PASSES), default=sorted(EXPECTED_PASSES))
    parser.add_argument("--output-dir", type=Path, default=tools_folder() / "results")
    options = parser.parse_args(arguments)
    try:
        install_tools()
        with contextlib.ExitStack() as stack:
            url = options.url or stack.enter_context(fixture_server())
            # One process a version, side by side: the suite itself runs its scenarios one after the other.
            pool = stack.enter_context(ThreadPoolExecutor(max_workers=2))
            started = time.monotonic()
            runs = list(pool.map(lambda version: run_suite(url, version, options.output_dir), options.version))
            seconds = time.monotonic() - started
    except SuiteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for totals in runs:
        _report(totals)
    print(f"{seconds:.1f} s")
    return 0 if all(totals.conforming for totals in runs) else 1


def _report(totals: Totals) -> None:
    print(
        f"{totals.version}: {totals.passed} of {EXPECTED_PASSES[totals.version]} passed, {totals.failed} failed, "
        f"{totals.warnings} warnings, {totals.skipped} skipped, in {len(totals.scenarios)} scenarios"
    )
    for problem in totals.problems:
        print(f"  {problem.status} {problem.scenario} {problem.check}: {problem.message}")


if __name__ == "__main__":
    sys.exit(main())
