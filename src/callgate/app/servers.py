"""Which server stands behind a name: where it is, whom it is seen with, and who it is given what it says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from callgate.config import Config, ServerPinning, ServerSection
from callgate.pinning.identity import _REMEMBERED, ServerRef, command_identity, http_identity
from callgate.pinning.model import ServerIdentity
from callgate.trust.catalogue import data_of


def places(config: Config) -> dict[str, ServerRef]:
    """The places of all configured servers."""
    return {name: place(name, server) for name, server in config.servers.items()}


def place(name: str, server: ServerSection, environ: Mapping[str, str] = os.environ) -> ServerRef:
    """The place of one configured server."""
    identify: Callable[[str], ServerIdentity]
    if server.url is not None:
        url, proven = server.url.reveal(), server.pinning.identity
        identify = lru_cache(_REMEMBERED)(lambda reported: http_identity(url, authenticated=proven, reported=reported))
    else:
        cwd = None if server.cwd is None else str(server.cwd)
        identify = command_identity(server.argv, cwd, server.environment(environ), data_of=data_of)
    group = server.pinning.group or ""
    return ServerRef(name, group, server.target, identify, server.forward_authorization, server.kind)


def command_place(
    name: str,
    argv: Sequence[str],
    target: str,
    pinning: ServerPinning | None,
    *,
    folder: str,
    environ: Mapping[str, str],
) -> ServerRef:
    """The place of a command that was given on the command line, with the folder and variables that it was given in."""
    group = pinning.group if pinning is not None else None
    return ServerRef(name, group or "", target, command_identity(argv, None, environ, folder, data_of))
