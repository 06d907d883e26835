"""A configured server as pinning sees it: its name, its target, and its identity given what it says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from callgate.pinning.disk import DISK, Disk
from callgate.pinning.identity import stdio_identity
from callgate.pinning.model import Identity

_REMEMBERED: Final = 256


class ServerRef(msgspec.Struct, frozen=True):
    """A server as the operator names it. `identify` may read a program from the disk: call it on a thread first."""

    name: str
    group: str
    target: str
    identify: Callable[[str], Identity]
    # Whether the server is given the caller's own credentials, and may show each caller another list.
    by_caller: bool = False
    kind: Literal["http", "stdio"] = "stdio"
    # Tells apart wrapped servers of one name in one gateway.
    connection: str = ""

    @property
    def key(self) -> str:
        return f"{self.name} {self.connection}"


def command_identity(
    argv: Sequence[str], cwd: str | None, path: str | None, here: str = ""
) -> Callable[[str], Identity]:
    disk = CachedDisk(here=here)

    def identify(reported: str) -> Identity:
        return stdio_identity(argv, cwd=cwd, environ_path=path, reported=reported, disk=disk)

    return identify


class CachedDisk:
    """Reads a program again only when its size, time or inode is another."""

    def __init__(self, disk: Disk = DISK, here: str = "") -> None:
        self._disk = disk
        self._here = here
        self._read: dict[str, tuple[tuple[int, ...], tuple[str, str]]] = {}

    def here(self) -> str:
        return self._here or self._disk.here()

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        return self._disk.locate(name, base, path, script=script)

    def digest(self, path: str) -> tuple[str, str]:
        now = _signature(path)
        known = self._read.get(path)
        if known is not None and known[0] == now:
            return known[1]
        made = self._disk.digest(path)
        if len(self._read) < _REMEMBERED and _signature(path) == now:
            self._read[path] = now, made
        return made


def _signature(path: str) -> tuple[int, ...]:
    found = os.stat(path)  # noqa: PTH116 - links are followed, and a text may be foreign
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
