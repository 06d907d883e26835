"""The last archived checkpoint, noted beside the keys.

The store alone cannot tell that it was put back to an earlier state, because that state was signed too. This file,
outside the store, can: `callgate audit verify` wants the log to contain what was noted.
"""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from callgate.audit import note
from callgate.audit.storage import Keys
from callgate.errors import Tampered

log = logging.getLogger(__name__)


def path(keyring: Keys, origin: str) -> Path | None:
    """Where the checkpoint of this log is noted, None if the keys have no folder."""
    if keyring.directory is None:
        return None
    return keyring.directory / f"noted.{origin.replace('/', '-')}.checkpoint"


def get(keyring: Keys, origin: str) -> str | None:
    """The noted checkpoint of a log."""
    place = path(keyring, origin)
    if place is None or not place.exists():
        return None
    with place.open(encoding="utf-8") as file:
        return file.read(note.MAX_NOTE + 1)


def put(keyring: Keys, signed: str) -> None:
    """Note a checkpoint, unless a later one is noted already."""
    checkpoint = note.parse(signed)
    place = path(keyring, checkpoint.origin)
    if place is None or not place.parent.is_dir():
        return
    try:
        earlier = get(keyring, checkpoint.origin)
        if earlier is not None and note.parse(earlier).size > checkpoint.size:
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
