"""The one place where this room touches the disk: which file a command means, and its digest."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final, Protocol

_CHUNK: Final = 1024 * 1024
# A program larger than this is not read: the identity says so.
_MOST: Final = 1024 * 1024 * 1024


class Disk(Protocol):
    """Where programs are looked for and read. It may block: call it on a thread."""

    def here(self) -> str:
        """The directory that commands start in where none is given."""

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        """The absolute path of a program or script, links not followed; empty where there is none."""

    def digest(self, path: str) -> tuple[str, str]:
        """The path with links followed, and SHA-256 of what is there; OSError, ValueError or RuntimeError where not."""


class _LocalDisk:
    def here(self) -> str:
        try:
            return str(Path.cwd())
        except OSError:
            return os.sep

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        try:
            if not name or "\0" in name:
                return ""
            if script or "/" in name or os.sep in name or (os.altsep and os.altsep in name):
                place = os.path.normpath(os.path.join(base, name))  # noqa: PTH118
                return place if os.path.lexists(place) else ""
            found = shutil.which(name, path=path)
            return os.path.normpath(os.path.join(base, found)) if found else ""  # noqa: PTH118
        except (OSError, ValueError):
            return ""

    def digest(self, path: str) -> tuple[str, str]:
        place = Path(path).resolve(strict=True)
        total = 0
        state = hashlib.sha256()
        # A pipe or a device in the program's place would never end.
        if not stat.S_ISREG(place.stat().st_mode):
            raise ValueError("it is not a plain file")
        with place.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total += len(chunk)
                if total > _MOST:
                    raise ValueError(f"it is larger than {_MOST >> 20} MiB")
                state.update(chunk)
        return str(place), state.hexdigest()


DISK: Final[Disk] = _LocalDisk()
