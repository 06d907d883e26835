"""Signed checkpoints: C2SP signed-note, tlog-checkpoint and tlog-cosignature, with Ed25519.

The text of a checkpoint is origin, size and root, then one extension line `time MILLISECONDS`, so that when it was
signed is signed too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from callgate.audit.merkle import HASH, MAX_SIZE
from callgate.audit.storage import LogKeys
from callgate.errors import AuditError, Tampered
from callgate.files import write_beside

MAX_NOTE: Final = 16_384
# signed-note "signature types", and tlog-cosignature "Format": what a key signs is part of its id.
LOG: Final = 0x01
WITNESS: Final = 0x04
_COSIGNED: Final = b"cosignature/v1\ntime %d\n"
_LAST_SECOND: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}\Z")
_NAME: Final = re.compile(r"[^\s+]{1,255}\Z")
_DASH: Final = "\u2014 "
_KEYS_FOLDER: Final = (
    "Set store.keys_dir to the keys folder that belongs to this store, or give its keys as CALLGATE_KEY_CHECKPOINT."
)


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key under the name of the log it signs, or of the witness who cosigns (signed-note, "vkey")."""

    name: str
    public: bytes
    kind: int = LOG

    @property
    def id(self) -> bytes:
        """signed-note: SHA-256(name || 0x0A || type || key), first four bytes."""
        return hashlib.sha256(self.name.encode() + b"\n" + self._typed).digest()[:4]

    @property
    def _typed(self) -> bytes:
        return bytes((self.kind,)) + self.public

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(self._typed).decode()}"

    @property
    def fingerprint(self) -> str:
        """For people who compare keys by eye."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.public).digest()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, kind: int = LOG) -> VerifierKey:
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        try:
            raw = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        whose, command = ("log", "callgate keys export") if kind == LOG else ("witness", "callgate witness key")
        if not _NAME.match(name) or len(raw) != 33 or raw[0] != kind or base64.b64encode(raw).decode() != encoded:
            raise AuditError(
                f"that is not a public key of a {whose}",
                advice=f"A key looks like NAME+HASH+BASE64; `{command}` prints it.",
            )
        key = cls(name, raw[1:], kind)
        if key.id.hex() != key_id:
            raise AuditError("the key's hash does not fit the key", advice=f"Copy it again with `{command}`.")
        return key


class NotedHead(msgspec.Struct, frozen=True):
    """What every log's checkpoint says (tlog-checkpoint), and its text, which is what is signed."""

    origin: str
    size: int
    root: bytes
    text: bytes


class Cosignature(msgspec.Struct, frozen=True):
    """That a witness has seen a head and nothing that contradicts it, as of `at` (seconds since 1970)."""

    witness: VerifierKey
    at: int


class Checkpoint(msgspec.Struct, frozen=True):
    """The head of a tree at one moment."""

    origin: str
    size: int
    root: bytes
    at: int

    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\ntime {self.at}\n"


def sign(checkpoint: Checkpoint, key: Ed25519PrivateKey) -> str:
    """The signed note for a checkpoint."""
    text = checkpoint.text()
    name = VerifierKey(checkpoint.origin, key.public_key().public_bytes_raw())
    signature = base64.b64encode(name.id + key.sign(text.encode())).decode()
    return f"{text}\n{_DASH}{checkpoint.origin} {signature}\n"


def read_head(note: str) -> NotedHead:
    """The head in a note of any log, its signatures not looked at (tlog-checkpoint "Note text")."""
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise Tampered("the checkpoint is not a note")
    text, separator, _ = note.partition("\n\n")
    lines = text.split("\n")
    if not separator or len(lines) < 3 or not _NAME.match(lines[0]) or not _NUMBER.match(lines[1]):
        raise Tampered("the checkpoint is not origin, size and root")
    try:
        root = base64.b64decode(lines[2], validate=True)
        encoded = (text + "\n").encode()
    except (binascii.Error, ValueError):
        root = encoded = b""
    # A note is plain text, and has one spelling only.
    plain = not any(byte < 0x20 and byte != 0x0A for byte in encoded)
    if len(root) != HASH or base64.b64encode(root).decode() != lines[2] or not plain or int(lines[1]) > MAX_SIZE:
        raise Tampered("the checkpoint is not origin, size and root")
    return NotedHead(lines[0], int(lines[1]), root, encoded)


def parse(note: str) -> Checkpoint:
    """The checkpoint in a note of ours, its signatures not looked at."""
    head = read_head(note)
    extensions = head.text.decode().split("\n")[3:-1]
    word, _, at = extensions[0].partition(" ") if len(extensions) == 1 else ("", "", "")
    if word != "time" or not _NUMBER.match(at):
        raise Tampered("the checkpoint is not origin, size, root and time")
    return Checkpoint(head.origin, head.size, head.root, int(at))


def names_one_of(note: str, keys: Iterable[bytes]) -> bool:
    """Whether a note claims a signature by one of these keys; whether it holds is for `verify`."""
    origin = parse(note).origin
    known = {VerifierKey(origin, public).id for public in keys}
    return any(name == origin and key_id in known for name, key_id, _ in _signatures(note))


def verify(note: str, keys: Iterable[bytes], *, advice: str = _KEYS_FOLDER) -> tuple[Checkpoint, VerifierKey]:
    """The checkpoint of a note that one of these keys has signed, and that key.

    Lines by other keys (witnesses) are allowed; a wrong signature under one of ours is not. `advice` is for a note
    that none of the keys has signed.
    """
    checkpoint = parse(note)
    return checkpoint, check_signature(note, [VerifierKey(checkpoint.origin, public) for public in keys], advice=advice)


def is_signed(note: str, keys: Iterable[bytes]) -> bool:
    """Whether one of these keys has signed a note."""
    try:
        verify(note, keys)
    except Tampered:
        return False
    return True


def check_signature(note: str, keys: Iterable[VerifierKey], *, advice: str = _KEYS_FOLDER) -> VerifierKey:
    """The first of these keys of a log that has signed its note; Tampered where none has, or a signature is wrong."""
    head = read_head(note)
    known = {(key.name, key.id): key for key in keys if key.name == head.origin and key.kind == LOG}
    good: VerifierKey | None = None
    for name, key_id, signature in _signatures(note):
        key = known.get((name, key_id))
        if key is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature, head.text)
        except InvalidSignature:
            raise Tampered("the checkpoint's signature is wrong") from None
        good = good or key
    if good is None:
        raise Tampered("the checkpoint is not signed by a known key", advice=advice)
    return good


def cosign(note: str, name: str, key: Ed25519PrivateKey, at: int) -> str:
    """The line that a witness puts under a note, as of `at` (tlog-cosignature "Ed25519 signed message")."""
    witness = VerifierKey(name, key.public_key().public_bytes_raw(), WITNESS)
    signature = key.sign(_COSIGNED % at + read_head(note).text)
    return f"{_DASH}{name} {base64.b64encode(witness.id + at.to_bytes(8, 'big') + signature).decode()}\n"


def cosignatures(note: str, witnesses: Iterable[VerifierKey]) -> list[Cosignature]:
    """Which of these witnesses have cosigned a note, each once and by the newest line of theirs.

    Lines by others are left out; a wrong one in the name of a witness makes the note a false one.
    """
    text = read_head(note).text
    known = {(key.name, key.id): key for key in witnesses if key.kind == WITNESS}
    found: dict[bytes, Cosignature] = {}
    for name, key_id, raw in _signatures(note):
        key = known.get((name, key_id))
        if key is None:
            continue
        at = int.from_bytes(raw[:8], "big")
        try:
            # 64 bytes of signature: `verify` refuses every other length.
            Ed25519PublicKey.from_public_bytes(key.public).verify(raw[8:], _COSIGNED % at + text)
        except InvalidSignature:
            raise Tampered(f"the cosignature of {name} is wrong") from None
        if not 0 < at <= _LAST_SECOND:
            raise Tampered(f"the cosignature of {name} has no time")
        # By the key, not by the name: one key under two names is one witness.
        if key.public not in found or found[key.public].at < at:
            found[key.public] = Cosignature(key, at)
    return list(found.values())


def cosigners(note: str) -> list[str]:
    """Whose lines a note has beside those in the log's own name; nothing is checked."""
    origin = read_head(note).origin
    return [name for name, _, _ in _signatures(note) if name != origin]


def with_lines(note: str, lines: str) -> str:
    """A note with more signature lines, those that it has already left out."""
    have = note.partition("\n\n")[2].split("\n")
    return note + "".join(f"{line}\n" for line in dict.fromkeys(lines.split("\n")) if line and line not in have)


def signature_lines(note: str, names: Iterable[str]) -> str:
    """The lines of a note in these names."""
    wanted = set(names)
    lines = note.partition("\n\n")[2].split("\n")
    return "".join(f"{line}\n" for line in lines if line and _signature(line)[0] in wanted)


def lines_of(note: str, key: VerifierKey) -> str:
    """The lines of a note by this key."""
    lines = note.partition("\n\n")[2].split("\n")
    return "".join(f"{line}\n" for line in lines if line and _signature(line)[:2] == (key.name, key.id))


def _signatures(note: str) -> list[tuple[str, bytes, bytes]]:
    tail = note.partition("\n\n")[2]
    if not tail.endswith("\n"):
        raise Tampered("the checkpoint's signature is cut off")
    return [_signature(line) for line in tail[:-1].split("\n")]


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    # Decoding forgives unused bits; a note has one spelling only.
    if not line.startswith(_DASH) or len(raw) < 5 or base64.b64encode(raw).decode() != encoded:
        raise Tampered("the checkpoint has a line that is no signature")
    return name, raw[:4], raw[4:]


log = logging.getLogger(__name__)

_MOST_ORIGIN: Final = 1024


def noted_path(keyring: LogKeys, origin: str) -> Path | None:
    """Where the checkpoint of this log is noted, None if the keys have no folder."""
    if keyring.directory is None:
        return None
    return keyring.directory / f"noted.{origin.replace('/', '-')}.checkpoint"


def noted_checkpoint(keyring: LogKeys, origin: str) -> str | None:
    """The noted checkpoint of a log."""
    place = noted_path(keyring, origin)
    if place is None or not place.exists():
        return None
    with place.open(encoding="utf-8") as file:
        return file.read(MAX_NOTE + 1)


def noted_head(keyring: LogKeys, origin: str) -> Checkpoint | None:
    """The same as what it says; None where nothing is noted, or half a file, or another's."""
    try:
        signed = noted_checkpoint(keyring, origin)
        return None if signed is None else verify(signed, keyring.public_keys())[0]
    except (Tampered, UnicodeDecodeError):
        return None


def log_path(keyring: LogKeys, place: str) -> Path | None:
    """Where it is noted which log a store holds; several stores may use one folder of keys."""
    if keyring.directory is None or not place:
        return None
    return keyring.directory / f"log.{hashlib.sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.origin"


def noted_log(keyring: LogKeys, place: str) -> str | None:
    """The origin of the log that the store at this place held last; None where nothing is noted."""
    path = log_path(keyring, place)
    if path is None or not path.exists():
        return None
    return path.read_bytes()[:_MOST_ORIGIN].decode("utf-8", "replace").strip() or None


def note_log(keyring: LogKeys, place: str, origin: str) -> None:
    """Note which log a store holds: a store that was emptied, or has another log, is found by it."""
    path = log_path(keyring, place)
    if path is None or not path.parent.is_dir():
        return
    try:
        write_beside(path, f"{origin}\n".encode()).replace(path)
    except OSError as error:
        log.warning("which log the store holds cannot be noted in %s: %s", path.parent, error.strerror)


def note_checkpoint(keyring: LogKeys, signed: str, *, back: bool = False) -> None:
    """Note a checkpoint that is proved to continue what is noted, unless a later one is noted already; with `back` an
    operator has accepted that it does not continue it."""
    checkpoint = parse(signed)
    place = noted_path(keyring, checkpoint.origin)
    if place is None or not place.parent.is_dir():
        return
    earlier = noted_head(keyring, checkpoint.origin)
    if earlier is not None and earlier.size > checkpoint.size and not back:
        return
    try:
        write_beside(place, signed.encode()).replace(place)
    except OSError as error:
        # The checkpoint itself is in the store; without the note, only a store put back whole goes unnoticed.
        log.warning("the checkpoint cannot be noted in %s: %s", place.parent, error.strerror)
