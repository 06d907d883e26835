"""`callgate install`: the gate in front of every server that the MCP clients on this machine start."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import platformdirs
import typer
from rich.console import Console

from callgate.cli.common import JsonOption, YesOption, console, print_json, spinner
from callgate.cli.install.files import (
    FileChange,
    change_rows,
    check_clients,
    check_servers,
    clients_of,
    install_records,
    plan_files,
    print_diff,
    print_failures,
    print_file,
    print_outcome,
    program_text,
    status,
    this_machine,
    unpinned_servers,
)
from callgate.cli.install.next_steps import NextSteps
from callgate.cli.install.versions import versions_of
from callgate.cli.printing import count, plain
from callgate.clients import (
    GateCommand,
    Hint,
    InstallRecord,
    InstallRecords,
    Pinned,
    Source,
    Word,
    config_locations,
    hook_locations,
    location_of,
    plan_hook,
    plan_wrap,
    wrapped_by_hand,
)
from callgate.clients.files import back_up, check_writable, create, digest, replace
from callgate.clients.servers import Pointer
from callgate.config import FILE_NAME, load, parse
from callgate.errors import CallgateError
from callgate.pinning.identity.launch import with_version

ClientOption = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="CLIENT",
        help="Only this client: claude-desktop, claude-code, cursor, vscode, windsurf, zed, gemini-cli or codex. "
        "May be given more than once.",
    ),
]
ServerOption = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME", help="Only the server of this name. May be given more than once."),
]
FileOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--config-file",
        metavar="PATH",
        help="Only this file of a client, such as an mcp.json. May be given more than once.",
    ),
]
GateConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="PATH",
        envvar="CALLGATE_CONFIG",
        help="The callgate.toml that the servers are to be started with; by default the user's own, if there is one.",
    ),
]
NoHooksOption = Annotated[
    bool,
    typer.Option("--no-hooks", help="Add no hooks: the clients do not tell the gate what you write."),
]
PinOption = Annotated[
    bool | None,
    typer.Option(
        "--pin-versions/--no-pin-versions",
        help="Write the version that would run now into commands such as `npx PACKAGE` and `uvx PACKAGE`. On a "
        "terminal that is done; otherwise, and with --yes, only if you say so here.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


def install(
    *,
    client: ClientOption = None,
    server: ServerOption = None,
    config_file: FileOption = None,
    no_hooks: NoHooksOption = False,
    pin_versions: PinOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: GateConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the gate in front of the servers of the MCP clients on this machine: Claude Desktop, Claude Code, Cursor,
    VS Code, Windsurf, Zed. Where a client has hooks, one is added that runs `callgate prompt`: it tells the gate what
    you write. Each change is shown first; `callgate uninstall` takes it back.

    On a terminal it then leads on: it starts the servers once to read their tools, enrols your passkey and reviews the
    tools. Otherwise it says what to type.

    With --json nothing is asked, and nothing is changed without --yes.
    """
    check_clients(client or [])
    gate, path, hears = _gate(config)
    records = install_records()
    works = _plan_install(gate, client or [], config_file or [], server or [])
    check_servers(works, server or [])
    asks = not (yes or dry_run or as_json) and sys.stdin.isatty()
    _pin_versions(works, gate, server or [], wanted=pin_versions, asks=asks)
    if hears and not (no_hooks or server or config_file):
        works += _hooks(gate, works, client or [])
    if as_json:
        for work in works:
            if work.changes and yes and not dry_run and _has_use(work, works):
                carry_out(work, records)
        print_json(change_rows(works))
        raise typer.Exit(status(works))
    _show_and_ask(works, gate, records, dry_run=dry_run, yes=yes)
    if not dry_run:
        now = _plan_install(gate, client or [], config_file or [], server or [])
        done = [work for work in works if work.done]
        NextSteps(console(), gate, path, now, done).lead_on(asks=asks and sys.stdout.isatty())
    raise typer.Exit(status(works))


def _gate(config: Path | None) -> tuple[GateCommand, Path | None, bool]:
    """What the clients are to start, the configuration it has, and whether it hears prompts. They start it in whatever
    folder is open: a callgate.toml there must not count."""
    own = platformdirs.user_config_path("callgate", appauthor=False) / FILE_NAME
    # A mistake in it would keep every server from starting.
    path = config or (own if own.exists() else None)
    settings = parse("", source="defaults") if path is None else load(path)
    hears = settings.trust.mode != "off" and settings.trust.prompt_hooks
    return GateCommand(_program(), () if config is None else ("-c", str(config.absolute()))), path, hears


def _program() -> tuple[str, ...]:
    """This Callgate by its whole path: a desktop application knows no PATH to find it on."""
    beside = "callgate.exe" if sys.platform == "win32" else "callgate"
    for own in (Path(sys.argv[0]).absolute(), Path(sys.executable).absolute().with_name(beside)):
        if own.stem == "callgate" and own.is_file():
            return (str(own),)
    # -P: a folder named callgate in the project that is open must not be taken for this package.
    return (sys.executable, "-P", "-m", "callgate")


def _plan_install(gate: GateCommand, clients: list[str], files: list[Path], servers: list[str]) -> list[FileChange]:
    machine = this_machine()
    asked = [path.absolute() for path in files]
    places = [location_of(path, machine) for path in asked] if files else config_locations(machine)

    def prepare(work: FileChange) -> None:
        assert work.source is not None
        work.change(plan_wrap(work.source.text, str(work.location.path), work.location.tables, gate, servers))

    return plan_files([location for location in places if not clients or location.client in clients], prepare, asked)


def _pin_versions(
    works: list[FileChange], gate: GateCommand, servers: list[str], *, wanted: bool | None, asks: bool
) -> None:
    """Into commands that fetch a package of no version goes the one that would run now. On a terminal the person sees
    it in the change that they are asked about."""
    open_ones = unpinned_servers(works)
    if not open_ones or not (asks if wanted is None else wanted):
        return
    if wanted is None:
        names = ", ".join(dict.fromkeys(plain(one.entry.name, 60) for one in open_ones))
        typer.echo(f"No version is named in the command of: {names}. What runs can change at any start.")
        typer.echo("So the change writes in the version that would run now; --no-pin-versions leaves it out.")
    with spinner("looking up versions"):
        found = versions_of([(one.start, one.command.env) for one in open_ones])
    pins: dict[FileChange, dict[tuple[str, ...], Pinned]] = {}
    for one, (version, problem) in zip(open_ones, found, strict=True):
        word = with_version(one.command.words, version) if version else None
        problem = problem or "the command cannot be written with a version"
        pin = Pinned(version, Word(*word)) if word else Pinned(problem=problem)
        pins.setdefault(one.work, {})[one.entry.pointer] = pin
    for work, own in pins.items():
        assert work.source is not None
        tables = work.location.tables
        work.change(plan_wrap(work.source.text, str(work.location.path), tables, gate, servers, pins=own))


def _hooks(gate: GateCommand, works: list[FileChange], clients: list[str]) -> list[FileChange]:
    """The hooks of the clients that have a server behind the gate."""
    machine = this_machine()
    gated = {
        work.location.client for work in works if any(finding.state in ("wrap", "wrapped") for finding in work.findings)
    }
    gated.update(wrapped_by_hand(machine))

    def prepare(work: FileChange) -> None:
        assert work.location.hook is not None
        text = None if work.source is None else work.source.text
        work.change(plan_hook(text, str(work.location.path), work.location.hook, gate.program))

    wanted = [one for one in hook_locations(machine) if one.client in gated and (not clients or one.client in clients)]
    return plan_files(wanted, prepare, hooks=True)


def _has_use(work: FileChange, works: list[FileChange], asked: Sequence[FileChange] = ()) -> bool:
    """A hook is of no use to a client whose servers all stayed as they were; `asked` are yet to be decided on."""
    if work.location.hook is None or work.location.client not in {
        one.location.client for one in works if one.location.hook is None
    }:
        return True
    return any(
        one.done or (one in asked and one.changes) or any(finding.state == "wrapped" for finding in one.findings)
        for one in works
        if one.location.hook is None and one.location.client == work.location.client
    )


def _show_and_ask(
    works: list[FileChange], gate: GateCommand, records: InstallRecords, *, dry_run: bool, yes: bool
) -> None:
    out = console()
    if not works:
        out.print("No MCP client on this machine has servers where Callgate looks for them.", soft_wrap=True)
        out.print("If yours keeps them elsewhere: callgate install --config-file PATH", soft_wrap=True)
        return
    for group in _by_client(works):
        shown = [work for work in group if dry_run or _has_use(work, works, group)]
        for work in shown:
            print_file(out, work)
            if work.changes:
                print_diff(out, work)
        asked = [work for work in shown if work.changes]
        if dry_run or not asked or not confirm_changes(*asked, yes=yes):
            continue
        for work in asked:
            if _has_use(work, works):
                carry_out(work, records)
                print_outcome(out, work, "Backup")
    _conclude(out, works, gate, dry_run=dry_run)


def _by_client(works: list[FileChange]) -> list[list[FileChange]]:
    """The files of a client together, with its hook; those of a project apart, as others may get the change too."""
    found: dict[tuple[str, bool], list[FileChange]] = {}
    for work in works:
        name = str(work.location.path) if work.location.client == "file" else work.location.client
        found.setdefault((name, work.location.project is not None), []).append(work)
    return list(found.values())


def confirm_changes(*works: FileChange, yes: bool) -> bool:
    """Whether these files are to be changed; without a terminal to ask on, only --yes says so."""
    typer.echo()
    if yes:
        return True
    if not sys.stdin.isatty():
        error = CallgateError("nobody is here to be asked", advice="Add --yes to change it, --dry-run to look only.")
        for work in works:
            work.fail(error)
        return True
    if len(works) > 1:
        return typer.confirm(f"  Change these {len(works)} files?")
    (work,) = works
    return typer.confirm(f"  {'Make' if work.source is None else 'Change' if work.data else 'Remove'} this file?")


def carry_out(work: FileChange, records: InstallRecords) -> None:
    """Backup, record, file: in this order, so that whatever is changed can be taken back."""
    if work.error is not None:
        return
    if work.source is None:
        _create(work, records)
        return
    source = work.source
    old = records.get(source.target)
    made: Path | None = None
    try:
        check_writable(source)
        kept = old is not None and old.after == digest(source.data) and old.backup.is_file()
        made = None if kept else back_up(source)
        ours = {one.entry.pointer: one.hint or Hint() for one in work.findings if one.state in ("wrap", "hook")}
        before, backup = (old.before, old.backup) if old is not None and made is None else (digest(source.data), made)
        assert backup is not None
        servers = {**(_pinned_anew(old.servers, work) if old is not None else {}), **ours}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if servers:
            records.put(
                InstallRecord(source.target, work.location.client, backup, before, digest(work.data), now, servers)
            )
        replace(source, work.data)
    except CallgateError as error:
        work.fail(error)
        _take_back(records, source, old, made)
        return
    work.succeed(backup)


def _pinned_anew(servers: Mapping[Pointer, Hint], work: FileChange) -> dict[Pointer, Hint]:
    """What is remembered of servers, where the version that we wrote into a command became another."""
    new = {one.entry.pointer: one.hint for one in work.findings if one.state == "pin" and one.hint is not None}
    return {
        pointer: hint._replace(pinned=new[pointer].pinned)
        if pointer in new and hint.pinned and hint.pinned == new[pointer].unpinned
        else hint
        for pointer, hint in servers.items()
    }


def _create(work: FileChange, records: InstallRecords) -> None:
    """A file that was not there: the record comes first here too, and says that there is nothing to restore."""
    target = work.location.path.parent.resolve() / work.location.path.name
    ours = {one.entry.pointer: one.hint or Hint() for one in work.findings}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        records.put(InstallRecord(target, work.location.client, Path(), "", digest(work.data), now, ours))
        create(target, work.data)
    except CallgateError as error:
        work.fail(error)
        records.drop(target)
        return
    work.succeed()


def _take_back(records: InstallRecords, source: Source, old: object, made: Path | None) -> None:
    if isinstance(old, InstallRecord):
        records.put(old)
    else:
        records.drop(source.target)
    if made is not None:
        made.unlink(missing_ok=True)


# -- the end ---------------------------------------------------------------------------------------------------


def _conclude(out: Console, works: list[FileChange], gate: GateCommand, *, dry_run: bool) -> None:
    say = partial(out.print, soft_wrap=True, markup=False)
    done = [work for work in works if work.done]
    program = program_text(gate.program)
    say()
    if not done:
        could = sum(one.state == "wrap" for work in works if work.changes for one in work.findings)
        if dry_run and could:
            say(f"Nothing was changed. Without --dry-run, {count(could, 'server')} would go behind the gate.")
        else:
            say("Nothing was changed." if could or status(works) else "Nothing to do.")
        print_failures(out, works)
        return
    wrapped = [one for work in done for one in work.findings if one.state == "wrap"]
    hooked = [work for work in done if work.location.hook is not None]
    if hooked:
        say(f"{clients_of(hooked)}: with each prompt, a hook now tells the gate what you wrote. It keeps hashes only.")
        if any(work.location.client == "codex" for work in hooked):
            say("Codex runs a new hook once you have trusted it: type /hooks there.")
    if wrapped:
        files = len(done) - len(hooked)
        say(f"{count(len(wrapped), 'server')} in {count(files, 'file')} now behind the gate.")
    options = f" -c {shlex.quote(gate.options[1])}" if gate.options else ""
    if later := [plain(one.gate, 60) for one in unpinned_servers(done)]:
        say(f"\nNo version is named in the command of: {', '.join(later)}. What runs can change at any start.")
        say(f"To hold it to one, once its tools were reviewed: `{program} upgrade{options} {shlex.quote(later[0])}`")
    signing = [one.entry.name for one in wrapped if one.reason == "may_sign_in"]
    if signing:
        _about_signing_in(out, signing, program)
    print_failures(out, works)
    if gate.program[0].startswith(tempfile.gettempdir()) or "archive-v" in gate.program[0]:
        note = f"{gate.program[0]} is in a cache that may be cleared; install Callgate for good, then run this again."
        out.print(f"\n{note}", style="yellow", soft_wrap=True, markup=False)


def _about_signing_in(out: Console, names: list[str], program: str) -> None:
    shown = ", ".join(plain(name) for name in names)
    out.print(
        f"\nThe client's file has no token for {shown}. Where the client signs in with a browser, the gate cannot do "
        "that in its place: the server answers with status 401 then. Take it out, and give it a token under `headers` "
        "before you install it again:\n",
        style="yellow",
        markup=False,
    )
    out.print(
        f"  {program} uninstall --server {shlex.quote(plain(names[0]))}", style="green", soft_wrap=True, markup=False
    )
