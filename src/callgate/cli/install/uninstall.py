"""`callgate uninstall`: the clients' files as they were, byte for byte, or without the gate where they were edited."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

from callgate.cli.common import JsonOption, YesOption, console, print_json
from callgate.cli.gateway import ask_gateway, end_all, place_of
from callgate.cli.install import ClientOption, DryRunOption, FileOption, ServerOption, confirm_changes
from callgate.cli.install.files import (
    FileChange,
    change_rows,
    check_clients,
    check_servers,
    clients_of,
    install_records,
    path_text,
    plan_files,
    print_diff,
    print_failures,
    print_file,
    print_outcome,
    status,
    this_machine,
)
from callgate.cli.printing import count
from callgate.cli.service import remove_all
from callgate.clients import (
    HOOKS,
    ConfigLocation,
    InstallRecord,
    InstallRecords,
    Plan,
    config_locations,
    hook_locations,
    location_of,
    plan_unhook,
    plan_unwrap,
)
from callgate.clients.files import digest, read
from callgate.clients.jsonc import decode, difference, scan
from callgate.errors import CallgateError
from callgate.local.wrap import is_possible

_SHOWN: Final = ("unwrap", "unhook", "left")


def uninstall(
    *,
    client: ClientOption = None,
    server: ServerOption = None,
    config_file: FileOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take the gate away from the servers of the MCP clients on this machine. A file that is as `callgate install`
    left it becomes what it was, byte for byte; in one that was edited since, only the servers' entries and the hook
    change.

    Once no server is left behind the gate, your gateway ends, and its service goes. What Callgate recorded stays. With
    --json nothing is asked, and nothing is changed without --yes.
    """
    check_clients(client or [])
    records = install_records()
    works = _plan_uninstall(records, client or [], config_file or [], server or [])
    check_servers(works, server or [])
    works = [work for work in works if work.error or any(one.state in _SHOWN for one in work.findings)]
    if as_json:
        for work in works:
            if work.changes and yes and not dry_run:
                _carry_out(work, records)
        print_json(change_rows(works))
    else:
        _show_and_ask(works, records, dry_run=dry_run, yes=yes)
    if not (dry_run or client or server or config_file) and (yes or not as_json):
        _end_gateways(records, works, quiet=as_json)
    raise typer.Exit(status(works))


def _end_gateways(records: InstallRecords, works: list[FileChange], *, quiet: bool) -> None:
    """End what runs for wrapped servers, once none is left."""
    left = _plan_uninstall(records, [], [], [])
    if any(work.error or any(one.state in ("unwrap", "left") for one in work.findings) for work in left):
        return
    if not is_possible():
        return
    found = ask_gateway(place_of(None), "status")
    if found is not None and found["servers"] and not any(work.done for work in works):
        # Somebody else has put the gate in front of these.
        return
    removed, ended = remove_all(), end_all()
    if quiet:
        return
    for path in removed:
        typer.echo(f"The service is gone: {path_text(path)}")
    if ended:
        typer.echo("Your gateway has ended.")


def _plan_uninstall(
    records: InstallRecords, clients: list[str], files: list[Path], servers: list[str]
) -> list[FileChange]:
    asked = [path.absolute() for path in files]

    chosen = [
        location
        for location in _locations(records, asked)
        if (not clients or location.client in clients) and (location.hook is None or not servers)
    ]
    return plan_files(chosen, lambda work: _prepare(work, records, servers), asked)


def _locations(records: InstallRecords, asked: list[Path]) -> list[ConfigLocation]:
    """Where clients keep their servers, and where we changed something, in whatever project that was."""
    machine = this_machine()
    hooks = hook_locations(machine)
    if asked:
        return [
            next((location for location in hooks if location.path == path), location_of(path, machine))
            for path in asked
        ]
    known = [*config_locations(machine), *hooks]
    there = {location.path.resolve() for location in known}
    return [*known, *(_location_of_record(one) for one in records.all() if one.file not in there)]


def _location_of_record(record: InstallRecord) -> ConfigLocation:
    """Where we changed something that is not where this machine has such files now."""
    if any(pointer[0] == "hooks" for pointer in record.servers) and record.client in HOOKS:
        return ConfigLocation(record.client, record.file, (), hook=HOOKS[record.client])
    return location_of(record.file, this_machine())._replace(client=record.client)


def _prepare(work: FileChange, records: InstallRecords, servers: list[str]) -> None:
    assert work.source is not None
    source, record = work.source, records.get(work.source.target)
    plan = _plan(work.location, source.text, str(work.location.path), servers, record)
    work.change(plan)
    if record is None or not plan.changes:
        return
    if digest(source.data) != record.after:
        work.notes.append("It was edited since `callgate install`: only what we put there changes, your edits stay.")
        work.change(plan, backup=record.backup if record.backup.is_file() else None)
    elif not record.before:
        work.change(plan, b"")
        work.notes.append("`callgate install` made this file, and nobody changed it since: it goes.")
    elif not servers and (original := _original(work, record)) is not None:
        _restore(work, original, record)


def _plan(
    location: ConfigLocation, text: str, source: str, servers: Collection[str] = (), record: InstallRecord | None = None
) -> Plan:
    if location.hook is not None:
        return plan_unhook(text, source, location.hook)
    return plan_unwrap(text, source, location.tables, servers, None if record is None else record.servers)


def _original(work: FileChange, record: InstallRecord) -> bytes | None:
    """What the file was before, if the backup is still that, and the servers had no gate in front of them there."""
    try:
        source = read(record.backup)
        if source is None or digest(source.data) != record.before:
            return None
        plan = _plan(work.location, source.text, str(record.backup))
    except CallgateError:
        return None
    gated = {one.entry.pointer for one in plan.findings if one.state != "other"}
    return None if gated & set(record.servers) else source.data


def _restore(work: FileChange, original: bytes, record: InstallRecord) -> None:
    """The plan to put the original back; where it differs from the plain one, the diff has to show it."""
    assert work.plan is not None
    text = decode(original, str(work.location.path))
    findings = tuple(
        one if one.entry.pointer in record.servers or one.state == "other" else replace(one, state="before")
        for one in work.plan.findings
    )
    edits = work.plan.edits if text == work.plan.after else (difference(work.plan.before, text, scan(text)),)
    work.change(replace(work.plan, after=text, findings=findings, edits=edits), original)
    work.notes.append("It is as `callgate install` left it, and becomes what it was before, byte for byte.")


def _show_and_ask(works: list[FileChange], records: InstallRecords, *, dry_run: bool, yes: bool) -> None:
    out = console()
    for work in works:
        print_file(out, work)
        for note in work.notes:
            out.print(f"  {note}", style="dim", soft_wrap=True, markup=False)
        if not work.changes:
            continue
        print_diff(out, work)
        if dry_run or not confirm_changes(work, yes=yes):
            continue
        _carry_out(work, records)
        print_outcome(out, work, "What it was before `callgate install` is kept")
    _conclude(out, works, dry_run=dry_run)


def _carry_out(work: FileChange, records: InstallRecords) -> None:
    from callgate.clients.files import digest, remove, replace

    if work.error is not None:
        return
    assert work.source is not None
    assert work.plan is not None
    try:
        if work.data:
            replace(work.source, work.data)
        else:
            remove(work.source)
        record = records.get(work.source.target)
        if record is not None:
            _settle(work, records, record, digest(work.data))
    except CallgateError as error:
        work.fail(error)
        return
    work.succeed()


def _settle(work: FileChange, records: InstallRecords, record: InstallRecord, now: str) -> None:
    """What is remembered of the file from here on: nothing, once no server of it stands behind the gate."""
    assert work.source is not None
    if not work.data:
        records.drop(work.source.target)
        return
    if now == record.before:
        # The backup is the file again; a second copy of its secrets helps nobody.
        record.backup.unlink(missing_ok=True)
        records.drop(work.source.target)
        return
    gone = {one.entry.pointer for one in work.findings if one.state in ("unwrap", "unhook")}
    left = {pointer: hint for pointer, hint in record.servers.items() if pointer not in gone}
    if not left:
        records.drop(work.source.target)
    elif not work.backup:
        records.put(record._replace(after=now, servers=left))


def _conclude(out: Console, works: list[FileChange], *, dry_run: bool) -> None:
    done = [work for work in works if work.done]
    out.print()
    if done:
        servers = sum(one.state == "unwrap" for work in done for one in work.findings)
        hooks = [work for work in done if work.location.hook is not None]
        files = count(len(done) - len(hooks), "file")
        if servers:
            out.print(f"{count(servers, 'server')} in {files} without the gate again.")
        if hooks:
            out.print(f"{clients_of(hooks)}: no hook tells the gate what you write any more.", soft_wrap=True)
        out.print(f"Restart {clients_of(done)}, so that the servers start directly.", soft_wrap=True)
    elif not works:
        out.print("Nothing to do: no MCP client on this machine starts a server through the gate.", soft_wrap=True)
    else:
        out.print("Nothing was changed." + (" Without --dry-run it would be." if dry_run else ""), soft_wrap=True)
    print_failures(out, works)
