"""A witness of logs (C2SP tlog-witness): it cosigns a head only if that is proved to continue the last one it cosigned.

It keeps one head for each log. Whether a new head may follow, and that it did, is one transaction in a file of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from callgate.audit import note
from callgate.audit.merkle import EMPTY_ROOT, HASH, MAX_SIZE, extends
from callgate.audit.note import WITNESS, NotedHead, VerifierKey
from callgate.errors import AuditError, Tampered

log = logging.getLogger(__name__)

MAX_PROOF: Final = 63
# The note, and 63 hashes of 45 characters.
MAX_REQUEST: Final = note.MAX_NOTE + 4096
SIZE_TYPE: Final = "text/x.tlog.size"
_TEXT: Final = "text/plain; charset=utf-8"
_OLD: Final = re.compile(r"old (0|[1-9][0-9]{0,18})\Z")
_BUSY_SECONDS: Final = 5.0


class WitnessAnswer(NamedTuple):
    """What a witness answers over HTTP."""

    status: int
    body: str
    kind: str = _TEXT


class WitnessRequest(msgspec.Struct, frozen=True):
    """A new head, and the proof that it continues the one of `old` records."""

    old: int
    proof: list[bytes]
    note: str

    def encode(self) -> bytes:
        lines = "".join(base64.b64encode(step).decode() + "\n" for step in self.proof)
        return f"old {self.old}\n{lines}\n{self.note}".encode()

    @classmethod
    def decode(cls, body: bytes) -> WitnessRequest:
        """Raises ValueError for what is none."""
        if len(body) > MAX_REQUEST:
            raise ValueError("the request is too large")
        top, separator, signed = body.decode().partition("\n\n")
        first, *steps = top.split("\n")
        found = _OLD.match(first)
        if not separator or found is None or len(steps) > MAX_PROOF or int(found[1]) > MAX_SIZE:
            raise ValueError("the request is not old size, proof and checkpoint")
        return cls(int(found[1]), [_hash(step) for step in steps], signed)


def _hash(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if len(raw) != HASH or base64.b64encode(raw).decode() != text:
        raise ValueError("a line of the proof is no hash")
    return raw


class WitnessFile:
    """What a witness has cosigned last of each log; several processes may share the file."""

    def __init__(self, path: Path, name: str, *, create: bool) -> None:
        self._path = path
        if not create and not path.is_file():
            raise AuditError(
                f"{path} is gone: this witness does not know any more what it has cosigned",
                advice="Put the file back. If it is lost, begin a new witness, with a new key, in another folder.",
            )
        with self._transaction() as db:
            db.execute("CREATE TABLE IF NOT EXISTS witness (name TEXT NOT NULL)")
            db.execute(
                "CREATE TABLE IF NOT EXISTS head (hash TEXT PRIMARY KEY, origin TEXT NOT NULL, size INTEGER NOT NULL, "
                "root BLOB NOT NULL, note TEXT NOT NULL)"
            )
            row = db.execute("SELECT name FROM witness").fetchone()
            if row is None:
                db.execute("INSERT INTO witness VALUES (?)", (name,))
            elif row[0] != name:
                raise AuditError(
                    f"this witness is {row[0]}, not {name}", advice=f"Give --name {row[0]}, or another --folder."
                )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def turn(self, origin: str) -> Iterator[LastHead]:
        """Be the only one who looks at and changes the head of this log."""
        key = origin_hash(origin)
        with self._transaction() as db:
            row = db.execute("SELECT size, root FROM head WHERE hash = ?", (key,)).fetchone()
            last = LastHead(*((0, EMPTY_ROOT) if row is None else row))
            yield last
            if last.new is not None:
                head, signed = last.new
                db.execute(
                    "INSERT INTO head VALUES (?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET "
                    "size = excluded.size, root = excluded.root, note = excluded.note",
                    (key, origin, head.size, head.root, signed),
                )

    def latest(self, key: str) -> str | None:
        """The last cosigned note of the log with this hash of its origin."""
        with self._transaction() as db:
            row = db.execute("SELECT note FROM head WHERE hash = ?", (key,)).fetchone()
        return None if row is None else str(row[0])


class LastHead:
    """The head that a witness cosigned last, and the one that takes its place, if any."""

    def __init__(self, size: int, root: bytes) -> None:
        self.size = size
        self.root = root
        self.new: tuple[NotedHead, str] | None = None


class Witness:
    """Answers requests; `logs` is asked for the keys of the logs that it knows, at each request."""

    def __init__(
        self,
        name: str,
        key: Ed25519PrivateKey,
        logs: Callable[[], Sequence[VerifierKey]],
        memory: WitnessFile,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.key = VerifierKey(name, key.public_key().public_bytes_raw(), WITNESS)
        self._signer = key
        self._logs = logs
        self._memory = memory
        self._clock = clock

    def latest(self, origin_hash: str) -> WitnessAnswer:
        """tlog-witness "Monitor Retrieval Mechanism"."""
        found = self._memory.latest(origin_hash)
        return WitnessAnswer(404, "nothing of this log was cosigned\n") if found is None else WitnessAnswer(200, found)

    def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """tlog-witness "add-checkpoint"."""
        try:
            asked = WitnessRequest.decode(body)
            head = note.read_head(asked.note)
        except (ValueError, Tampered) as error:
            return WitnessAnswer(400, f"{error}\n")
        known = [key for key in self._logs() if key.name == head.origin]
        if not known:
            return WitnessAnswer(404, "this log is not known here\n")
        if any(key.public == self.key.public for key in known):
            # What a log signs must never be taken for what a witness signs.
            return WitnessAnswer(403, "the log's key is the witness's own\n")
        try:
            signer = note.check_signature(asked.note, known)
        except Tampered as error:
            return WitnessAnswer(403, f"{error}\n")
        if asked.old > head.size:
            return WitnessAnswer(400, "the old size is larger than the new one\n")
        with self._memory.turn(head.origin) as last:
            return self._follow(asked, head, signer, last)

    def _follow(self, asked: WitnessRequest, head: NotedHead, signer: VerifierKey, last: LastHead) -> WitnessAnswer:
        if asked.old != last.size:
            if head.size < last.size:
                log.warning("%s shows %d records after %d", head.origin, head.size, last.size)
            return WitnessAnswer(409, f"{last.size}\n", SIZE_TYPE)
        if not extends(last.size, head.size, last.root, head.root, asked.proof):
            log.critical("%s HAS SIGNED A HEAD THAT DOES NOT CONTINUE ITS LOG:\n%s", head.origin, asked.note)
            return WitnessAnswer(422, "the head does not continue the last one that was cosigned here\n")
        line = note.cosign(asked.note, self.key.name, self._signer, int(self._clock()))
        # Of the lines that came along, only the log's own: nobody may have others kept or shown in our name.
        own = note.signature_lines(asked.note, [signer.name])
        last.new = (head, f"{head.text.decode()}\n{own}{line}")
        return WitnessAnswer(200, line)


def origin_hash(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()
