"""Signed checkpoints: C2SP signed-note and tlog-checkpoint, with Ed25519.

The text of a checkpoint is origin, size and root, then one extension line `time MILLISECONDS`, so that when it was
signed is signed too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from callgate.audit.merkle import HASH, MAX_SIZE
from callgate.audit.storage import LogKeys
from callgate.errors import AuditError, Tampered

MAX_NOTE: Final = 16_384
_ED25519: Final = b"\x01"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}\Z")
_NAME: Final = re.compile(r"[^\s+]{1,255}\Z")
_DASH: Final = "\u2014 "
_KEYS_FOLDER: Final = (
    "Set store.keys_dir to the keys folder that belongs to this store, or give its keys as CALLGATE_KEY_CHECKPOINT."
)


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key under the name of the log it signs (signed-note, "vkey")."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """signed-note: SHA-256(name || 0x0A || 0x01 || key), first four bytes."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(_ED25519 + self.public).decode()}"

    @property
    def fingerprint(self) -> str:
        """For people who compare keys by eye."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.public).digest()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        try:
            raw = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if not _NAME.match(name) or len(raw) != 33 or raw[:1] != _ED25519:
            raise AuditError(
                "that is not a public key of a log",
                advice="A key looks like NAME+HASH+BASE64; `callgate keys export` prints it.",
            )
        key = cls(name, raw[1:])
        if key.id.hex() != key_id:
            raise AuditError("the key's hash does not fit the key", advice="Copy it again with `callgate keys export`.")
        return key


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


def parse(note: str) -> Checkpoint:
    """The checkpoint in a note, its signatures not looked at."""
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise Tampered("the checkpoint is not a note")
    text, separator, _ = note.partition("\n\n")
    lines = text.split("\n")
    if not separator or len(lines) != 4 or not _NAME.match(lines[0]) or not _NUMBER.match(lines[1]):
        raise Tampered("the checkpoint is not origin, size, root and time")
    try:
        root = base64.b64decode(lines[2], validate=True)
    except (binascii.Error, ValueError):
        root = b""
    word, _, at = lines[3].partition(" ")
    if len(root) != HASH or word != "time" or not _NUMBER.match(at) or int(lines[1]) > MAX_SIZE:
        raise Tampered("the checkpoint is not origin, size, root and time")
    checkpoint = Checkpoint(lines[0], int(lines[1]), root, int(at))
    if checkpoint.text() != text + "\n":
        raise Tampered("the checkpoint is not in its one canonical form")
    return checkpoint


def names_one_of(note: str, keys: Iterable[bytes]) -> bool:
    """Whether a note claims a signature by one of these keys; whether it holds is for `verify`."""
    origin = parse(note).origin
    known = {VerifierKey(origin, public).id for public in keys}
    lines = (_signature(line) for line in note.partition("\n\n")[2].rstrip("\n").split("\n"))
    return any(name == origin and key_id in known for name, key_id, _ in lines)


def verify(note: str, keys: Iterable[bytes], *, advice: str = _KEYS_FOLDER) -> tuple[Checkpoint, VerifierKey]:
    """The checkpoint of a note that one of these keys has signed, and that key.

    Lines by other keys (witnesses) are allowed; a wrong signature under one of ours is not. `advice` is for a note
    that none of the keys has signed.
    """
    checkpoint = parse(note)
    known = {key.id: key for key in (VerifierKey(checkpoint.origin, public) for public in keys)}
    text, _, tail = note.partition("\n\n")
    signed = (text + "\n").encode()
    if not tail.endswith("\n"):
        raise Tampered("the checkpoint's signature is cut off")
    good: VerifierKey | None = None
    for line in tail[:-1].split("\n"):
        name, key_id, signature = _signature(line)
        key = known.get(key_id) if name == checkpoint.origin else None
        if key is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature, signed)
        except InvalidSignature:
            raise Tampered("the checkpoint's signature is wrong") from None
        good = good or key
    if good is None:
        raise Tampered("the checkpoint is not signed by a known key", advice=advice)
    return checkpoint, good


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


def note_checkpoint(keyring: LogKeys, signed: str) -> None:
    """Note a checkpoint, unless a later one is noted already."""
    checkpoint = parse(signed)
    place = noted_path(keyring, checkpoint.origin)
    if place is None or not place.parent.is_dir():
        return
    try:
        earlier = noted_checkpoint(keyring, checkpoint.origin)
        if earlier is not None and parse(earlier).size > checkpoint.size:
            return
    except (Tampered, UnicodeDecodeError):
        pass  # half a file or another's: the new one is better
    try:
        draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(signed)
        draft.replace(place)
    except OSError as error:
        # The checkpoint itself is in the store; without the note, only a store put back whole goes unnoticed.
        log.warning("the checkpoint cannot be noted in %s: %s", place.parent, error.strerror)
