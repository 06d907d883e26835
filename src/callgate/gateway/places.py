"""Which server stands behind a name: where it is, whom it is seen with, and who it is given what it says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from callgate.config import Config, Server, ServerPinning
from callgate.pinning.disk import DISK, Disk
from callgate.pinning.identity import http_identity, stdio_identity
from callgate.pinning.model import Identity

_REMEMBERED: Final = 256


class Place(msgspec.Struct, frozen=True):
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


def places(config: Config) -> dict[str, Place]:
    """The places of all configured servers."""
    return {name: place(name, server) for name, server in config.servers.items()}


def place(name: str, server: Server, environ: Mapping[str, str] = os.environ) -> Place:
    """The place of one configured server."""
    identify: Callable[[str], Identity]
    if server.url is not None:
        url, proven = server.url.reveal(), server.pinning.identity
        identify = lru_cache(_REMEMBERED)(lambda reported: http_identity(url, authenticated=proven, reported=reported))
    else:
        path = server.environment(environ).get("PATH")
        cwd = None if server.cwd is None else str(server.cwd)
        identify = _command(server.argv, cwd, path)
    group = server.pinning.group or ""
    return Place(name, group, server.target, identify, server.forward_authorization, server.kind)


def command_place(
    name: str, argv: Sequence[str], target: str, pinning: ServerPinning | None, *, folder: str, path: str | None
) -> Place:
    """The place of a command that was given on the command line, with the folder and PATH that it was given in."""
    group = pinning.group if pinning is not None else None
    return Place(name, group or "", target, _command(argv, None, path, folder))


def _command(argv: Sequence[str], cwd: str | None, path: str | None, here: str = "") -> Callable[[str], Identity]:
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
