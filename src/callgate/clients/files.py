"""Other programs' files, read and replaced with care, and what was installed where."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from callgate.clients.jsonc import MAX_BYTES, decode
from callgate.clients.plan import Hint
from callgate.clients.servers import Pointer
from callgate.errors import ConfigError
from callgate.files import settle, write_beside, write_new

_BACKUP: Final = ".callgate-backup"
_BACKUPS_MAX: Final = 100
_RETRY: Final = "Nothing in this file was changed."
FOLDER: Final = "installed"
_MAX_BYTES: Final = 2**20
_RECORDS_MAX: Final = 1000


class Source(NamedTuple):
    """A file as it was read. `target` is the file itself, where `path` is a link to it."""

    path: Path
    target: Path
    data: bytes
    mode: int
    owner: tuple[int, int]

    @property
    def text(self) -> str:
        return decode(self.data, str(self.path))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(path: Path, inside: Path | None = None) -> Source | None:
    """The file, or None if there is none. With `inside`, a link out of that folder is refused: a project that somebody
    else wrote must not choose which of your files is changed."""
    try:
        target = path.resolve(strict=True)
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path}: is a link to a file that is not there", advice="Put the link right.") from None
        return None
    except (OSError, RuntimeError) as error:
        raise _unreadable(path, error) from None
    if inside is not None and not target.is_relative_to(inside.resolve()):
        raise ConfigError(
            f"{path}: is a link that leads out of the project, to {target}",
            advice="Refused: a project must not choose which of your files is changed. Name the file itself with "
            "--config-file if you want it changed.",
        )
    return _read(path, target)


def _read(path: Path, target: Path) -> Source:
    # Not blocking: a pipe in the place of a file would let us wait for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        if not stat.S_ISREG(target.stat().st_mode):
            raise _not_a_file(path)
        handle = os.open(target, flags)
    except OSError as error:
        raise _unreadable(path, error) from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _not_a_file(path)
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: the file is larger than {MAX_BYTES} bytes", advice="Is this the right file?")
    return Source(path, target, data, stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def _not_a_file(path: Path) -> ConfigError:
    return ConfigError(f"{path}: is not a regular file", advice="A configuration is a plain file; look what this is.")


def _unreadable(path: Path, error: Exception) -> ConfigError:
    why = getattr(error, "strerror", None) or "the links lead in a circle"
    return ConfigError(f"{path}: cannot be read: {why}", advice="Make the file readable, or leave it out.")


def back_up(source: Source) -> Path:
    """A copy beside the file, for its owner alone."""
    for number in range(1, _BACKUPS_MAX):
        name = f"{source.target.name}{_BACKUP}" + (f"-{number}" if number > 1 else "")
        backup = source.target.with_name(name)
        try:
            write_new(backup, source.data, source.mode & 0o600, source.owner)
        except FileExistsError:
            continue
        except OSError as error:
            raise _unwritable(source.path, error) from None
        return backup
    raise ConfigError(
        f"{source.path}: has {_BACKUPS_MAX} backups already", advice=f"Clear away its {_BACKUP} files, and try again."
    )


def check_writable(source: Source) -> None:
    """Whether the file may be replaced. What nobody may write is left alone, whoever asks."""
    if not source.mode & 0o222 or not os.access(source.target, os.W_OK):
        raise ConfigError(
            f"{source.path}: is read-only", advice=f"{_RETRY} Make it writable (chmod u+w) and run the command again."
        )
    folder = source.target.parent
    if not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{source.path}: its folder is read-only",
            advice=f"{_RETRY} Make {folder} writable and run the command again.",
        )


def create(path: Path, data: bytes) -> None:
    """A new file; refused if there is one by now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, data)
        with contextlib.suppress(OSError):
            settle(path.parent)
    except FileExistsError:
        raise ConfigError(
            f"{path}: somebody made it in the meantime", advice=f"{_RETRY} Run the command again."
        ) from None
    except OSError as error:
        raise _unwritable(path, error) from None


def remove(source: Source) -> None:
    """Take away a file that is what was read, and its folder if nothing else is in it."""
    try:
        if _read(source.path, source.target).data != source.data:
            raise ConfigError(
                f"{source.path}: somebody changed it in the meantime", advice=f"{_RETRY} Run the command again."
            )
        source.target.unlink()
        with contextlib.suppress(OSError):
            source.target.parent.rmdir()
    except OSError as error:
        raise _unwritable(source.path, error) from None


def replace(source: Source, data: bytes) -> None:
    """Put this in the place of what was read, in one step; refused if the file is not what was read any more."""
    check_writable(source)
    try:
        fresh = write_beside(source.target, data, source.mode, source.owner)
        try:
            now = _read(source.path, source.target)
            if now.data != source.data:
                raise ConfigError(
                    f"{source.path}: somebody changed it in the meantime",
                    advice=f"{_RETRY} Close the program that uses it if it goes on, and run the command again.",
                )
            fresh.replace(source.target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        with contextlib.suppress(OSError):
            settle(source.target.parent)
    except OSError as error:
        raise _unwritable(source.path, error) from None


def _unwritable(path: Path, error: OSError) -> ConfigError:
    what = "its disk is full" if error.errno == errno.ENOSPC else f"cannot be written: {error.strerror}"
    return ConfigError(f"{path}: {what}", advice=f"{_RETRY} Put that right and run the command again.")


class InstallRecord(NamedTuple):
    """One file that we changed: hashes before and after, its backup, and the servers that we put the gate before."""

    file: Path
    client: str
    backup: Path
    before: str
    after: str
    at: str
    servers: Mapping[Pointer, Hint]


class InstallRecords:
    """The records of this user, one small file each, so that two installs at once do not lose one another's."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def get(self, file: Path) -> InstallRecord | None:
        return _read_record(self._place(file))

    def all(self) -> list[InstallRecord]:
        try:
            found = sorted(self._folder.glob("*.json"))[:_RECORDS_MAX]
        except OSError:
            return []
        return [record for path in found if (record := _read_record(path)) is not None]

    def put(self, record: InstallRecord) -> None:
        value = record._asdict() | {
            "file": str(record.file),
            "backup": str(record.backup),
            "servers": [[*pointer, list(hint)] for pointer, hint in record.servers.items()],
        }
        place = self._place(record.file)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_beside(place, json.dumps(value, indent=2).encode()).replace(place)
        except OSError as error:
            raise ConfigError(
                f"{self._folder}: cannot be written: {error.strerror}",
                advice="What is installed is remembered there. Make it writable and run the command again.",
            ) from None

    def drop(self, file: Path) -> None:
        with contextlib.suppress(OSError):
            self._place(file).unlink()

    def _place(self, file: Path) -> Path:
        return self._folder / f"{hashlib.sha256(str(file).encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _read_record(path: Path) -> InstallRecord | None:
    """A record, or None if there is none or somebody spoilt it: then the entries themselves say what to undo."""
    try:
        with path.open("rb") as file:
            value: Any = json.loads(file.read(_MAX_BYTES))
        words = [value[key] for key in ("client", "before", "after", "at")]
        servers = {tuple(row[:-1]): Hint(*row[-1]) for row in value["servers"]}
        if not all(isinstance(word, str) for word in words):
            return None
        client, before, after, at = words
        return InstallRecord(Path(value["file"]), client, Path(value["backup"]), before, after, at, servers)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, IndexError):
        return None
