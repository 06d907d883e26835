"""What a receipt and a record prove of an approval: the place in the log, the passkey, the signature."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from callgate.cli.common import print_json, say
from callgate.cli.printing import plain, show_when
from callgate.errors import AuditError, CallgateError, Tampered

if TYPE_CHECKING:
    from callgate.approval.proof import Proven
    from callgate.audit import DecisionRecord
    from callgate.audit.receipt import Verified
    from callgate.store import Store


def verify_receipt(path: Path, key: str | None, arguments: Path | None, *, as_json: bool) -> None:
    """Verify a receipt without a store; raises what does not hold."""
    from callgate.audit import receipt as receipts
    from callgate.audit.note import VerifierKey

    given = None if key is None else VerifierKey.parse(read_text(Path(key)).splitlines()[0] if "+" not in key else key)
    done = receipts.verify(read_bytes(path), given)
    approval = approval_in(done.decision, None if arguments is None else read_bytes(arguments))
    if as_json:
        _print_json(done, approval)
    else:
        _print(done, approval)


class ReceiptApproval:
    """What can be said of the approval on record, and what cannot."""

    def __init__(self, proven: Proven | None, verified: list[str], not_verified: list[str]) -> None:
        self.proven = proven
        self.verified = verified
        self.not_verified = not_verified


def approval_in(decision: DecisionRecord, given: bytes | None) -> ReceiptApproval | None:
    """The approval that let a call through, verified; None where the record has none.

    `given` are the call's arguments as JSON; they have to be the ones on record.
    """
    from callgate.approval.assertion import Malformed, NotVerified
    from callgate.approval.proof import check_proof, is_proof

    form = None if given is None else _canonical_arguments(decision, given)
    facts = (decision.extra or {}).get("approval")
    if facts is None or decision.verdict != "allow":
        return None
    if not is_proof(facts):
        return ReceiptApproval(None, [], ["the approval: the record holds no passkey's signature for it"])
    form = _on_record(decision) if form is None else form
    try:
        proven = check_proof(facts, decision.tool, form)
    except (Malformed, NotVerified) as error:
        raise Tampered(
            f"the approval in the receipt does not hold: {error}",
            advice="Whoever runs this log let a call through, or wrote down, what no passkey signed.",
        ) from None
    return _account(proven, whole_on_record=form is not None)


def _canonical_arguments(decision: DecisionRecord, text: bytes) -> bytes:
    """The RFC 8785 form of arguments that somebody gives, if they are the ones on record."""
    import msgspec

    from callgate.audit.arguments import matches
    from callgate.canonical import canonical

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
    from callgate.audit.arguments import matches
    from callgate.canonical import canonical

    stored = decision.arguments
    if stored.mode == "hashed" or stored.hash is not None:
        return None
    if not matches(stored.value, stored, decision.args_hash):
        raise Tampered(
            "the arguments on record are not the ones that were hashed",
            advice="Do not rely on this receipt; ask whoever gave it to you for another one from the log.",
        )
    return canonical(stored.value)


def _account(proven: Proven, *, whole_on_record: bool) -> ReceiptApproval:
    verified = [
        f"passkey {proven.fingerprint} signed this approval",
        "its authenticator says that a person was there and was verified",
        f"it was signed on {proven.origin} for {proven.rp_id}"
        + (f", inside a page of {proven.framed_in}" if proven.framed_in else ""),
    ]
    not_verified = []
    if proven.whole:
        verified.append("what was signed is this tool with these arguments on this server")
    elif whole_on_record:
        not_verified.append("tool and arguments: the record does not name the server id that was signed with them")
    else:
        not_verified.append(
            "tool and arguments: they are not on record whole; whoever has them gives them with --arguments FILE"
        )
    not_verified.append(
        f"whose passkey it is: that it is {proven.user}'s is the log's word; compare the fingerprint with the one in "
        "`callgate credentials list --all --json`"
    )
    not_verified.append("that the approval was fresh and used once: the gateway checked that in its store")
    return ReceiptApproval(proven, verified, not_verified)


def _print_json(done: Verified, approval: ReceiptApproval | None) -> None:
    import msgspec

    facts: dict[str, Any] = {"decision": done.decision, "outcome": done.outcome, "log": done.checkpoint.origin}
    shown = None
    if approval is not None:
        proven = msgspec.to_builtins(approval.proven)
        shown = {"proven": proven, "verified": approval.verified, "not_verified": approval.not_verified}
    print_json(
        {
            "ok": True,
            **msgspec.to_builtins(facts),
            "key": str(done.key),
            "key_given": done.key_given,
            "approval": shown,
        }
    )


def _print(done: Verified, approval: ReceiptApproval | None) -> None:
    decision = done.decision
    why = f" ({decision.reason})" if decision.reason else ""
    typer.echo(f"The receipt holds: call {plain(decision.call)} of {plain(decision.server)} / {plain(decision.tool)}")
    typer.echo(f"  {show_when(decision.at)}  {decision.verdict}{plain(why)}")
    if done.outcome is not None:
        typer.echo(f"  {show_when(done.outcome.at)}  {plain(done.outcome.outcome)}")
    typer.echo(f"  log {done.checkpoint.origin}, key {done.key.fingerprint}")
    if approval is not None:
        _print_approval(approval)
    if not done.key_given:
        say("Checked with the key in the receipt itself: compare its fingerprint with the log's, or give --key.")


def _print_approval(approval: ReceiptApproval) -> None:
    if approval.proven is not None:
        typer.echo(f"The approval holds: {plain(approval.proven.user)}, {plain(approval.proven.fingerprint)}")
    for text in approval.verified:
        typer.echo(f"  verified      {plain(text, 500)}")
    for text in approval.not_verified:
        typer.echo(f"  not verified  {plain(text, 500)}")


# -- files -----------------------------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes:
    from callgate.audit.receipt import MAX_RECEIPT

    try:
        with path.open("rb") as file:
            return file.read(MAX_RECEIPT + 1)
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}", advice="Name the right file.") from None


def read_text(path: Path) -> str:
    return read_bytes(path).decode("utf-8", "replace")


def approval_of(decision: DecisionRecord) -> dict[str, Any] | None:
    """What is on record of the signature that let a call through; None where there is none."""
    from callgate.approval.proof import is_proof

    facts = (decision.extra or {}).get("approval")
    return facts if decision.verdict == "allow" and is_proof(facts) else None


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
    """One line on who approved a call; empty where nobody had to. What the store still knows is put in."""
    facts = approval_of(decision)
    if facts is None:
        return ""
    passkey, at = asyncio.run(_looked_up(facts, store))
    when = show_when(decision.at if at is None else at)
    words = (facts.get("user", "?"), passkey or facts.get("credential", "?"), facts.get("origin", "?"))
    user, key, origin = (plain(str(word)) for word in words)
    return f"approved by {user} with passkey {key} at {when} on {origin}"


async def _looked_up(facts: dict[str, Any], store: Store) -> tuple[str, int | None]:
    """The passkey's name, and when its person signed: on the page that is before the call was let through."""
    from callgate.store import SqlShelf

    shelf = SqlShelf(store)
    passkey, request = facts.get("credential"), facts.get("request")
    held = await shelf.credential(passkey) if isinstance(passkey, str) else None
    asked = await shelf.request(request) if isinstance(request, str) else None
    return "" if held is None else held.name, None if asked is None else asked.decided_at
