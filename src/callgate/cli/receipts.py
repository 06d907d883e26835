"""What a receipt proves: the call's place in the log, and the passkey's signature over it if a person approved it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from callgate.cli.common import print_json, say
from callgate.cli.people import plain
from callgate.cli.when import show_when

if TYPE_CHECKING:
    from callgate.approval.proof import Proven
    from callgate.audit import DecisionRecord
    from callgate.audit.receipt import VerifiedReceipt


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


class Approval:
    """What can be said of the approval on record, and what cannot."""

    def __init__(self, proven: Proven | None, verified: list[str], not_verified: list[str]) -> None:
        self.proven = proven
        self.verified = verified
        self.not_verified = not_verified


def approval_in(decision: DecisionRecord, given: bytes | None) -> Approval | None:
    """The approval that let a call through, verified; None where the record has none.

    `given` are the call's arguments as JSON; they have to be the ones on record.
    """
    from callgate.approval.proof import check_proof, is_proof
    from callgate.approval.webauthn import MalformedResponse, NotVerified
    from callgate.errors import Tampered

    form = None if given is None else _given(decision, given)
    facts = (decision.extra or {}).get("approval")
    if facts is None or decision.verdict != "allow":
        return None
    if not is_proof(facts):
        return Approval(None, [], ["the approval: the record holds no passkey's signature for it"])
    form = _on_record(decision) if form is None else form
    try:
        proven = check_proof(facts, decision.tool, form)
    except (MalformedResponse, NotVerified) as error:
        raise Tampered(
            f"the approval in the receipt does not hold: {error}",
            advice="Whoever runs this log let a call through, or wrote down, what no passkey signed.",
        ) from None
    return _account(proven, whole_on_record=form is not None)


def _given(decision: DecisionRecord, text: bytes) -> bytes:
    """The RFC 8785 form of arguments that somebody gives, if they are the ones on record."""
    import msgspec

    from callgate.audit.arguments import matches
    from callgate.canonical import canonical
    from callgate.errors import AuditError, CallgateError

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
    from callgate.errors import Tampered

    stored = decision.arguments
    if stored.mode == "hashed" or stored.hash is not None:
        return None
    if not matches(stored.value, stored, decision.args_hash):
        raise Tampered(
            "the arguments on record are not the ones that were hashed",
            advice="Do not rely on this receipt; ask whoever gave it to you for another one from the log.",
        )
    return canonical(stored.value)


def _account(proven: Proven, *, whole_on_record: bool) -> Approval:
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
    return Approval(proven, verified, not_verified)


def _print_json(done: VerifiedReceipt, approval: Approval | None) -> None:
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


def _print(done: VerifiedReceipt, approval: Approval | None) -> None:
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


def _print_approval(approval: Approval) -> None:
    if approval.proven is not None:
        typer.echo(f"The approval holds: {plain(approval.proven.user)}, {plain(approval.proven.fingerprint)}")
    for text in approval.verified:
        typer.echo(f"  verified      {plain(text, 500)}")
    for text in approval.not_verified:
        typer.echo(f"  not verified  {plain(text, 500)}")


# -- files -----------------------------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes:
    from callgate.audit.receipt import MAX_RECEIPT
    from callgate.errors import AuditError

    try:
        with path.open("rb") as file:
            return file.read(MAX_RECEIPT + 1)
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}", advice="Name the right file.") from None


def read_text(path: Path) -> str:
    return read_bytes(path).decode("utf-8", "replace")
