"""What `callgate install` and `callgate uninstall` share: the files on this machine, and what becomes of each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from callgate.errors import CallgateError

if TYPE_CHECKING:
    from callgate.clients import Entry, Finding, Machine, Plan, Records, Source, Spot
    from callgate.clients.entries import Command
    from callgate.pinning.identity.launch import Launch


@dataclass(eq=False)
class Work:
    """One file: what was found in it, what is to be done, and how that went. A file without a source is not there yet;
    one of no bytes is to go."""

    spot: Spot
    source: Source | None = None
    plan: Plan | None = None
    # The bytes to write, where they are not those of the plan's text.
    data: bytes = b""
    error: CallgateError | None = None
    done: bool = False
    backup: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return () if self.plan is None else self.plan.findings

    @property
    def changes(self) -> bool:
        return self.error is None and self.data != (b"" if self.source is None else self.source.data)

    def fail(self, error: CallgateError) -> None:
        self.error = error


def this_machine() -> Machine:
    from callgate.clients import Machine

    return Machine(Path.home(), sys.platform, os.environ, Path.cwd())


def the_records() -> Records:
    import platformdirs

    from callgate.clients import Records

    return Records(platformdirs.user_state_path("callgate", appauthor=False))


def check_clients(names: Collection[str]) -> None:
    """A misspelt client is a mistake on the command line, not a client without servers."""
    from callgate.clients import CLIENTS

    for name in names:
        if name not in CLIENTS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(CLIENTS)}", param_hint="--client")


def look_at(spots: Iterable[Spot], prepare: Callable[[Work, Source], None], asked: Collection[Path] = ()) -> list[Work]:
    """Each file that is there, prepared; a broken one does not keep the others from being looked at."""
    from callgate.clients.files import read

    found = []
    for spot in spots:
        work = Work(spot)
        try:
            work.source = read(spot.path, spot.project)
            if work.source is None and spot.path not in asked:
                continue
            if work.source is None:
                raise CallgateError(f"{spot.path}: there is no such file", advice="Name a file that is there.")
            prepare(work, work.source)
        except CallgateError as error:
            if _concerns_us(work) or spot.path in asked:
                work.fail(error)
        if work.error is not None or work.findings:
            found.append(work)
    return found


def look_at_hooks(spots: Iterable[Spot], prepare: Callable[[Work, Source | None], None]) -> list[Work]:
    """Each file for hooks, prepared, also one that is not there."""
    from callgate.clients.files import read

    found = []
    for spot in spots:
        work = Work(spot)
        try:
            work.source = read(spot.path)
            prepare(work, work.source)
        except CallgateError as error:
            work.fail(error)
        found.append(work)
    return found


def _concerns_us(work: Work) -> bool:
    """An editor's settings that are broken are its own matter, as long as they name no servers."""
    if work.source is None or work.spot.path.name != "settings.json":
        return True
    return any(f'"{table[0]}"'.encode() in work.source.data for table in work.spot.tables)


def check_servers(works: Sequence[Work], names: Collection[str]) -> None:
    """A server that no client has is told, with those that there are."""
    known = {finding.entry.name for work in works for finding in work.findings if work.spot.hook is None}
    missing = [name for name in names if name not in known]
    if missing and not any(work.error for work in works):
        from callgate.cli.people import plain

        there = ", ".join(sorted(plain(name) for name in known)) or "none at all"
        raise CallgateError(
            f"no client has a server named {plain(missing[0])!r}", advice=f"Servers that were found: {there}."
        )


class Unpinned(NamedTuple):
    """A server that is to go behind the gate, whose command fetches a package of no version."""

    work: Work
    entry: Entry
    command: Command
    start: Launch
    gate: str


def unpinned(works: Iterable[Work]) -> list[Unpinned]:
    from callgate.clients.entries import Command, look
    from callgate.pinning.identity.launch import launched

    found = []
    for work in works:
        for finding in work.findings:
            server = look(finding.entry.node) if finding.state == "wrap" else None
            if isinstance(server, Command):
                start = launched(server.words)
                if start.spec and not (start.version or finding.version):
                    found.append(Unpinned(work, finding.entry, server, start, finding.gate))
    return found


def listing(works: Sequence[Work]) -> list[dict[str, Any]]:
    """The files and their servers for machines. Nothing of a server's command or secrets is in it."""
    return [
        {
            "client": work.spot.client,
            "file": str(work.spot.path),
            "project": work.spot.project is not None,
            "changes": work.changes,
            "done": work.done,
            "backup": None if work.backup is None else str(work.backup),
            "error": None if work.error is None else {"message": work.error.message, "advice": work.error.advice},
            "servers": [_row(finding) for finding in work.findings if work.spot.hook is None],
            "hooks": [
                {"event": finding.entry.name, "state": finding.state} for finding in work.findings if work.spot.hook
            ],
        }
        for work in works
    ]


def _row(finding: Finding) -> dict[str, str]:
    row = {
        "name": finding.entry.name,
        "scope": finding.entry.scope,
        "state": finding.state,
        "kind": finding.kind,
        "gate": finding.gate,
        "reason": finding.reason,
        "text": finding.text,
        "advice": finding.advice,
        "version": finding.version,
    }
    # A name may hold half of a surrogate pair, which no output can.
    return {key: text.encode("utf-8", "replace").decode() for key, text in row.items()}


def status(works: Sequence[Work]) -> int:
    """1 if some file could not be read or written, whatever became of the others."""
    return int(any(work.error is not None for work in works))
