"""What was installed where: for each file how it was before, how we left it, and where its backup is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from callgate.clients.entries import Pointer
from callgate.clients.wrapping import Hint
from callgate.errors import ConfigError

FOLDER: Final = "installed"
_MAX_BYTES: Final = 2**20
_RECORDS_MAX: Final = 1000


class Record(NamedTuple):
    """One file that we changed: hashes before and after, its backup, and the servers that we put the gate before."""

    file: Path
    client: str
    backup: Path
    before: str
    after: str
    at: str
    servers: Mapping[Pointer, Hint]


class Records:
    """The records of this user, one small file each, so that two installs at once do not lose one another's."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def get(self, file: Path) -> Record | None:
        return _read(self._place(file))

    def all(self) -> list[Record]:
        try:
            found = sorted(self._folder.glob("*.json"))[:_RECORDS_MAX]
        except OSError:
            return []
        return [record for path in found if (record := _read(path)) is not None]

    def put(self, record: Record) -> None:
        value = record._asdict() | {
            "file": str(record.file),
            "backup": str(record.backup),
            "servers": [[*pointer, list(hint)] for pointer, hint in record.servers.items()],
        }
        place = self._place(record.file)
        fresh = place.with_name(f".{place.name}-{secrets.token_hex(6)}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
                json.dump(value, out, indent=2)
            fresh.replace(place)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise ConfigError(
                f"{self._folder}: cannot be written: {error.strerror}",
                advice="What is installed is remembered there. Make it writable and run the command again.",
            ) from None

    def drop(self, file: Path) -> None:
        with contextlib.suppress(OSError):
            self._place(file).unlink()

    def _place(self, file: Path) -> Path:
        return self._folder / f"{hashlib.sha256(str(file).encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _read(path: Path) -> Record | None:
    """A record, or None if there is none or somebody spoilt it: then the entries themselves say what to undo."""
    try:
        with path.open("rb") as file:
            value: Any = json.loads(file.read(_MAX_BYTES))
        words = [value[key] for key in ("client", "before", "after", "at")]
        servers = {tuple(row[:-1]): Hint(*row[-1]) for row in value["servers"]}
        if not all(isinstance(word, str) for word in words):
            return None
        client, before, after, at = words
        return Record(Path(value["file"]), client, Path(value["backup"]), before, after, at, servers)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, IndexError):
        return None
