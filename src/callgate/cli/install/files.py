"""The clients' files for install, uninstall and upgrade: what becomes of each, and how that is printed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, NamedTuple

import platformdirs
import typer
from rich.console import Console
from rich.text import Text

from callgate.cli.common import fields_of
from callgate.cli.printing import plain
from callgate.clients import CLIENTS, ConfigLocation, InstallRecords, Machine, Plan, PlannedServer, ServerEntry, Source
from callgate.clients.files import read
from callgate.clients.jsonc import Hunk
from callgate.clients.servers import Command, read_server
from callgate.errors import CallgateError
from callgate.pinning.identity.launch import Launch, launched

_LINE: Final = 300
# Editors whose window can be loaded anew, and programs of the terminal.
_WINDOWS: Final = frozenset({"cursor", "vscode", "windsurf"})
_SESSIONS: Final = frozenset({"claude-code", "gemini-cli", "codex"})
_STATES: Final = {
    "wrap": ("put behind the gate", "green"),
    "unwrap": ("take out from behind the gate", "green"),
    "wrapped": ("already behind the gate", "dim"),
    "left": ("left as it is", "yellow"),
    "hook": ("tell the gate what you write", "green"),
    "unhook": ("tell the gate no longer what you write", "green"),
    "hooked": ("tells the gate already what you write", "dim"),
    "before": ("stays behind the gate, as it was before `callgate install`", "dim"),
}


@dataclass(eq=False)
class FileChange:
    """One file: what was found in it, what is to be done, and how that went. A file without a source is not there yet;
    one of no bytes is to go."""

    location: ConfigLocation
    source: Source | None = None
    plan: Plan | None = None
    # The bytes to write, where they are not those of the plan's text.
    data: bytes = b""
    error: CallgateError | None = None
    done: bool = False
    backup: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def findings(self) -> tuple[PlannedServer, ...]:
        return () if self.plan is None else self.plan.findings

    @property
    def changes(self) -> bool:
        return self.error is None and self.data != (b"" if self.source is None else self.source.data)

    def change(self, plan: Plan, data: bytes | None = None, backup: Path | None = None) -> None:
        """What is to be done; `data` where it is not the plan's text, `backup` where there is one of before."""
        self.plan, self.data = plan, plan.after.encode() if data is None else data
        self.backup = backup

    def fail(self, error: CallgateError) -> None:
        self.error = error

    def succeed(self, backup: Path | None = None) -> None:
        self.done, self.backup = True, backup or self.backup


def this_machine() -> Machine:
    return Machine(Path.home(), sys.platform, os.environ, Path.cwd())


def install_records() -> InstallRecords:
    return InstallRecords(platformdirs.user_state_path("callgate", appauthor=False))


def check_clients(names: Collection[str]) -> None:
    """A misspelt client is a mistake on the command line, not a client without servers."""
    for name in names:
        if name not in CLIENTS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(CLIENTS)}", param_hint="--client")


def plan_files(
    locations: Iterable[ConfigLocation],
    prepare: Callable[[FileChange], None],
    asked: Collection[Path] = (),
    *,
    hooks: bool = False,
) -> list[FileChange]:
    """Each file that is there, prepared; a broken one does not keep the others from being looked at. Of `hooks`, also
    each that is not there."""
    found = []
    for location in locations:
        work = FileChange(location)
        try:
            work = FileChange(location, read(location.path, location.project))
            if work.source is None and not hooks:
                if location.path not in asked:
                    continue
                raise CallgateError(f"{location.path}: there is no such file", advice="Name a file that is there.")
            prepare(work)
        except CallgateError as error:
            if hooks or _concerns_us(work) or location.path in asked:
                work.fail(error)
        if hooks or work.error is not None or work.findings:
            found.append(work)
    return found


def _concerns_us(work: FileChange) -> bool:
    """An editor's settings that are broken are its own matter, as long as they name no servers."""
    if work.source is None or work.location.path.name != "settings.json":
        return True
    return any(f'"{table[0]}"'.encode() in work.source.data for table in work.location.tables)


def check_servers(works: Sequence[FileChange], names: Collection[str]) -> None:
    """A server that no client has is told, with those that there are."""
    known = {finding.entry.name for work in works for finding in work.findings if work.location.hook is None}
    missing = [name for name in names if name not in known]
    if missing and not any(work.error for work in works):
        there = ", ".join(sorted(plain(name) for name in known)) or "none at all"
        raise CallgateError(
            f"no client has a server named {plain(missing[0])!r}", advice=f"Servers that were found: {there}."
        )


class Unpinned(NamedTuple):
    """A server that is to go behind the gate, whose command fetches a package of no version."""

    work: FileChange
    entry: ServerEntry
    command: Command
    start: Launch
    gate: str


def unpinned_servers(works: Iterable[FileChange]) -> list[Unpinned]:
    found = []
    for work in works:
        for finding in work.findings:
            server = read_server(finding.entry.node) if finding.state == "wrap" else None
            if isinstance(server, Command):
                start = launched(server.words)
                if start.spec and not (start.version or finding.version):
                    found.append(Unpinned(work, finding.entry, server, start, finding.gate))
    return found


def change_rows(works: Sequence[FileChange]) -> list[dict[str, Any]]:
    """The files and their servers for machines. Nothing of a server's command or secrets is in it."""
    return [
        {
            "client": work.location.client,
            "file": str(work.location.path),
            "project": work.location.project is not None,
            "changes": work.changes,
            "done": work.done,
            "backup": None if work.backup is None else str(work.backup),
            "error": None if work.error is None else {"message": work.error.message, "advice": work.error.advice},
            "servers": [_row(finding) for finding in work.findings if work.location.hook is None],
            "hooks": [
                {"event": finding.entry.name, "state": finding.state} for finding in work.findings if work.location.hook
            ],
        }
        for work in works
    ]


def _row(finding: PlannedServer) -> dict[str, str]:
    row = fields_of(finding.entry, "name scope") | fields_of(finding, "state kind gate reason text advice version")
    # A name may hold half of a surrogate pair, which no output can.
    return {key: text.encode("utf-8", "replace").decode() for key, text in row.items()}


def status(works: Sequence[FileChange]) -> int:
    """1 if some file could not be read or written, whatever became of the others."""
    return int(any(work.error is not None for work in works))


def path_text(path: Path) -> str:
    """A path as people know it."""
    try:
        return plain(f"~/{path.relative_to(Path.home()).as_posix()}", _LINE)
    except ValueError:
        return plain(str(path), _LINE)


def print_file(out: Console, work: FileChange) -> None:
    """The file and its servers."""
    note = "  (belongs to this project, so others may get the change too)" if work.location.project is not None else ""
    if work.source is None and work.error is None:
        note = "  (a new file)"
    out.print(
        Text.assemble(("\n" + work.location.title, "bold"), "  ", path_text(work.location.path), (note, "yellow"))
    )
    if work.error is not None:
        print_error(out, work)
        return
    shown = [finding for finding in work.findings if finding.state in _STATES]
    width = max((len(_name(finding)) for finding in shown), default=0)
    for finding in shown:
        words, style = _STATES[finding.state]
        out.print(
            Text.assemble("  ", f"{_name(finding):<{width}}  ", (_state_text(finding, words), style)), soft_wrap=True
        )
        if finding.advice:
            out.print(Text(f"  {'':<{width}}  {finding.advice}", "dim"), soft_wrap=True)


def print_error(out: Console, work: FileChange) -> None:
    assert work.error is not None
    out.print(Text(f"  {plain(work.error.message, _LINE * 4)}", "red"), soft_wrap=True)
    if work.error.advice:
        out.print(Text(f"  {work.error.advice}", "dim"), soft_wrap=True)


def _name(finding: PlannedServer) -> str:
    scope = f" ({plain(finding.entry.scope, 60)})" if finding.entry.scope else ""
    return plain(finding.entry.name, 60) + scope


def _state_text(finding: PlannedServer, words: str) -> str:
    if finding.state == "left":
        return f"{words}: {finding.text}"
    if finding.state == "wrapped" and finding.text:
        # Its name alone does not make a program the gate.
        there = "" if _program_exists(finding.text) else ", which cannot be found"
        return f"{words}, by another program: {plain(finding.text, 200)}{there}"
    if finding.state == "wrap":
        renamed = f" as {finding.gate}" if finding.gate != finding.entry.name else ""
        return f"{words}{renamed}" + (f", at version {finding.version}" if finding.version else "")
    return words


def _program_exists(program: str) -> bool:
    return shutil.which(program) is not None


# -- the diff --------------------------------------------------------------------------------------------------


def print_diff(out: Console, work: FileChange) -> None:
    """The lines that change, and a few around them. Values under `env` and `headers` are not shown."""
    if work.plan is None:
        return
    out.print()
    for hunk in work.plan.hunks():
        for line in _diff(hunk):
            out.print(line, soft_wrap=True)


def _diff(hunk: Hunk) -> Iterator[Text]:
    yield Text(f"    @@ line {hunk.line} @@", "cyan")
    matcher = SequenceMatcher(None, hunk.before, hunk.after, autojunk=False)
    for op, *(a, b, c, d) in matcher.get_opcodes():
        if op == "equal":
            yield from _diff_lines(" ", hunk.before[a:b], "dim")
            continue
        yield from _diff_lines("-", hunk.before[a:b], "red")
        yield from _diff_lines("+", hunk.after[c:d], "green")


def _diff_lines(mark: str, lines: Iterable[str], style: str) -> Iterator[Text]:
    for line in lines:
        yield Text(f"    {mark} {plain(line.expandtabs(4), _LINE)}", style)


# -- what comes next -------------------------------------------------------------------------------------------


def program_text(program: Sequence[str]) -> str:
    """How this Callgate is called from a terminal: by its name where that finds it."""
    found = shutil.which("callgate")
    if found is not None and len(program) == 1 and Path(found).absolute() == Path(program[0]).absolute():
        return "callgate"
    return subprocess.list2cmdline(program) if sys.platform == "win32" else shlex.join(program)


def clients_of(works: Iterable[FileChange]) -> str:
    """The clients to restart, as a sentence has them."""
    names = list(
        dict.fromkeys("the client" if work.location.client == "file" else work.location.title for work in works)
    )
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def how_to_restart(works: Iterable[FileChange]) -> list[str]:
    """How each client is brought to start its servers anew, a line each."""
    found = {"" if work.location.client == "file" else work.location.client: work.location.title for work in works}
    lines = []
    for client, title in found.items():
        named = title if client else "The client that reads the file"
        if client in _WINDOWS:
            lines.append(f'{named}: "Developer: Reload Window" in the command palette (Ctrl+Shift+P, Cmd+Shift+P).')
        elif client in _SESSIONS:
            lines.append(f"{named}: leave the session and start it again.")
        else:
            lines.append(f"{named}: quit it and open it again.")
    return lines


def print_outcome(out: Console, work: FileChange, about_backup: str) -> None:
    """How changing a file went."""
    if work.error is not None:
        print_error(out, work)
        return
    kept = "" if work.backup is None else f" {about_backup}: {path_text(work.backup)}"
    done = "Made" if work.source is None else "Changed" if work.data else "Removed"
    out.print(f"  [green]{done}.[/]", end="")
    out.print(kept, soft_wrap=True, markup=False)


def print_failures(out: Console, works: Iterable[FileChange]) -> None:
    """Files that were skipped are easily overlooked above what went well."""
    if files := [path_text(work.location.path) for work in works if work.error is not None]:
        out.print(f"\nNot done, see above: {', '.join(files)}", style="red", soft_wrap=True, markup=False)
