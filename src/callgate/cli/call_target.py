"""What `callgate call` is to speak to: a configured server, an address or a command."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from callgate.errors import CallgateError

if TYPE_CHECKING:
    from mcp import Client

    from callgate.config import Server


class Target(msgspec.Struct, frozen=True):
    """A server to speak to; `name` is what the person calls it, secrets masked."""

    name: str
    url: str | None = None
    headers: dict[str, str] = {}
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: Path | None = None


class Unreachable(CallgateError):
    """The server cannot be spoken to."""


def find_target(word: str | None, command: list[str], path: Path | None) -> Target:
    """The server that the command line names."""
    from callgate.config import load
    from callgate.config.secret import mask_url

    if word is None:
        return Target(name=Path(command[0]).name, argv=tuple(command), env=dict(os.environ))
    if word.startswith(("http://", "https://")):
        return Target(name=mask_url([word])[0], url=word)
    servers = load(path).servers
    if word in servers:
        return _configured(word, servers[word])
    close = difflib.get_close_matches(word, servers, 1)
    meant = f"Did you mean {close[0]!r}?" if close else "`callgate check` lists those there are."
    raise typer.BadParameter(
        f"no server {word!r} is configured. {meant} An address (https://HOST/mcp) works too, and so does "
        "`callgate call TOOL KEY=VALUE -- PROGRAM ARGUMENT`.",
        param_hint="SERVER",
    )


def _configured(name: str, server: Server) -> Target:
    if server.url is not None:
        headers = {key: value.reveal() for key, value in server.headers.items()}
        return Target(name=name, url=server.url.reveal(), headers=headers)
    return Target(name=name, argv=tuple(server.argv), env=server.environment(os.environ), cwd=server.cwd)


def client_for(target: Target) -> Client:
    """The SDK's client for it, not connected yet."""
    from mcp import Client, StdioServerParameters

    if target.url is not None:
        return Client(_over_http(target.url, target.headers))
    program, *arguments = target.argv
    return Client(StdioServerParameters(command=program, args=arguments, env=target.env, cwd=target.cwd))


@contextlib.asynccontextmanager
async def _over_http(url: str, headers: dict[str, str]) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # A server may hold its answer for long; connecting and writing may not take long.
    timeout = httpx2.Timeout(30.0, read=300.0)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


@contextlib.contextmanager
def connecting(target: Target) -> Iterator[None]:
    """Says in one sentence what keeps the server from being spoken to."""
    import httpx2
    from mcp import MCPError

    known = (MCPError, httpx2.HTTPError, OSError, RuntimeError, ValueError)
    try:
        yield
    except known as error:
        raise _told(target, error) from None
    except BaseExceptionGroup as group:
        rest = group.split(known)[1]
        if rest is not None:
            raise
        raise _told(target, group) from None


def _told(target: Target, error: BaseException) -> Unreachable:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    advice = "Check that it runs and that its address is right." if target.url else "Run the command by hand."
    return Unreachable(f"{target.name} cannot be spoken to: {text}", advice=advice)
