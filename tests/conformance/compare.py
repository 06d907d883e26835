"""The official conformance suite, direct and through the gateway, side by side: `make conformance`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

# Run as a script, this file is not inside a package: the folder above has to be found first.
from conformance.run import (  # noqa: E402
    EXPECTED_PASSES,
    SuiteError,
    Totals,
    fixture_server,
    install_tools,
    run_suite,
)
from support.gateway import serving  # noqa: E402


@dataclass(frozen=True, slots=True)
class Pair:
    """One protocol version, seen directly and through the gateway."""

    version: str
    direct: Totals
    through: Totals

    @property
    def same(self) -> bool:
        return self.direct.scenarios == self.through.scenarios

    @property
    def conforming(self) -> bool:
        return self.same and self.direct.conforming and self.through.conforming


@contextmanager
def _both_ways(folder: Path) -> Iterator[tuple[str, str]]:
    with ExitStack() as stack:
        direct = stack.enter_context(fixture_server())
        running = stack.enter_context(serving(folder, {"fixture": {"url": direct}}))
        yield direct, running.url("fixture")


def compare() -> list[Pair]:
    """Run the suite for every version, both ways."""
    install_tools()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "gateway").mkdir()
        with _both_ways(folder / "gateway") as (direct, through), ThreadPoolExecutor(2) as pool:
            runs = {
                (version, way): pool.submit(run_suite, url, version, folder / f"{version}-{way}")
                for version in EXPECTED_PASSES
                for way, url in (("direct", direct), ("through", through))
            }
            return [Pair(v, runs[v, "direct"].result(), runs[v, "through"].result()) for v in EXPECTED_PASSES]


def main() -> int:
    try:
        pairs = compare()
    except SuiteError as error:
        print(f"the suite could not run: {error}", file=sys.stderr)
        return 2
    print(f"{'protocol version':<18}{'':<10}{'passed':>8}{'failed':>8}{'warnings':>10}{'skipped':>9}{'of':>6}")
    for pair in pairs:
        for way, totals in (("direct", pair.direct), ("gateway", pair.through)):
            row = f"{totals.passed:>8}{totals.failed:>8}{totals.warnings:>10}{totals.skipped:>9}"
            print(f"{pair.version:<18}{way:<10}{row}{EXPECTED_PASSES[pair.version]:>6}")
        for problem in (*pair.direct.problems, *pair.through.problems):
            print(f"  {problem.scenario} {problem.check}: {problem.status} {problem.message}")
        if not pair.same:
            print(f"  {pair.version}: the gateway changes the outcome of a check")
    return 0 if all(pair.conforming for pair in pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
