"""The official conformance suite, directly and through the gateway in every combination of transports: `make conformance`.

The gateway runs as shipped: pinning and trust are on, and the fixture's tools were listed and approved. Where that changes
the outcome of a check, `differences.toml` says so and why; any other change is a failure, and so is an entry that is no
longer true.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

# Run as a script, this file is not inside a package: the folder above has to be found first.
from callgate.cli.gateway import end  # noqa: E402
from callgate.local.place import Place  # noqa: E402
from conformance.forking import starter  # noqa: E402
from conformance.run import (  # noqa: E402
    EXPECTED_PASSES,
    HERE,
    SuiteError,
    Totals,
    fixture_server,
    install_tools,
    run_suite,
)
from support.gateway import review, serving, wrap_argv  # noqa: E402

DIRECT = "direct"
# The suite speaks HTTP only: in front of `callgate wrap` stands a gateway that does nothing but change the transport.
BRIDGE = "bridge"
# What each is compared with. The bridge is compared with the server itself, so that its own share is known too.
COMBINATIONS: Mapping[str, str] = {
    "http-http": DIRECT,
    "http-stdio": DIRECT,
    BRIDGE: DIRECT,
    "wrap-stdio": BRIDGE,
    "wrap-http": BRIDGE,
    "alone-stdio": BRIDGE,
    "alone-http": BRIDGE,
}
ONLY_A_BRIDGE = "it is only the bridge from HTTP to stdio, the gateway under test is behind it"
OFF = {"pinning": ONLY_A_BRIDGE, "trust": ONLY_A_BRIDGE}
# A busy machine may take long for what a limit of the gateway is not about.
STORE = {"busy_seconds": 120}
ABSENT = "absent"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """A check whose outcome is not that of the control."""

    combination: str
    version: str
    scenario: str
    check: str
    status: str


@dataclass(frozen=True, slots=True)
class Compared:
    """All runs, by combination and version; `DIRECT` is among them."""

    totals: Mapping[tuple[str, str], Totals]

    @property
    def differences(self) -> set[Difference]:
        found: set[Difference] = set()
        for (combination, version), through in self.totals.items():
            if combination != DIRECT:
                control = self.totals[COMBINATIONS[combination], version]
                found |= set(_differences(combination, control, through))
        return found


def _differences(combination: str, control: Totals, through: Totals) -> Iterator[Difference]:
    for scenario in control.scenarios.keys() | through.scenarios.keys():
        wanted, got = control.scenarios.get(scenario, {}), through.scenarios.get(scenario, {})
        for check in wanted.keys() | got.keys():
            status = got.get(check, ABSENT)
            if status != wanted.get(check, ABSENT):
                yield Difference(combination, through.version, scenario, check, status)


def known() -> dict[Difference, str]:
    """The differences of the file, each with its reason."""
    told: list[dict[str, Any]] = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))["difference"]
    found: dict[Difference, str] = {}
    for entry in told:
        reason = entry.pop("reason")
        for version in entry.pop("versions"):
            for combination in entry["combinations"]:
                for check in entry["checks"]:
                    one = Difference(combination, version, entry["scenario"], check, entry["status"])
                    assert reason
                    assert one not in found, f"twice: {one}"
                    found[one] = reason
    return found


# --- running ----------------------------------------------------------------------------------------------------


@contextmanager
def _endpoint(combination: str, folder: Path, start: Sequence[str]) -> Iterator[str]:
    """Where the suite finds this combination; nothing of it is shared, as one run may change another's lists."""
    stdio = [*start, str(HERE / "server.py"), "--stdio"]
    with ExitStack() as stack:
        if combination in (DIRECT, "http-http", "wrap-http", "alone-http"):
            direct = stack.enter_context(fixture_server())
        if combination == DIRECT:
            yield direct
        elif combination == "http-http":
            yield stack.enter_context(serving(folder, {"fixture": {"url": direct}}, store=STORE)).url("fixture")
        elif combination == "http-stdio":
            yield stack.enter_context(serving(folder, {"fixture": {"command": stdio}}, store=STORE)).url("fixture")
        elif combination == BRIDGE:
            bridge = serving(folder, {"fixture": {"command": stdio}}, off=OFF, store=STORE)
            yield stack.enter_context(bridge).url("fixture")
        else:
            inner = folder / "inner"
            inner.mkdir()
            behind = {"command": stdio} if combination.endswith("-stdio") else {"url": direct}
            argv = wrap_argv(inner, "fixture", store=STORE, **behind)
            if combination.startswith("wrap-"):
                argv.remove("--alone")
                stack.callback(end, Place(str(inner / "callgate.toml")))
            wrap = [*start, *argv]
            bridge = serving(folder, {"fixture": {"command": wrap}}, off=OFF, store=STORE)
            url = stack.enter_context(bridge).url("fixture")
            review([url], inner / "callgate.toml")
            yield url


def compare(combinations: Iterable[str] = COMBINATIONS, versions: Iterable[str] = EXPECTED_PASSES) -> Compared:
    """Run the suite for these versions, directly and in these combinations, some side by side."""
    install_tools()
    ways, setting_up = [DIRECT, *combinations], threading.Lock()
    with tempfile.TemporaryDirectory() as scratch, starter() as start:

        def one(way: str, version: str) -> Totals:
            folder = Path(scratch) / f"{way}-{version}"
            folder.mkdir()
            with ExitStack() as stack:
                # The command line that approves writes to this process's one standard output.
                with setting_up:
                    url = stack.enter_context(_endpoint(way, folder, start))
                return run_suite(url, version, folder / "results")

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = {(way, version): pool.submit(one, way, version) for version in versions for way in ways}
            return Compared({key: run.result() for key, run in runs.items()})


def main() -> int:
    try:
        compared = compare()
    except SuiteError as error:
        print(f"the suite could not run: {error}", file=sys.stderr)
        return 2
    print(f"{'protocol version':<18}{'':<12}{'passed':>8}{'failed':>8}{'warnings':>10}{'skipped':>9}{'of':>6}")
    for (way, version), totals in compared.totals.items():
        row = f"{totals.passed:>8}{totals.failed:>8}{totals.warnings:>10}{totals.skipped:>9}"
        print(f"{version:<18}{way:<12}{row}{EXPECTED_PASSES[version]:>6}")
    expected, found = known(), compared.differences
    for reason in dict.fromkeys(expected[one] for one in sorted(found & expected.keys())):
        print(f"\n{reason}")
        for one in sorted(found & expected.keys()):
            if expected[one] == reason:
                print(f"  {one.combination} {one.version} {one.scenario} {one.check}: {one.status}")
    for title, ones in (
        ("not in differences.toml", found - expected.keys()),
        ("no longer true", expected.keys() - found),
    ):
        for one in sorted(ones):
            print(f"{title}: {one.combination} {one.version} {one.scenario} {one.check}: {one.status}")
    direct = all(compared.totals[DIRECT, version].conforming for version in EXPECTED_PASSES)
    return 0 if direct and found == expected.keys() else 1


if __name__ == "__main__":
    sys.exit(main())
