"""`callgate audit`: read the log, verify it, hand out proofs; and what a receipt proves of an approval."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, NamedTuple

import msgspec
import typer
from rich.text import Text

from callgate.app.extracts import demanded_witnesses
from callgate.app.extracts import witnesses as parties_of
from callgate.approval.evidence import Proven, check_proofs, proofs_in
from callgate.approval.overview import how_answered
from callgate.approval.webauthn import MalformedResponse, NotVerified
from callgate.audit import AuditLog, DecisionRecord, note, proofs, reading
from callgate.audit import receipt as receipts
from callgate.audit.cosigning import CosignedHead, Cosigning, Witnesses, WitnessReport, cosigned_head
from callgate.audit.log import Sequencer
from callgate.audit.note import VerifierKey
from callgate.audit.reading import CallEntry, entries, entry
from callgate.audit.receipt import MAX_RECEIPT, VerifiedReceipt
from callgate.audit.records import matches
from callgate.audit.storage import Filter
from callgate.audit.verify import verify as verify_log
from callgate.canonical import canonical
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    WhyOption,
    YesOption,
    configuration,
    confirm,
    console,
    keys_of,
    open_log,
    open_store,
    operator,
    parse_when,
    print_json,
    progress,
    say,
    spinner,
)
from callgate.cli.printing import plain, print_table, show_when
from callgate.config import Config, load
from callgate.errors import AuditError, CallgateError, KeyringError, NotInTree, StoreUnavailable, Tampered
from callgate.keyring import CHECKPOINT, SEAL, Keyring
from callgate.protocol import DEVICE

if TYPE_CHECKING:
    from callgate.store import Store

_ATTEMPTS: Final = 5
SinceOption = Annotated[str | None, typer.Option("--since", help="From then on: 2h, 7d, 2026-11-15 or a full time.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Up to then, in the same forms.")]


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
    now = time.time()
    wanted = Filter(server, tool, verdict, reason, call, parse_when(since, now), parse_when(until, now))
    with open_store(config, store) as (_, opened), opened.audit_reading() as tables:
        found = entries(tables, wanted, limit)
    if as_json:
        _json_lines(found)
    elif not found:
        say("No calls on record" + (" match this." if wanted != Filter() else " yet."))
    else:
        print_table(("time", "call", "server", "tool", "verdict", "reason", "outcome"), map(_cells, found))


def show(
    call: Annotated[str, typer.Argument(help="The call's id, or enough of its beginning.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything on record about one call."""
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
    witness: Annotated[
        list[str] | None,
        typer.Option("--witness", help="The public key of a witness, or a file with it, for --receipt; repeatable."),
    ] = None,
    quorum: Annotated[
        int | None,
        typer.Option("--quorum", min=1, help="So many of these witnesses have to have cosigned; by default all."),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the configured witnesses what they have seen; the log must contain it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify every stored byte of the log, or one receipt with the approval in it; names the first bad record."""
    if receipt is not None:
        verify_receipt(receipt, key, arguments, given_witnesses(witness or (), quorum), as_json=as_json)
        return
    with open_store(config, store) as (loaded, opened):
        # Not `open_log`, which wants a log that holds: here is said what does not.
        keyring = keys_of(loaded)
        keyring.require(SEAL, CHECKPOINT)
        _catch_up(Sequencer(opened, keyring))
        earlier = _known_checkpoints(opened, keyring, checkpoint)
        if ask:
            earlier += asyncio.run(_witnessed(loaded, opened, keyring))
        with progress() as bar:
            task = bar.add_task("verifying")
            report = verify_log(
                opened,
                keyring,
                earlier=earlier,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        cosigned = _demand_witnesses(loaded, opened)
    if as_json:
        seen = None if cosigned is None else {"size": cosigned.size, "at": cosigned.at}
        facts = {name: getattr(report, name) for name in report.__struct_fields__}
        print_json({"ok": True, **facts, "cosigned": seen})
        return
    typer.echo(
        f"The log holds: {report.records} records verified, {report.removed} removed by retention, "
        f"{report.pending} not in the tree yet, {report.checkpoints} checkpoints archived."
    )
    if report.size:
        typer.echo(f"Tree of {report.size} records, signed {show_when(report.signed_at)} by {report.key}")
    if cosigned is not None:
        many = "1 witness" if loaded.audit.demanded == 1 else f"{loaded.audit.demanded} witnesses"
        typer.echo(f"Its first {cosigned.size} records were cosigned by {many}, {show_when(cosigned.at)}")


def export(
    config: ConfigOption = None,
    store: StoreOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of the terminal.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> None:
    """Write every record as JSON Lines."""
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
    settings = configuration(config, store)
    with open_log(config, store) as (log, opened, keyring):
        for left in range(_ATTEMPTS, 0, -1):
            _catch_up(log)
            _ask_witnesses(settings, log)
            try:
                with opened.audit_reading() as tables:
                    found = reading.entry(tables, call)
                    document = receipts.encode(
                        receipts.make(tables, found.decision.call, keyring.public_keys(), demanded_witnesses(settings))
                    )
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


def witnesses(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Ask the configured witnesses to cosign the log now, and show how far each of them has."""
    settings = configuration(config, store)
    with open_log(config, store) as (log, _, _):
        _catch_up(log)
        report = _ask_witnesses(settings, log)
    if as_json:
        print_json({**report._asdict(), "states": [state._asdict() for state in report.states]})
        return
    if not report.states:
        say("No witness is configured. Add a table such as [audit.witnesses.NAME] with url and key.")
        return
    cells = ((one.name, str(one.size), show_when(one.at) if one.at else "-", one.problem) for one in report.states)
    rows = [[Text(plain(cell, 200)) for cell in row] for row in cells]
    print_table(("witness", "records", "cosigned", "problem"), rows)
    say(report.sentence(time.time()).capitalize() + ".")


def prune(
    config: ConfigOption = None,
    store: StoreOption = None,
    days: Annotated[
        int | None, typer.Option(min=0, help="Remove what is older; by default audit.retention_days.")
    ] = None,
) -> None:
    """Remove the bodies of old records; the tree keeps their hashes, so everything else stays provable."""
    if days is None and load(config).audit.retention_days == 0:
        say("audit.retention_days is 0: everything is kept. Name a number with --days.")
        return
    with open_log(config, store) as (log, _, _):
        _catch_up(log)
        with spinner("removing old records"):
            removed = log.prune_sync(operator(), days)
    typer.echo(f"{removed} records removed.")


def accept_restore(
    why: WhyOption,
    config: ConfigOption = None,
    store: StoreOption = None,
    yes: YesOption = False,
) -> None:
    """Go on from a log that is no continuation of what was on record, because an older copy of the store was put back.

    Gateways on the store refuse every call until then. What the log lacks stays lost; that you accepted it, why, and
    what was known of the lost part become the first record of what follows.
    """
    with open_log(config, store) as (log, _, _):
        if log.forked is None:
            _ask_witnesses(configuration(config, store), log)
        if log.forked is not None:
            confirm(f"{log.forked}. Go on from here?", yes=yes)
        log.accept_restore(operator(), why)
    typer.echo("Accepted, and on record. Gateways go on within a second or two.")


# -- witnesses -------------------------------------------------------------------------------------------------


def given_witnesses(given: Sequence[str], quorum: int | None) -> Witnesses | None:
    """Whose cosignatures the command line demands; None where it names nobody."""
    texts = [line for one in given for line in ([one] if "+" in one else read_text(Path(one)).splitlines())]
    keys = tuple(VerifierKey.parse(text, note.WITNESS) for text in texts if text.strip())
    if quorum is not None and quorum > len({key.public for key in keys}):
        raise AuditError(
            f"{quorum} witnesses have to have cosigned, and {len(keys)} keys are given",
            advice="Give the key of each with --witness.",
        )
    return Witnesses(keys, quorum or len({key.public for key in keys})) if keys else None


def _ask_witnesses(settings: Config, log: AuditLog) -> WitnessReport:
    cosigning = Cosigning(log)
    cosigning.configure(parties_of(settings), settings.audit.demanded)
    if settings.audit.witnesses:
        with spinner("asking the witnesses"):
            asyncio.run(cosigning.run_once())
    return cosigning.report()


def _demand_witnesses(settings: Config, opened: Store) -> CosignedHead | None:
    """The newest head that enough witnesses have cosigned; Tampered where the configuration demands one and there is
    none. Whoever has the log's keys can sign another log, and cannot have it cosigned."""
    demanded = demanded_witnesses(settings)
    if not demanded.quorum:
        return None
    with opened.audit_reading() as tables:
        found = cosigned_head(tables, demanded)
    if found is None:
        raise Tampered(
            f"no head of this log is cosigned by {demanded.quorum} of the configured witnesses",
            advice="`callgate audit witnesses` asks them, and says what each answers.",
        )
    return found


async def _witnessed(settings: Config, opened: Store, keyring: Keyring) -> list[str]:
    """What the configured witnesses have seen of this log; raises where one does not say."""
    cosigning = Cosigning(AuditLog(opened, keyring))
    async with cosigning.session() as session:
        return [await cosigning.seen_by(session, party) for party in parties_of(settings)]


# -- parts -----------------------------------------------------------------------------------------------------


def _catch_up(log: AuditLog | Sequencer) -> None:
    """Bring the newest records into the tree, if that can be done now."""
    try:
        with spinner("adding the newest records to the tree"):
            log.catch_up()
    except (StoreUnavailable, KeyringError) as error:
        say(f"The newest records are not in the tree yet: {error}")
    except Tampered as error:
        say(f"Not everything can be added to the tree: {error}")


def _known_checkpoints(opened: Store, keyring: Keyring, given: Path | None) -> list[str]:
    """Checkpoints known outside the store: the one given, and the one noted beside the keys."""
    known = [] if given is None else [read_text(given)]
    with opened.audit_reading() as tables:
        head = tables.head()
    # Also where the log that it was of is gone.
    origins = {note.noted_log(keyring, opened.place), None if head is None else note.parse(head.note).origin}
    beside = [note.noted_checkpoint(keyring, origin) for origin in origins if origin is not None]
    return [*known, *(one for one in beside if one is not None)]


def _json_lines(found: list[CallEntry]) -> None:
    for one in found:
        sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")


def _cells(one: CallEntry) -> list[Text]:
    decision, outcome = one.decision, one.outcome
    ended = "-" if outcome is None else outcome.outcome
    if outcome is not None and outcome.ms is not None:
        ended += f" {outcome.ms:.0f} ms"
    cells = (show_when(decision.at), decision.call, decision.server, decision.tool, shown_verdict(decision))
    row = [Text(plain(cell)) for cell in (*cells, decision.reason or "-", ended)]
    row[4].stylize("green" if decision.verdict == "allow" else "red")
    return row


def _create(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise AuditError(f"{path} cannot be written: {error.strerror}", advice="Name another file.") from None


def verify_receipt(
    path: Path, key: str | None, arguments: Path | None, witnesses: Witnesses | None, *, as_json: bool
) -> None:
    """Verify a receipt without a store; raises what does not hold."""
    given = None if key is None else VerifierKey.parse(read_text(Path(key)).splitlines()[0] if "+" not in key else key)
    done = receipts.verify(read_bytes(path), given, witnesses)
    approval = approval_in(done.decision, None if arguments is None else read_bytes(arguments))
    if as_json:
        _print_json(done, approval)
    else:
        _print(done, approval)


class ReceiptApproval(NamedTuple):
    """What can be said of the approval on record, and what cannot."""

    proven: list[Proven]
    verified: list[str]
    not_verified: list[str]


def approval_in(decision: DecisionRecord, given: bytes | None) -> ReceiptApproval | None:
    """The approval that let a call through, verified; None where the record has none.

    `given` are the call's arguments as JSON; they have to be the ones on record.
    """
    form = None if given is None else _canonical_arguments(decision, given)
    facts = (decision.extra or {}).get("approval")
    if facts is None or decision.verdict != "allow":
        return None
    if not proofs_in(facts):
        return ReceiptApproval([], [], ["the approval: the record holds no signature for it that is known here"])
    form = _on_record(decision) if form is None else form
    try:
        proven = check_proofs(facts, decision.tool, form)
    except (MalformedResponse, NotVerified) as error:
        raise Tampered(
            f"the approval in the receipt does not hold: {error}",
            advice="Whoever runs this log let a call through, or wrote down, what nobody signed.",
        ) from None
    return _account(proven, facts, whole_on_record=form is not None)


def _canonical_arguments(decision: DecisionRecord, text: bytes) -> bytes:
    """The RFC 8785 form of arguments that somebody gives, if they are the ones on record."""
    try:
        value = msgspec.json.decode(text)
        found = matches(value, decision.arguments, decision.args_hash)
    except (msgspec.MsgspecError, CallgateError, ValueError) as error:
        raise AuditError(f"the arguments cannot be read: {error}", advice="Give a file with one JSON object.") from None
    if not found:
        raise AuditError(
            "these are not the arguments on record", advice="Give the arguments of this very call, as JSON."
        )
    return canonical(value)


def _on_record(decision: DecisionRecord) -> bytes | None:
    """The same from the record, where it has them whole."""
    stored = decision.arguments
    if stored.mode == "hashed" or stored.hash is not None:
        return None
    if not matches(stored.value, stored, decision.args_hash):
        raise Tampered(
            "the arguments on record are not the ones that were hashed",
            advice="Do not rely on this receipt; ask whoever gave it to you for another one from the log.",
        )
    return canonical(stored.value)


def _account(proven: list[Proven], facts: dict[str, Any], *, whole_on_record: bool) -> ReceiptApproval:
    verified, not_verified = [], []
    for one in proven:
        if one.device:
            verified.append(f"key {one.fingerprint} of the device “{plain(one.device)}” signed yes, without a passkey")
            continue
        verified += [
            f"passkey {one.fingerprint} signed this {'grant' if one.grant else 'approval'}",
            "its authenticator says that a person was there and was verified",
            f"it was signed on {one.origin} for {one.rp_id}"
            + (f", inside a page of {one.framed_in}" if one.framed_in else ""),
        ]
    if len(proven) > 1:
        what = "keys" if any(one.device for one in proven) else "passkeys"
        verified.append(f"{len(proven)} different {what} signed for the same call")
    if "signatures" in facts:
        not_verified.append(f"that these people were {facts.get('user')}: who is in a group is the log's word")
    granted = any(one.grant for one in proven)
    if all(one.whole for one in proven):
        verified.append(
            "what was signed is a grant for this tool on this server, and these arguments are within it"
            if granted
            else "what was signed is this tool with these arguments on this server"
        )
    elif whole_on_record:
        not_verified.append("tool and arguments: the record does not name the server id that was signed with them")
    else:
        not_verified.append(
            "tool and arguments: they are not on record whole; whoever has them gives them with --arguments FILE"
        )
    for one in proven:
        what = "device" if one.device else "passkey"
        not_verified.append(
            f"whose {what} it is: that it is {one.user}'s is the log's word; compare the fingerprint with the one in "
            "`callgate credentials list --all --json`"
        )
    not_verified.append(
        "that the grant was in force, and that its calls and its sum sufficed: the gateway counted that in its store"
        if granted
        else "that the approval was fresh and used once: the gateway checked that in its store"
    )
    return ReceiptApproval(proven, verified, not_verified)


def _print_json(done: VerifiedReceipt, approval: ReceiptApproval | None) -> None:
    facts: dict[str, Any] = {"decision": done.decision, "outcome": done.outcome, "log": done.checkpoint.origin}
    shown = None
    if approval is not None:
        proven = msgspec.to_builtins(approval.proven)
        first = proven[0] if proven else None
        shown = {
            "proven": first,
            "signers": proven,
            "verified": approval.verified,
            "not_verified": approval.not_verified,
        }
    print_json(
        {
            "ok": True,
            **msgspec.to_builtins(facts),
            "key": str(done.key),
            "key_given": done.key_given,
            "summary": done.summary,
            "cosigned": [{"witness": one.witness.name, "at": one.at} for one in done.cosigned],
            "cosignatures_not_checked": done.unchecked,
            "approval": shown,
        }
    )


def _print(done: VerifiedReceipt, approval: ReceiptApproval | None) -> None:
    decision = done.decision
    typer.echo(f"The receipt holds: call {plain(decision.call)} of {plain(decision.server)} / {plain(decision.tool)}")
    for line in done.summary[1:]:
        typer.echo(f"  {plain(line, 500)}")
    if decision.arguments.mode != "hashed":
        typer.echo(f"  With: {plain(msgspec.json.encode(decision.arguments.value).decode(), 2000)}")
    typer.echo(f"  log {done.checkpoint.origin}, key {done.key.fingerprint}, {show_when(done.checkpoint.at)}")
    for one in done.cosigned:
        typer.echo(f"  cosigned by {plain(one.witness.name)}, {show_when(one.at * 1000)}")
    if approval is not None:
        _print_approval(approval)
    if done.outcome is None:
        typer.echo("  not verified  what became of the call: the receipt has no outcome, or it was left out")
    for name in done.unchecked:
        typer.echo(f"  not verified  the cosignature of {plain(name)}: give the key of that witness with --witness")
    if not done.cosigned:
        typer.echo("  not verified  that the log was not rewritten by whoever has its key: no witness was demanded")
    if not done.key_given:
        say("Checked with the key in the receipt itself: compare its fingerprint with the log's, or give --key.")


def _print_approval(approval: ReceiptApproval) -> None:
    for one in approval.proven:
        typer.echo(f"The approval holds: {plain(one.user)}, {plain(one.fingerprint)}")
    for text in approval.verified:
        typer.echo(f"  verified      {plain(text, 500)}")
    for text in approval.not_verified:
        typer.echo(f"  not verified  {plain(text, 500)}")


# -- files -----------------------------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_RECEIPT + 1)
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}", advice="Name the right file.") from None


def read_text(path: Path) -> str:
    return read_bytes(path).decode("utf-8", "replace")


def approval_of(decision: DecisionRecord) -> dict[str, Any] | None:
    """What is on record of the signature that let a call through; None where there is none."""
    facts = (decision.extra or {}).get("approval")
    return facts if decision.verdict == "allow" and proofs_in(facts) else None


def shown_verdict(decision: DecisionRecord) -> str:
    if decision.repeated is not None:
        return f"{decision.verdict} ({decision.calls:,} {'call' if decision.calls == 1 else 'calls'})"
    return decision.verdict if approval_of(decision) is None else f"{decision.verdict} (approved)"


def refused_together(decision: DecisionRecord) -> str:
    """What a record of a caller whom nobody knows stands for, in a sentence or two; empty for every other."""
    repeated = decision.repeated
    if repeated is None:
        return "Who called was not verified." if decision.unproven else ""
    many = "1 more call" if repeated.count == 1 else f"{repeated.count:,} more calls"
    tools = f" of {', '.join(map(plain, repeated.tools))}" if repeated.tools else ""
    by = "several callers" if (decision.caller or {}).get("peer") == "several" else "the same caller"
    span = f"between {show_when(repeated.first)} and {show_when(repeated.last)}"
    return f"{many}{tools} by {by}, refused {span}, counted together. Who called was not verified."


def approved_by(decision: DecisionRecord, store: Store) -> str:
    """A line on each who approved a call; empty where nobody had to. What the store still knows is put in."""
    facts = approval_of(decision)
    if facts is None:
        return ""
    lines = []
    for signed in proofs_in(facts):
        passkey, at = asyncio.run(_looked_up(signed, store))
        when = show_when(decision.at if at is None else at)
        words = (signed.get("user", "?"), passkey or signed.get("credential", "?"), signed.get("origin", "?"))
        user, key, origin = (plain(str(word)) for word in words)
        if signed.get("method") == DEVICE:
            lines.append(f"approved by {user} at {when} {plain(how_answered(signed), 200)}")
            continue
        how = f"granted beforehand ({plain(str(facts['grant']))})" if "grant" in facts else "approved"
        lines.append(f"{how} by {user} with passkey {key} at {when} on {origin}")
    return "\n".join(lines)


async def _looked_up(facts: Mapping[str, Any], store: Store) -> tuple[str, int | None]:
    """The passkey's name, and when its person signed: on the page that is before the call was let through."""
    from callgate.store import SqlApprovals

    shelf = SqlApprovals(store)
    passkey, request = facts.get("credential"), facts.get("request")
    held = await shelf.credential(passkey) if isinstance(passkey, str) else None
    asked = await shelf.request(request) if isinstance(request, str) else None
    signed = await shelf.signatures(request) if isinstance(request, str) else ()
    own = next((one.at for one in signed if one.credential == passkey), None)
    return "" if held is None else held.name, own or (None if asked is None else asked.decided_at)
