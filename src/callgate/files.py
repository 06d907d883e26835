"""Writing a file whole or not at all, and so that it is still there after a power cut."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_new(path: Path, data: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """A new file with this in it, with these rights and this owner; FileExistsError where there is one, or a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        try:
            file.write(data)
            file.flush()
            if owner is not None and hasattr(os, "fchown") and owner != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), *owner)
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def write_beside(path: Path, data: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> Path:
    """What is to take the place of a file, under another name in the same folder."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_new(draft, data, mode, owner)
    return draft


def settle(folder: Path) -> None:
    """A new name in a folder survives a power cut from here on; Windows can not be told so of a folder."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
