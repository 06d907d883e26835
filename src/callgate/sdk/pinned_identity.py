"""Who the server of a pinned client is: what its command starts, where it answers, or what the author vouches for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import unquote

import msgspec
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment

from callgate.errors import ConfigError
from callgate.pinning.identity import http_identity, library_identity, shown, stdio_identity
from callgate.pinning.model import ServerIdentity

# From what a server says of itself to who it is.
Identify: TypeAlias = Callable[[str], ServerIdentity]
# An identity, a URL, a command, or a function of what the server says of itself; None: as the client connects.
ServerIs: TypeAlias = ServerIdentity | str | Sequence[str] | Identify | None

_ADVICE = "Give PinnedClient a `server`: library_identity(NAME, version=VERSION), a URL, or the command as a list."


class Known(msgspec.Struct, frozen=True):
    """A server as its author names it. `identify` may read a program from the disk: call it on a thread."""

    identify: Identify
    target: str
    transport: str


def known(server: ServerIs, client: Client) -> Known:
    """Who the server is, by the author's word or by what the client connects to; ConfigError where neither tells."""
    transport = _transport(client.server)
    if isinstance(server, ServerIdentity):
        return Known(_as_given(server), server.lineage, transport)
    if callable(server):
        return Known(server, "", transport)
    if server is None and isinstance(client.server, StdioServerParameters):
        return _started(client.server)
    place = client.server if server is None else server
    if isinstance(place, str):
        return _at(place, transport)
    if isinstance(place, Sequence) and place and all(isinstance(word, str) for word in place):
        argv = list(place)
        return Known(lambda reported: stdio_identity(argv, reported=reported), argv[0], transport)
    raise ConfigError("it cannot be told which server this client connects to", advice=_ADVICE)


def _at(url: str, transport: str) -> Known:
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{shown(url)!r} is no http:// or https:// address of a server", advice=_ADVICE)
    return Known(lambda reported: http_identity(url, reported=reported), http_identity(url).lineage, transport)


def _started(how: StdioServerParameters) -> Known:
    """The command with the directory and the PATH that the SDK starts it with."""
    argv = [how.command, *how.args]
    cwd = None if how.cwd is None else os.fspath(how.cwd)
    path = {**get_default_environment(), **(how.env or {})}.get("PATH")

    def identify(reported: str) -> ServerIdentity:
        return stdio_identity(argv, cwd=cwd, environ_path=path, reported=reported)

    return Known(identify, how.command, "stdio")


def _as_given(identity: ServerIdentity) -> Identify:
    """The author's word. Without a version the server's own is added: another version is another server."""

    def identify(reported: str) -> ServerIdentity:
        if identity.kind == "library" and not identity.chosen:
            name = unquote(identity.lineage.removeprefix("library:"), errors="surrogatepass")
            return library_identity(name, reported=reported)
        return msgspec.structs.replace(identity, reported=shown(reported))

    return identify


def _transport(server: object) -> str:
    if isinstance(server, StdioServerParameters):
        return "stdio"
    return "http" if isinstance(server, str) else "library"
