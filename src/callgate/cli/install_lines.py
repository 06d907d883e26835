"""What `callgate install` and `callgate uninstall` print: each file with its servers, and the change as a diff."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callgate.cli.people import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from callgate.cli.install_files import Work
    from callgate.clients import Finding
    from callgate.clients.edits import Hunk

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


def at_home(path: Path) -> str:
    """A path as people know it."""
    try:
        return plain(f"~/{path.relative_to(Path.home()).as_posix()}", _LINE)
    except ValueError:
        return plain(str(path), _LINE)


def print_file(out: Console, work: Work) -> None:
    """The file and its servers."""
    from rich.text import Text

    note = "  (belongs to this project, so others may get the change too)" if work.spot.project is not None else ""
    if work.source is None and work.error is None:
        note = "  (a new file)"
    out.print(Text.assemble(("\n" + work.spot.title, "bold"), "  ", at_home(work.spot.path), (note, "yellow")))
    if work.error is not None:
        print_error(out, work)
        return
    shown = [finding for finding in work.findings if finding.state in _STATES]
    width = max((len(_name(finding)) for finding in shown), default=0)
    for finding in shown:
        words, style = _STATES[finding.state]
        out.print(Text.assemble("  ", f"{_name(finding):<{width}}  ", (_told(finding, words), style)), soft_wrap=True)
        if finding.advice:
            out.print(Text(f"  {'':<{width}}  {finding.advice}", "dim"), soft_wrap=True)


def print_error(out: Console, work: Work) -> None:
    from rich.text import Text

    assert work.error is not None
    out.print(Text(f"  {plain(work.error.message, _LINE * 4)}", "red"), soft_wrap=True)
    if work.error.advice:
        out.print(Text(f"  {work.error.advice}", "dim"), soft_wrap=True)


def _name(finding: Finding) -> str:
    scope = f" ({plain(finding.entry.scope, 60)})" if finding.entry.scope else ""
    return plain(finding.entry.name, 60) + scope


def _told(finding: Finding, words: str) -> str:
    if finding.state == "left":
        return f"{words}: {finding.text}"
    if finding.state == "wrapped" and finding.text:
        # Its name alone does not make a program the gate.
        there = "" if _is_there(finding.text) else ", which cannot be found"
        return f"{words}, by another program: {plain(finding.text, 200)}{there}"
    if finding.state == "wrap":
        renamed = f" as {finding.gate}" if finding.gate != finding.entry.name else ""
        return f"{words}{renamed}" + (f", at version {finding.version}" if finding.version else "")
    return words


def _is_there(program: str) -> bool:
    return shutil.which(program) is not None


# -- the diff --------------------------------------------------------------------------------------------------


def print_diff(out: Console, work: Work) -> None:
    """The lines that change, and a few around them. Values under `env` and `headers` are not shown."""
    if work.plan is None:
        return
    out.print()
    for hunk in work.plan.hunks():
        for line in _diff(hunk):
            out.print(line, soft_wrap=True)


def _diff(hunk: Hunk) -> Iterator[Text]:
    from rich.text import Text

    yield Text(f"    @@ line {hunk.line} @@", "cyan")
    matcher = SequenceMatcher(None, hunk.before, hunk.after, autojunk=False)
    for op, *(a, b, c, d) in matcher.get_opcodes():
        if op == "equal":
            yield from _marked(" ", hunk.before[a:b], "dim")
            continue
        yield from _marked("-", hunk.before[a:b], "red")
        yield from _marked("+", hunk.after[c:d], "green")


def _marked(mark: str, lines: Iterable[str], style: str) -> Iterator[Text]:
    from rich.text import Text

    for line in lines:
        yield Text(f"    {mark} {plain(line.expandtabs(4), _LINE)}", style)


# -- what comes next -------------------------------------------------------------------------------------------


def to_type(program: Sequence[str]) -> str:
    """How this Callgate is called from a terminal: by its name where that finds it."""
    found = shutil.which("callgate")
    if found is not None and len(program) == 1 and Path(found).absolute() == Path(program[0]).absolute():
        return "callgate"
    return subprocess.list2cmdline(program) if sys.platform == "win32" else shlex.join(program)


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def clients_of(works: Iterable[Work]) -> str:
    """The clients to restart, as a sentence has them."""
    names = list(dict.fromkeys("the client" if work.spot.client == "file" else work.spot.title for work in works))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def how_to_restart(works: Iterable[Work]) -> list[str]:
    """How each client is brought to start its servers anew, a line each."""
    found = {"" if work.spot.client == "file" else work.spot.client: work.spot.title for work in works}
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


def print_outcome(out: Console, work: Work, about_backup: str) -> None:
    """How changing a file went."""
    if work.error is not None:
        print_error(out, work)
        return
    kept = "" if work.backup is None else f" {about_backup}: {at_home(work.backup)}"
    done = "Made" if work.source is None else "Changed" if work.data else "Removed"
    out.print(f"  [green]{done}.[/]", end="")
    out.print(kept, soft_wrap=True, markup=False)


def print_failures(out: Console, works: Iterable[Work]) -> None:
    """Files that were skipped are easily overlooked above what went well."""
    if files := [at_home(work.spot.path) for work in works if work.error is not None]:
        out.print(f"\nNot done, see above: {', '.join(files)}", style="red", soft_wrap=True, markup=False)
