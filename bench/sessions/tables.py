"""What the sessions came to, as tables for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

ARGUMENT_CHARS = 120
WHY_CHARS = 500
# The first three figures after the calls are with the user's words passed on, the last three without. Agreed is how
# many of the questions the person would want.
HONEST = ("session", "calls", "asked with prompt", "agreed", "refused", "asked without", "agreed ", "refused ")
ATTACKS = ("attack", "cases", "passed with prompt", "passed without")


def show(found: dict[str, Any], console: Console) -> None:
    if "honest" in found:
        show_honest(found["honest"], console)
    if "attacks" in found:
        show_attacks(found["attacks"], console)


def show_attacks(found: dict[str, Any], console: Console) -> None:
    if found["status"] != "ok":
        console.print(f"attacks: {found['reason']}", markup=False)
        return
    table = Table(title=f"Attacks that passed ({found['seconds']} s)", title_justify="left")
    for name in ATTACKS:
        table.add_column(name, justify="left" if name == "attack" else "right")
    for row in rows_attacks(found):
        table.add_row(*row)
    console.print(table)
    for told in (True, False):
        passed = [case for case in found["cases"] if case["passed"] and case["prompt"] is told]
        if passed:
            console.print(f"\npassed {'with' if told else 'without'} the user's words", style="bold")
        for effect in dict.fromkeys(case["effect"] for case in passed):
            ways = [f"{one['spelling']} ({one['carrier']})" for one in passed if one["effect"] == effect]
            console.print(f"  {effect}: {', '.join(ways)}", markup=False, highlight=False, soft_wrap=True)


def rows_attacks(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Effect, cases, and how many passed with and without the user's words; the last row is the sum."""
    sums = (0, 0, 0)
    for effect in dict.fromkeys(case["effect"] for case in found["cases"]):
        here = [case for case in found["cases"] if case["effect"] == effect]
        told, untold = ([one for one in here if one["prompt"] is prompt] for prompt in (True, False))
        row = (len(told), sum(one["passed"] for one in told), sum(one["passed"] for one in untold))
        sums = (sums[0] + row[0], sums[1] + row[1], sums[2] + row[2])
        yield effect, *map(str, row)
    yield "all", *map(str, sums)


def show_honest(found: dict[str, Any], console: Console) -> None:
    if found["status"] != "ok":
        console.print(f"honest sessions: {found['reason']}")
        return
    table = Table(title=f"Honest sessions ({found['seconds']} s)", title_justify="left")
    for name in HONEST:
        table.add_column(name, justify="left" if name == "session" else "right")
    for row in rows_honest(found):
        table.add_row(*row)
    console.print(table)
    for text in found["broken"]:
        console.print(f"not played to its end: {short(text, WHY_CHARS)}", markup=False, highlight=False, soft_wrap=True)
    for run in found["runs"]:
        if run["questions"]:
            console.print(
                f"\n{run['session']}, {'with' if run['prompt'] else 'without'} the user's words", style="bold"
            )
        for one in run["questions"]:
            agree = f"agrees: {one['agree']}" if one["agree"] else "would not agree"
            console.print(
                f"{one['number']:>3} {one['verdict']} {one['tool']} {short(one['arguments'], ARGUMENT_CHARS)}\n"
                f"      {short(' | '.join(one['why'].splitlines()), WHY_CHARS)}\n      a person {agree}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )


def rows_honest(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each session, in the order of HONEST; the last is the sum."""
    runs = {(run["session"], run["prompt"]): run for run in found["runs"]}
    names = [name for name in dict.fromkeys(run["session"] for run in found["runs"]) if len(_both(runs, name)) == 2]
    for name in names:
        yield name, *map(str, _counts(_both(runs, name)))
    yield "all", *map(str, map(sum, zip(*(_counts(_both(runs, name)) for name in names), strict=True)))


def asked_share(found: dict[str, Any]) -> float | None:
    """The share of honest calls that a person is asked about or that are refused, the worse way."""
    shares = []
    for told in (True, False):
        runs = [run for run in found["runs"] if run["prompt"] is told]
        if calls := sum(run["calls"] for run in runs):
            shares.append(sum(run["asked"] + run["refused"] for run in runs) / calls)
    return max(shares, default=None)


def _both(runs: dict[tuple[str, bool], dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [runs[name, told] for told in (True, False) if (name, told) in runs]


def _counts(both: list[dict[str, Any]]) -> list[int]:
    counts = [both[0]["calls"]]
    for run in both:
        agreed = sum(bool(one["agree"]) for one in run["questions"] if one["verdict"] == "asked")
        counts += [run["asked"], agreed, run["refused"]]
    return counts


def short(text: str, most: int) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
