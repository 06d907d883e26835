"""A receipt: everything needed to prove one call to someone who has nothing else.

One JSON document: the exact bytes of the decision and, if there is one, of the outcome; for each its place in the
tree and the path to the root; the signed checkpoint; the log's public keys.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, TypeVar

import msgspec

from callgate.audit import merkle, note, proofs, records
from callgate.audit.records import DECISION, OUTCOME, DecisionRecord, OutcomeRecord
from callgate.audit.storage import Tables
from callgate.errors import AuditError, Tampered

FORMAT: Final = "callgate-receipt/1"
Kind = TypeVar("Kind", DecisionRecord, OutcomeRecord)
MAX_RECEIPT: Final = 128 * 2**20
_ASK: Final = "Ask the log's operator for its keys (`callgate keys export`) and give the one that signed with --key."


class RecordProof(msgspec.Struct, frozen=True):
    """One record: readable, exact, and where it is in the tree."""

    record: Any
    body: str
    leaf: int
    path: list[str]


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document."""

    format: str
    call: str
    decision: RecordProof
    outcome: RecordProof | None
    checkpoint: str
    keys: list[str]


class VerifiedReceipt(msgspec.Struct, frozen=True):
    """What a receipt that holds says, and under which key."""

    decision: DecisionRecord
    outcome: OutcomeRecord | None
    checkpoint: note.Checkpoint
    key: note.VerifierKey
    key_given: bool


def make(tables: Tables, call: str, public_keys: list[bytes]) -> Receipt:
    """The receipt of a call whose records are in the tree."""
    found: dict[int, tuple[RecordProof, str]] = {}
    for record, kind, body in tables.of_call(call):
        if kind not in found:
            found[kind] = _proof(tables, record, body)
    if DECISION not in found:
        raise AuditError(f"no decision on call {call} is on record", advice="`callgate audit list` shows the calls.")
    decision, signed = found[DECISION]
    outcome = found.get(OUTCOME)
    origin = note.parse(signed).origin
    keys = [str(note.VerifierKey(origin, public)) for public in public_keys]
    return Receipt(FORMAT, call, decision, outcome and outcome[0], signed, keys)


def _proof(tables: Tables, record: int, body: bytes) -> tuple[RecordProof, str]:
    proof = proofs.inclusion(tables, record)
    path = [base64.b64encode(step).decode() for step in proof.path]
    return RecordProof(msgspec.Raw(body), base64.b64encode(body).decode(), proof.leaf, path), proof.note


def encode(receipt: Receipt) -> bytes:
    return msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"


def verify(document: bytes, key: note.VerifierKey | None = None) -> VerifiedReceipt:
    """Check a receipt, offline; without `key`, against the keys it brings along."""
    if len(document) > MAX_RECEIPT:
        raise AuditError("the file is too large for a receipt", advice="Give one made by `callgate audit receipt`.")
    try:
        receipt = msgspec.json.decode(document, type=Receipt)
    except msgspec.MsgspecError as error:
        raise AuditError(
            f"this is not a receipt: {error}", advice="Give a file made by `callgate audit receipt`."
        ) from None
    if receipt.format != FORMAT:
        raise AuditError(f"receipt of unknown format {receipt.format!r}", advice="Use a newer Callgate.")
    origin = note.parse(receipt.checkpoint).origin
    keys = [note.VerifierKey.parse(text) for text in receipt.keys] if key is None else [key]
    if any(one.name != origin for one in keys):
        raise Tampered(
            f"the receipt is of log {origin}, the key is of another",
            advice="Ask the log's operator for its key (`callgate keys export`).",
        )
    checkpoint, signer = note.verify(receipt.checkpoint, [one.public for one in keys], advice=_ASK)
    decision = _record(receipt.decision, receipt.call, checkpoint, DecisionRecord)
    outcome = None
    if receipt.outcome is not None:
        outcome = _record(receipt.outcome, receipt.call, checkpoint, OutcomeRecord)
    return VerifiedReceipt(decision, outcome, checkpoint, signer, key is not None)


def _record(proof: RecordProof, call: str, checkpoint: note.Checkpoint, kind: type[Kind]) -> Kind:
    try:
        body = base64.b64decode(proof.body, validate=True)
        path = [base64.b64decode(step, validate=True) for step in proof.path]
        record = records.decode(body)
        readable = msgspec.json.decode(body)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise Tampered(f"the receipt's {kind.__name__} cannot be read: {error}") from None
    if not isinstance(record, kind) or record.call != call or readable != proof.record:
        raise Tampered(f"the receipt's readable text and its exact bytes tell two stories ({kind.__name__})")
    if not merkle.includes(merkle.leaf_hash(body), proof.leaf, checkpoint.size, path, checkpoint.root):
        raise Tampered(f"the receipt's {kind.__name__} is not in the log under this checkpoint")
    return record
