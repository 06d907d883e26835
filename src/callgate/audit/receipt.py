"""A receipt: everything needed to prove one call to someone who has nothing else.

One JSON document: what happened in a few sentences; the exact bytes of the decision and, if there is one, of the
outcome; for each its place in the tree and the path to the root; the signed checkpoint, with the cosignatures of
witnesses; the log's public key.

Every member is covered: one that was changed makes the receipt a false one. What a verifier does not know makes it
refuse, so a new member needs a new `format`. What stands inside a record may grow.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from callgate.audit import merkle, note, proofs, records
from callgate.audit.cosigning import Witnesses, cosigned_head
from callgate.audit.records import DECISION, OUTCOME, DecisionRecord, OutcomeRecord
from callgate.audit.storage import Tables
from callgate.errors import AuditError, NotInTree, Tampered
from callgate.protocol import DEVICE

FORMAT: Final = "callgate-receipt/2"
Kind = TypeVar("Kind", DecisionRecord, OutcomeRecord)
MAX_RECEIPT: Final = 128 * 2**20
_ASK: Final = "Ask the log's operator for its keys (`callgate keys export`) and give the one that signed with --key."
_LEAF: Final = re.compile(r"(0|[1-9][0-9]{0,18})\Z")


class RecordProof(msgspec.Struct, frozen=True):
    """One record: readable, exact, and where it is in the tree."""

    record: Any
    body: str
    leaf: int
    path: list[str]


class Receipt(msgspec.Struct, frozen=True):
    """The document."""

    format: str
    call: str
    summary: list[str]
    decision: RecordProof
    outcome: RecordProof | None
    checkpoint: str
    key: str


class VerifiedReceipt(msgspec.Struct, frozen=True):
    """What a receipt that holds says, under which key, and which witnesses have cosigned it."""

    decision: DecisionRecord
    outcome: OutcomeRecord | None
    checkpoint: note.Checkpoint
    key: note.VerifierKey
    key_given: bool
    summary: list[str]
    cosigned: list[note.Cosignature]
    quorum: int
    # Whose lines stand under the checkpoint without having been checked.
    unchecked: list[str]


def summary(decision: DecisionRecord, outcome: OutcomeRecord | None) -> list[str]:
    """A receipt in a few sentences; every verifier makes the same ones from the records."""
    reason = f" ({decision.reason})" if decision.reason else ""
    lines = [
        f"Call {decision.call}: {decision.tool} of {decision.server}",
        f"Decided: {decision.verdict}{reason}, {_moment(decision.at)}",
        f"Arguments: {decision.arguments.mode}",
    ]
    extra = decision.extra or {}
    approval, trust = extra.get("approval"), extra.get("trust")
    if isinstance(approval, dict) and decision.verdict == "allow":
        several = approval.get("signatures")
        for one in several if isinstance(several, list) else [approval]:
            user = one.get("user") if isinstance(one, dict) else None
            if isinstance(user, str):
                grant = one.get("grant")
                beforehand = f"Granted beforehand by: {user}, grant {grant}"
                lines.append(beforehand if isinstance(grant, str) else f"Approved by: {user}{_how(one)}")
    rule = trust.get("rule") if isinstance(trust, dict) else None
    if isinstance(rule, str) and rule:
        lines.append(f"Rule: {rule}")
    ended = "not in this receipt" if outcome is None else f"{outcome.outcome}, {_moment(outcome.at)}"
    return [*lines, f"Outcome: {ended}"]


def _how(approval: dict[str, Any]) -> str:
    """What is said of an approval beside whose it is: that it was given without a passkey."""
    device = approval.get("device")
    if approval.get("method") != DEVICE or not isinstance(device, str):
        return ""
    return f", on the device “{device}”, without a passkey"


def _moment(at: int) -> str:
    try:
        moment = datetime.fromtimestamp(at // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise Tampered("the receipt names a time that there is not") from None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def make(tables: Tables, call: str, public_keys: list[bytes], witnesses: Witnesses | None = None) -> Receipt:
    """The receipt of a call whose records are in the tree; under a head that enough witnesses have cosigned, if one
    contains the call already."""
    found: dict[int, tuple[int, bytes]] = {}
    for record, kind, body in tables.of_call(call):
        found.setdefault(kind, (record, body))
    if DECISION not in found:
        raise AuditError(f"no decision on call {call} is on record", advice="`callgate audit list` shows the calls.")
    cosigned = None if witnesses is None else cosigned_head(tables, witnesses)
    if cosigned is not None:
        try:
            return _under(tables, call, found, public_keys, cosigned.note)
        except NotInTree:
            pass
    return _under(tables, call, found, public_keys, _head_with_lines(tables))


def _head_with_lines(tables: Tables) -> str | None:
    head = tables.head()
    kept = None if head is None else tables.archived_at(head.size, note.parse(head.note).at)
    return None if kept is None else kept.note


def _under(
    tables: Tables, call: str, found: dict[int, tuple[int, bytes]], public_keys: list[bytes], signed: str | None
) -> Receipt:
    decision, under = _proof(tables, *found[DECISION], signed)
    outcome = _proof(tables, *found[OUTCOME], signed)[0] if OUTCOME in found else None
    key = note.verify(under, public_keys)[1]
    decided = records.decode(found[DECISION][1])
    ended = records.decode(found[OUTCOME][1]) if OUTCOME in found else None
    if not isinstance(decided, DecisionRecord) or not isinstance(ended, OutcomeRecord | None):
        raise Tampered("a record of the call is of another kind than it says", advice="Run `callgate audit verify`.")
    return Receipt(FORMAT, call, summary(decided, ended), decision, outcome, under, str(key))


def _proof(tables: Tables, record: int, body: bytes, signed: str | None) -> tuple[RecordProof, str]:
    proof = proofs.inclusion(tables, record, signed)
    path = [base64.b64encode(step).decode() for step in proof.path]
    return RecordProof(msgspec.Raw(body), base64.b64encode(body).decode(), proof.leaf, path), proof.note


def encode(receipt: Receipt) -> bytes:
    return msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"


class _Number(str):
    """A number as it is written: 1, 1.0 and true are three things."""

    __slots__ = ()


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a member is there twice")
    return found


def _constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _read(text: bytes) -> Any:
    """JSON, strictly: no member twice, numbers as they are written; ValueError for everything else."""
    try:
        return json.loads(
            text.decode(), object_pairs_hook=_object, parse_int=_Number, parse_float=_Number, parse_constant=_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def verify(document: bytes, key: note.VerifierKey | None = None, witnesses: Witnesses | None = None) -> VerifiedReceipt:
    """Check a receipt, offline; without `key`, against the key it brings along. With `witnesses`, enough of them have
    to have cosigned."""
    receipt = _receipt(document)
    origin = note.parse(receipt.checkpoint).origin
    own = _own_key(receipt.key)
    if own.name != origin or (key is not None and key.name != origin):
        raise Tampered(
            f"the receipt is of log {origin}, the key is of another",
            advice="Ask the log's operator for its key (`callgate keys export`).",
        )
    if key is not None and key.public != own.public:
        raise Tampered("the receipt is signed with another key than the one given", advice=_ASK)
    checkpoint, signer = note.verify(receipt.checkpoint, [own.public], advice=_ASK)
    cosigned = _cosigned(receipt.checkpoint, own, witnesses or Witnesses())
    decision = _record(receipt.decision, receipt.call, checkpoint, DecisionRecord)
    outcome = None
    if receipt.outcome is not None:
        outcome = _record(receipt.outcome, receipt.call, checkpoint, OutcomeRecord)
    if receipt.summary != summary(decision, outcome):
        raise Tampered("the receipt's summary and its exact bytes tell two stories")
    held = {one.witness.name for one in cosigned}
    unchecked = [name for name in dict.fromkeys(note.cosigners(receipt.checkpoint)) if name not in held]
    quorum = 0 if witnesses is None else witnesses.quorum
    return VerifiedReceipt(
        decision, outcome, checkpoint, signer, key is not None, receipt.summary, cosigned, quorum, unchecked
    )


def _cosigned(signed: str, own: note.VerifierKey, witnesses: Witnesses) -> list[note.Cosignature]:
    """The cosignatures that hold; Tampered where they are not enough."""
    if any(witness.public == own.public for witness in witnesses.keys):
        raise AuditError("the log cannot be its own witness", advice="Give the keys of others with --witness.")
    found = witnesses.count(signed)
    if len(found) < witnesses.quorum:
        raise Tampered(
            f"{len(found)} of these witnesses have cosigned it, and {witnesses.quorum} have to",
            advice="Ask for a receipt that the witnesses have cosigned; the log's operator makes one with "
            "`callgate audit receipt`.",
        )
    return found


def _own_key(text: str) -> note.VerifierKey:
    try:
        found = note.VerifierKey.parse(text)
    except AuditError:
        raise Tampered("the receipt's own key cannot be read") from None
    if str(found) != text:
        raise Tampered("the receipt's own key is not in its one canonical form")
    return found


def _receipt(document: bytes) -> Receipt:
    """The document, if it has every member that a receipt has and no other."""
    if len(document) > MAX_RECEIPT:
        raise AuditError("the file is too large for a receipt", advice="Give one made by `callgate audit receipt`.")
    try:
        found = _members(_read(document), Receipt)
        if found["format"] != FORMAT:
            raise AuditError(
                f"receipt of unknown format {found['format']!r}",
                advice="Use the Callgate that it was made with, or ask for a new one.",
            )
        said = found["summary"]
        texts = (found["call"], found["checkpoint"], found["key"], *(said if isinstance(said, list) else [None]))
        if not all(type(text) is str for text in texts):
            raise ValueError("a member that is text is something else")
        outcome = None if found["outcome"] is None else _read_proof(found["outcome"])
        return Receipt(**{**found, "decision": _read_proof(found["decision"]), "outcome": outcome})
    except ValueError as error:
        raise AuditError(
            f"this is not a receipt: {error}", advice="Give a file made by `callgate audit receipt`."
        ) from None


def _members(found: Any, kind: type[msgspec.Struct]) -> dict[str, Any]:
    if not isinstance(found, dict) or set(found) != set(kind.__struct_fields__):
        if isinstance(found, dict) and isinstance(found.get("format"), str) and found["format"] != FORMAT:
            return dict.fromkeys(kind.__struct_fields__) | {"format": found["format"]}
        raise ValueError("it has other members than a receipt")
    return found


def _read_proof(found: Any) -> RecordProof:
    members = _members(found, RecordProof)
    leaf, path = members["leaf"], members["path"]
    if not isinstance(leaf, _Number) or not _LEAF.match(leaf) or not isinstance(members["body"], str):
        raise ValueError("a record's place or body is none")
    if not isinstance(path, list) or not all(type(step) is str for step in path):
        raise ValueError("a record's path is none")
    return RecordProof(members["record"], members["body"], int(leaf), path)


def _record(proof: RecordProof, call: str, checkpoint: note.Checkpoint, kind: type[Kind]) -> Kind:
    try:
        body = _bytes(proof.body)
        path = [_bytes(step) for step in proof.path]
        record = records.decode(body)
        readable = _read(body)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise Tampered(f"the receipt's {kind.__name__} cannot be read: {error}") from None
    if not isinstance(record, kind) or record.call != call or not _same(readable, proof.record):
        raise Tampered(f"the receipt's readable text and its exact bytes tell two stories ({kind.__name__})")
    if not merkle.includes(merkle.leaf_hash(body), proof.leaf, checkpoint.size, path, checkpoint.root):
        raise Tampered(f"the receipt's {kind.__name__} is not in the log under this checkpoint")
    return record


def _bytes(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    # Decoding forgives unused bits; there is one spelling only.
    if base64.b64encode(raw).decode() != text:
        raise ValueError("base64 in another spelling")
    return raw
