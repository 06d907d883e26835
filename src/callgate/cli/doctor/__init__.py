"""`callgate doctor`: the whole set-up looked at, and what to do about each finding."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.text import Text

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, console, print_json, progress
from callgate.cli.doctor import access, servers, setup, state
from callgate.cli.doctor.findings import Check, Setup
from callgate.cli.printing import count

if TYPE_CHECKING:
    from callgate.cli.doctor.findings import Finding

_COLOURS: Final = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}
_LABEL: Final = 9


def doctor(
    *,
    server: Annotated[
        list[str] | None, typer.Option("--server", metavar="SERVER", help="Start only this server; may be repeated.")
    ] = None,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Start and connect to no server; look at the rest.")
    ] = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the whole set-up, and say what to do about each finding. Changes nothing.

    Looks at versions, configuration, store, keys, clock, servers, gateway, addresses, browser, people, tools and
    clients.
    Exits with 1 if a finding is a problem; notes and warnings do not count.
    """
    setup = Setup(config, store, servers=server or (), start=not no_start)
    try:
        findings, skipped = examine(setup, checks())
    finally:
        setup.close()
    bad = any(one.level == "problem" for one in findings)
    if as_json:
        print_json(_as_json(setup, findings, skipped, bad=bad))
    else:
        _print(findings, skipped)
    raise typer.Exit(1 if bad else 0)


def checks() -> tuple[Check, ...]:
    """Every check, in the order in which it is shown; each finds what the next ones need."""
    return (
        Check("versions", "nothing", setup.versions),
        Check("config", "nothing", setup.configuration),
        Check("store", "config", state.store),
        Check("keys", "config", state.keys),
        Check("switch", "config", state.switch),
        Check("servers", "config", servers.servers),
        Check("tools", "store", state.tools),
        Check("gateway", "config", access.gateway),
        Check("address", "config", access.address),
        Check("exposure", "config", access.exposure),
        Check("console", "config", access.console),
        Check("browser", "config", access.browser),
        Check("people", "store or none", state.people),
        Check("clients", "nothing", setup.clients),
        # The last: it also compares how far both clocks went meanwhile.
        Check("clock", "config", state.clock),
    )


def examine(setup: Setup, every: tuple[Check, ...]) -> tuple[list[Finding], list[str]]:
    """What all checks find, and those that had nothing to look at."""
    findings: list[Finding] = []
    skipped: list[str] = []
    columns = (SpinnerColumn(), TextColumn("looking at {task.description}"), BarColumn(20))
    with progress(*columns) as bar:
        task = bar.add_task("", total=len(every))
        for check in every:
            bar.update(task, description=check.id)
            if check.possible(setup):
                findings += check.run(setup)
            else:
                skipped.append(check.id)
            bar.advance(task)
    return findings, skipped


def _as_json(setup: Setup, findings: list[Finding], skipped: list[str], *, bad: bool) -> dict[str, Any]:
    file = None if setup.file is None else str(setup.file)
    return {"ok": not bad, "file": file, "findings": msgspec.to_builtins(findings), "skipped": skipped}


def _print(findings: list[Finding], skipped: list[str]) -> None:
    out = console()
    width = _LABEL + max(len(one.check) for one in findings) + 2
    indent = " " * width
    for one in findings:
        first, *rest = _wrap_text(one.text, out.width - width)
        level, check = one.level.ljust(_LABEL), one.check.ljust(width - _LABEL)
        line = Text.assemble((level, _COLOURS[one.level]), (check, "bold"), first)
        for text in (line, *(Text(indent + more) for more in (*rest, *_wrap_text(one.advice, out.width - width)))):
            out.print(text, soft_wrap=True)
        for command in one.commands:
            # Never wrapped by us: a command that is broken into lines cannot be pasted.
            out.print(Text(f"{indent}$ ").append(command, "bold"), soft_wrap=True)
    if skipped:
        out.print(f"\nNot looked at, for want of the above: {', '.join(skipped)}.", soft_wrap=True)
    out.print(Text("\n").append_text(_summary(findings)))


def _wrap_text(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False)


def _summary(findings: list[Finding]) -> Any:
    found: Callable[[str], int] = lambda level: sum(one.level == level for one in findings)  # noqa: E731
    problems, warnings = found("problem"), found("warning")
    if not problems and not warnings:
        return Text("Everything is in order.", "green")
    words = [count(many, what) for many, what in ((problems, "problem"), (warnings, "warning")) if many]
    return Text(f"{' and '.join(words)}.", _COLOURS["problem" if problems else "warning"])
