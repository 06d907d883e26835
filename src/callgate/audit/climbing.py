"""The proof of one record told step by step: for people who want to see that it holds, and follow it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from callgate.audit import merkle, note, proofs
from callgate.audit.storage import Tables
from callgate.errors import Tampered


class Step(msgspec.Struct, frozen=True):
    """One level up: the hash that is put beside what was reached, on which side, and what comes out."""

    side: Literal["left", "right"]
    beside: bytes
    result: bytes


class Climb(msgspec.Struct, frozen=True):
    """From a record's bytes up to the root that the log's key has signed."""

    record: int
    leaf: int
    leaf_hash: bytes
    steps: tuple[Step, ...]
    checkpoint: note.Checkpoint
    key: note.VerifierKey
    holds: bool


def climb(tables: Tables, record: int, body: bytes, public_keys: list[bytes]) -> Climb:
    """The proof of a record that is in the tree, checked; raises `Tampered` where the checkpoint is not signed."""
    proof = proofs.inclusion(tables, record)
    checkpoint, key = note.verify(proof.note, public_keys)
    start = merkle.leaf_hash(body)
    steps = tuple(_steps(start, proof.leaf, checkpoint.size, proof.path))
    holds = merkle.includes(start, proof.leaf, checkpoint.size, proof.path, checkpoint.root)
    if holds and (steps[-1].result if steps else start) != checkpoint.root:
        raise Tampered("the proof holds, and its steps lead elsewhere")
    return Climb(record, proof.leaf, start, steps, checkpoint, key, holds)


def _steps(start: bytes, leaf: int, size: int, path: Sequence[bytes]) -> list[Step]:
    """RFC 9162 §2.1.3.2, with every hash on the way kept."""
    fn, sn, reached, steps = leaf, size - 1, start, list[Step]()
    for beside in path:
        if fn & 1 or fn == sn:
            reached = merkle.node_hash(beside, reached)
            steps.append(Step("left", beside, reached))
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            reached = merkle.node_hash(reached, beside)
            steps.append(Step("right", beside, reached))
        fn, sn = fn >> 1, sn >> 1
    return steps
