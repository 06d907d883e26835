"""The file with the operator's own rules: as it is, whether it can be written from here, and another text in its place.

It is replaced as a whole, so that a gateway never reads half of it, and only while it still is what the page showed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final

import msgspec

# A text of this size, as JSON with a signature beside it, fits into what the console takes.
MOST_BYTES: Final = 48_000


class Held(msgspec.Struct, frozen=True):
    """The file as it was looked at. `problem` says why it cannot be written from here; empty where it can."""

    path: Path
    # None where it cannot be read.
    text: str | None = None
    hash: str = ""
    problem: str = ""
    mode: int = 0o600
    # Whether it is more than this page shows, and a file all the same.
    large: bool = False


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def look(path: Path) -> Held:
    """The file now; nothing about it is an error here."""
    try:
        info = os.lstat(path)
    except OSError as error:
        return Held(path, problem=f"it cannot be looked at ({error.strerror})")
    if not stat.S_ISREG(info.st_mode) and not stat.S_ISLNK(info.st_mode):
        return Held(path, problem="it is no file")
    try:
        data = _read(path)
    except OSError as error:
        return Held(path, problem=f"it cannot be read ({error.strerror})")
    if data is None:
        return Held(path, problem="it is no file")
    if len(data) > MOST_BYTES:
        return Held(path, problem=f"it is larger than {MOST_BYTES:,} bytes", large=True)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Held(path, problem="it is not UTF-8 text")
    return Held(path, text, digest(data), _unwritable(path, info.st_mode), stat.S_IMODE(info.st_mode))


def _read(path: Path) -> bytes | None:
    # Whatever has taken the file's place since it was looked at cannot make us wait.
    place = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(place, "rb") as file:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            return None
        return file.read(MOST_BYTES + 1)


def _unwritable(path: Path, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "it is a symbolic link, and what it points to is not ours to replace"
    # By its bits as well: whoever runs as root could write it, and was told not to.
    if not mode & 0o222 or not os.access(path, os.W_OK):
        return "it is read-only"
    folder = path.parent
    if not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK | os.X_OK):
        return "its folder is read-only"
    return ""


class Staged:
    """Another text, written beside the file, and the old one as a backup; `commit` puts it in its place."""

    def __init__(self, held: Held, text: str) -> None:
        data = text.encode()
        self.held = held
        self.after = digest(data)
        self.backup = held.path.with_name(f"{held.path.name}.bak")
        old = _beside(held.path, (held.text or "").encode(), held.mode)
        try:
            old.replace(self.backup)
            self._new = _beside(held.path, data, held.mode)
        except OSError:
            _away(old)
            raise

    def commit(self) -> bool:
        """False where the file is no longer what was looked at; then nothing is changed."""
        if look(self.held.path).hash != self.held.hash:
            self.discard()
            return False
        try:
            self._new.replace(self.held.path)
        except OSError:
            self.discard()
            raise
        _settle(self.held.path.parent)
        return True

    def discard(self) -> None:
        _away(self._new)


def _beside(path: Path, data: bytes, mode: int) -> Path:
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(made, flags, 0o600), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            made.chmod(mode)
        except OSError:
            _away(made)
            raise
    return made


def _away(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _settle(folder: Path) -> None:
    """The new name is durable only once the folder is; not every system can say so of a folder."""
    with contextlib.suppress(OSError):
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
