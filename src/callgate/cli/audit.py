"""`callgate audit`: read the log, verify it, hand out proofs."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from callgate.cli.approved import approved_by, refused_together, shown_verdict
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    console,
    keys_of,
    open_log,
    open_store,
    operator,
    print_json,
    progress,
    say,
    working,
)
from callgate.cli.people import plain
from callgate.cli.receipts import read_text, verify_receipt
from callgate.cli.when import parse_when, show_when

if TYPE_CHECKING:
    from callgate.audit import AuditLog
    from callgate.audit.reading import CallEntry
    from callgate.audit.sequencer import Sequencer
    from callgate.keyring import Keyring
    from callgate.store import Store

_ATTEMPTS: Final = 5
SinceOption = Annotated[str | None, typer.Option("--since", help="From then on: 2h, 7d, 2026-11-15 or a full time.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Up to then, in the same forms.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="What was decided, what happened, and the proof of both.")
    verbs.command("list")(list_calls)
    for verb in (show, verify, export, receipt, checkpoint, prune):
        verbs.command(verb.__name__)(verb)
    app.add_typer(verbs, name="audit")


def list_calls(
    *,
    config: ConfigOption = None,
    store: StoreOption = None,
    server: Annotated[str | None, typer.Option(help="Only this server.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only this tool.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Only `allow` or `refuse`.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only refusals for this reason.")] = None,
    call: Annotated[str | None, typer.Option(help="Only this call.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many, the newest.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="JSON Lines for machines.")] = False,
) -> None:
    """List calls, the newest last."""
    from callgate.audit.reading import entries
    from callgate.audit.storage import Filter

    now = time.time()
    wanted = Filter(server, tool, verdict, reason, call, parse_when(since, now), parse_when(until, now))
    with open_store(config, store) as (_, opened), opened.audit_reading() as tables:
        found = entries(tables, wanted, limit)
    if as_json:
        _json_lines(found)
    elif not found:
        say("No calls on record" + (" match this." if wanted != Filter() else " yet."))
    else:
        console().print(_table(found))


def show(
    call: Annotated[str, typer.Argument(help="The call's id, or enough of its beginning.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything on record about one call."""
    import msgspec

    from callgate.audit.reading import entry

    with open_store(config, store) as (_, opened), opened.audit_reading() as tables:
        found = entry(tables, call)
        approved = approved_by(found.decision, opened)
    value = msgspec.to_builtins(found)
    if as_json:
        print_json(value)
        return
    out = console()
    decision = found.decision
    out.print(f"[bold]{decision.call}[/]  {show_when(decision.at)}", soft_wrap=True)
    colour = "green" if decision.verdict == "allow" else "red"
    why = f" ({decision.reason})" if decision.reason else ""
    out.print(f"[{colour}]{decision.verdict}{why}[/]", end=" ")
    out.print(f"{decision.server} / {plain(decision.tool)}", markup=False)
    for sentence in filter(None, (approved, refused_together(decision))):
        out.print(sentence, markup=False, soft_wrap=True)
    out.print_json(data=value)


def verify(
    *,
    config: ConfigOption = None,
    store: StoreOption = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="A checkpoint kept from earlier; the log must contain it.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", help="Verify this receipt instead; needs no store.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The log's public key, or a file with it, for --receipt.")
    ] = None,
    arguments: Annotated[
        Path | None,
        typer.Option("--arguments", help="The call's arguments as JSON, for --receipt, where the record lacks them."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify every stored byte of the log, or one receipt with the approval in it; names the first bad record."""
    if receipt is not None:
        verify_receipt(receipt, key, arguments, as_json=as_json)
        return
    from callgate.audit.sequencer import Sequencer
    from callgate.audit.verify import verify as verify_log
    from callgate.keyring import CHECKPOINT, SEAL

    with open_store(config, store) as (loaded, opened):
        # Not `open_log`, which wants a log that holds: here is said what does not.
        keyring = keys_of(loaded)
        keyring.require(SEAL, CHECKPOINT)
        _catch_up(Sequencer(opened, keyring))
        earlier = _noted(opened, keyring, checkpoint)
        with progress() as bar:
            task = bar.add_task("verifying")
            report = verify_log(
                opened,
                keyring,
                earlier=earlier,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
    if as_json:
        print_json({"ok": True, **{name: getattr(report, name) for name in report.__struct_fields__}})
        return
    typer.echo(
        f"The log holds: {report.records} records verified, {report.removed} removed by retention, "
        f"{report.pending} not in the tree yet, {report.checkpoints} checkpoints archived."
    )
    if report.size:
        typer.echo(f"Tree of {report.size} records, signed {show_when(report.signed_at)} by {report.key}")


def export(
    config: ConfigOption = None,
    store: StoreOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of the terminal.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> None:
    """Write every record as JSON Lines."""
    from callgate.audit.storage import Filter

    now = time.time()
    wanted = Filter(since=parse_when(since, now), until=parse_when(until, now))
    with open_store(config, store) as (_, opened), opened.audit_reading() as tables:
        total = tables.count(wanted)
        target: Any = nullcontext(sys.stdout.buffer) if output is None else _create(output)
        with target as file, progress() as bar:
            task = bar.add_task("exporting", total=total)
            for done, (number, body) in enumerate(tables.bodies(wanted), 1):
                file.write(b'{"id":%d,"record":%b}\n' % (number, body))
                if done % 1000 == 0:
                    bar.update(task, completed=done)
    if output is not None:
        say(f"{total} records written to {output}.")


def receipt(
    call: Annotated[str, typer.Argument(help="The call's id, or enough of its beginning.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of the terminal.")] = None,
) -> None:
    """Make a receipt that proves one call offline: `callgate audit verify --receipt FILE`."""
    from callgate.audit import reading
    from callgate.audit import receipt as receipts
    from callgate.errors import NotInTree

    with open_log(config, store) as (log, opened, keyring):
        for left in range(_ATTEMPTS, 0, -1):
            _catch_up(log)
            try:
                with opened.audit_reading() as tables:
                    found = reading.entry(tables, call)
                    document = receipts.encode(receipts.make(tables, found.decision.call, keyring.public_keys()))
                break
            except NotInTree:
                # The call ended a moment ago: its outcome came after the tree was brought up to date.
                if left == 1:
                    raise
    if output is None:
        sys.stdout.buffer.write(document)
        return
    with _create(output) as file:
        file.write(document)
    say(f"Receipt written to {output}. Verify it with `callgate audit verify --receipt {output}`.")


def checkpoint(
    config: ConfigOption = None,
    store: StoreOption = None,
    since: Annotated[
        Path | None, typer.Option("--since", help="An earlier checkpoint; proves that the log still contains it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the signed head of the log. Keep it elsewhere: it proves later that nothing was taken away."""
    import base64

    from callgate.audit import note, proofs

    with open_log(config, store) as (log, opened, keyring):
        _catch_up(log)
        path: list[str] = []
        with opened.audit_reading() as tables:
            if since is not None:
                old, _ = note.verify(read_text(since), keyring.public_keys())
                path = [base64.b64encode(step).decode() for step in proofs.consistency(tables, old)]
            head = tables.head()
    signed = "" if head is None else head.note
    if as_json:
        print_json({"checkpoint": signed, "since": None if since is None else old.size, "consistency": path})
        return
    typer.echo(signed, nl=False)
    if since is not None:
        say(f"It contains the {old.size} records of {since}: the consistency proof of {len(path)} hashes holds.")


def prune(
    config: ConfigOption = None,
    store: StoreOption = None,
    days: Annotated[
        int | None, typer.Option(min=0, help="Remove what is older; by default audit.retention_days.")
    ] = None,
) -> None:
    """Remove the bodies of old records; the tree keeps their hashes, so everything else stays provable."""
    from callgate.config import load

    if days is None and load(config).audit.retention_days == 0:
        say("audit.retention_days is 0: everything is kept. Name a number with --days.")
        return
    with open_log(config, store) as (log, _, _):
        _catch_up(log)
        with working("removing old records"):
            removed = log.prune_sync(operator(), days)
    typer.echo(f"{removed} records removed.")


# -- parts -----------------------------------------------------------------------------------------------------


def _catch_up(log: AuditLog | Sequencer) -> None:
    """Bring the newest records into the tree, if that can be done now."""
    from callgate.errors import KeyringError, StoreUnavailable, Tampered

    try:
        with working("adding the newest records to the tree"):
            log.catch_up()
    except (StoreUnavailable, KeyringError) as error:
        say(f"The newest records are not in the tree yet: {error}")
    except Tampered as error:
        say(f"Not everything can be added to the tree: {error}")


def _noted(opened: Store, keyring: Keyring, given: Path | None) -> list[str]:
    """Checkpoints known outside the store: the one given, and the one noted beside the keys."""
    from callgate.audit import note

    known = [] if given is None else [read_text(given)]
    with opened.audit_reading() as tables:
        head = tables.head()
    beside = None if head is None else note.noted_checkpoint(keyring, note.parse(head.note).origin)
    return known if beside is None else [*known, beside]


def _json_lines(found: list[CallEntry]) -> None:
    import msgspec

    for one in found:
        sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")


def _table(found: list[CallEntry]) -> Any:
    from rich.table import Table
    from rich.text import Text

    headings = ("time", "call", "server", "tool", "verdict", "reason", "outcome")
    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for one in found:
        decision, outcome = one.decision, one.outcome
        ended = "-" if outcome is None else outcome.outcome
        if outcome is not None and outcome.ms is not None:
            ended += f" {outcome.ms:.0f} ms"
        # Names come from callers: as plain text, with control characters made visible.
        cells = (show_when(decision.at), decision.call, decision.server, decision.tool, shown_verdict(decision))
        row = [Text(plain(cell)) for cell in (*cells, decision.reason or "-", ended)]
        row[4].stylize("green" if decision.verdict == "allow" else "red")
        table.add_row(*row)
    return table


def _create(path: Path) -> BinaryIO:
    from callgate.errors import AuditError

    try:
        return path.open("wb")
    except OSError as error:
        raise AuditError(f"{path} cannot be written: {error.strerror}", advice="Name another file.") from None
