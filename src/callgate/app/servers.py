"""Which server stands behind a name: where it is, whom it is seen with, and who it is given what it says of itself."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import platformdirs

from callgate.code_variables import is_switch
from callgate.config import Config, ServerPinning, ServerSection
from callgate.pinning.identity import DataOf, ServerRef, command_identity, url_identity
from callgate.trust.catalogue import data_of

# Variables of the user's own terminals, as digests: their values may be secrets.
_OWN_VARIABLES: Final = "variables.json"
_MOST_VARIABLES: Final = 1000


def remember_variables(environ: Mapping[str, str] = os.environ) -> None:
    """What is set in the terminal of the user is the user's own, for each client that hands it to a server.

    A desktop client has fewer of these variables than the terminal in which its servers were reviewed. A project can
    set some there too: only plain switches are remembered, nothing that loads code or says where packages come from.
    """
    file = _variables_file()
    found = {_digest(name, value) for name, value in environ.items() if is_switch(name, value)}
    known = _own_variables()
    if found <= known or len(found | known) > _MOST_VARIABLES:
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(sorted(found | known), out)
    new.replace(file)


def _variables_file() -> Path:
    return platformdirs.user_state_path("callgate", appauthor=False) / _OWN_VARIABLES


def _own_variables() -> frozenset[str]:
    with suppress(OSError, ValueError):
        found = json.loads(_variables_file().read_text())
        if isinstance(found, list):
            return frozenset(one for one in found if isinstance(one, str))
    return frozenset()


def _digest(name: str, value: str) -> str:
    return hashlib.sha256(f"{name}={value}".encode(errors="surrogateescape")).hexdigest()


def _without_own(environ: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """The variables that a server is started with, without those of the user's own terminals. Earlier versions
    remembered more of them."""
    return {
        name: value for name, value in environ.items() if not is_switch(name, value) or _digest(name, value) not in own
    }


def places(config: Config) -> dict[str, ServerRef]:
    """The places of all configured servers."""
    data, own = config.pinning.data_arguments, _own_variables()
    return {name: place(name, server, data=data, own=own) for name, server in config.servers.items()}


def _known_data(given: Sequence[str]) -> DataOf:
    """What the catalogue and the operator say of a package's arguments."""

    def known(package: str) -> list[str]:
        pairs = (entry.rpartition(" ") for entry in given)
        return [*data_of(package), *(word for name, _, word in pairs if name == package)]

    return known


def place(
    name: str,
    server: ServerSection,
    environ: Mapping[str, str] = os.environ,
    *,
    data: Sequence[str] = (),
    own: Collection[str] | None = None,
) -> ServerRef:
    """The place of one configured server; `data` as in `pinning.data_arguments`, `own` as they are remembered."""
    if server.url is not None:
        identify = url_identity(server.url.reveal(), server.pinning.identity)
    else:
        cwd = None if server.cwd is None else str(server.cwd)
        own = _own_variables() if own is None else own
        identify = command_identity(
            server.argv, cwd, _without_own(server.environment(environ), own), data_of=_known_data(data)
        )
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
    data: Sequence[str] = (),
) -> ServerRef:
    """The place of a command that was given on the command line, with the folder and variables that it was given in."""
    group = pinning.group if pinning is not None else None
    return ServerRef(
        name,
        group or "",
        target,
        command_identity(argv, None, _without_own(environ, _own_variables()), folder, _known_data(data)),
    )
