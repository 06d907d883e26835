"""What the sessions came to, as tables for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

ARGUMENT_CHARS = 100
WHY_CHARS = 240


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
    for name in ("effect", "cases", "with prompt", "without"):
        table.add_column(name, justify="left" if name == "effect" else "right")
    for row in rows_attacks(found):
        table.add_row(*map(str, row))
    console.print(table)
    for told in (True, False):
        passed = [case for case in found["cases"] if case["passed"] and case["prompt"] is told]
        if passed:
            console.print(f"\npassed {'with' if told else 'without'} the user's words", style="bold")
        for effect in dict.fromkeys(case["effect"] for case in passed):
            ways = [f"{one['spelling']} ({one['carrier']})" for one in passed if one["effect"] == effect]
            console.print(f"  {effect}: {', '.join(ways)}", markup=False, highlight=False, soft_wrap=True)


def rows_attacks(found: dict[str, Any]) -> Iterator[tuple[str, int, int, int]]:
    """Effect, cases, and how many passed with and without the user's words; the last row is the sum."""
    sums = (0, 0, 0)
    for effect in dict.fromkeys(case["effect"] for case in found["cases"]):
        here = [case for case in found["cases"] if case["effect"] == effect]
        told, untold = ([one for one in here if one["prompt"] is prompt] for prompt in (True, False))
        row = (len(told), sum(one["passed"] for one in told), sum(one["passed"] for one in untold))
        sums = (sums[0] + row[0], sums[1] + row[1], sums[2] + row[2])
        yield effect, *row
    yield "all", *sums


def show_honest(found: dict[str, Any], console: Console) -> None:
    if found["status"] != "ok":
        console.print(f"honest sessions: {found['reason']}")
        return
    table = Table(title=f"Honest sessions ({found['seconds']} s)", title_justify="left")
    for name in ("session", "calls", "asked with prompt", "refused", "asked without", " refused"):
        table.add_column(name, justify="left" if name == "session" else "right")
    for row in rows_honest(found):
        table.add_row(*map(str, row))
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
                f"      {short(one['why'], WHY_CHARS)}\n      a person {agree}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )


def rows_honest(found: dict[str, Any]) -> Iterator[tuple[str, int, int, int, int, int]]:
    """Session, calls, asked and refused with the user's words, the same without; the last row is the sum."""
    runs = {(run["session"], run["prompt"]): run for run in found["runs"]}
    sums = [0, 0, 0, 0, 0]
    for name in dict.fromkeys(run["session"] for run in found["runs"]):
        if (name, True) not in runs or (name, False) not in runs:
            continue
        told, untold = runs[name, True], runs[name, False]
        row = (told["calls"], told["asked"], told["refused"], untold["asked"], untold["refused"])
        sums = [before + here for before, here in zip(sums, row, strict=True)]
        yield name, *row
    yield "all", sums[0], sums[1], sums[2], sums[3], sums[4]


def short(text: str, most: int) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
