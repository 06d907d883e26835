"""What `callgate call` is to speak to: a configured server behind the gate, or an address or a command directly."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer

from callgate.errors import CallgateError

if TYPE_CHECKING:
    from mcp import Client

_CHARS: Final = 300


class Target(msgspec.Struct, frozen=True):
    """A server to speak to; `name` is what the person calls it, secrets masked. `gated`: through `callgate wrap`."""

    name: str
    url: str | None = None
    argv: tuple[str, ...] = ()
    gated: bool = False


class Unreachable(CallgateError):
    """The server cannot be spoken to."""


def find_target(word: str | None, command: list[str], path: Path | None) -> Target:
    """The server that the command line names."""
    from callgate.config import find, load
    from callgate.config.secret import mask_url

    if word is None:
        return Target(name=Path(command[0]).name, argv=tuple(command))
    if word.startswith(("http://", "https://")):
        return Target(name=mask_url([word])[0], url=word)
    servers = load(path).servers
    if word in servers:
        return _behind_the_gate(word, find(path))
    close = difflib.get_close_matches(word, servers, 1)
    meant = f"Did you mean {close[0]!r}?" if close else "`callgate check` lists those there are."
    raise typer.BadParameter(
        f"no server {word!r} is configured. {meant} An address (https://HOST/mcp) works too, and so does "
        "`callgate call TOOL KEY=VALUE -- PROGRAM ARGUMENT`.",
        param_hint="SERVER",
    )


def _behind_the_gate(name: str, file: Path | None) -> Target:
    """A call of a configured server is checked and recorded like any agent's: never around the gate."""
    # -P: a folder that happens to be called callgate here is not taken for the program.
    argv = [sys.executable, "-P", "-m", "callgate", "wrap", name]
    if file is not None:
        argv += ["--config", str(file.absolute())]
    return Target(name=name, argv=tuple(argv), gated=True)


def client_for(target: Target) -> Client:
    """The SDK's client for it, not connected yet."""
    from mcp import Client, StdioServerParameters

    if target.url is not None:
        return Client(_over_http(target.url))
    program, *arguments = target.argv
    return Client(StdioServerParameters(command=program, args=arguments, env=dict(os.environ)))


@contextlib.asynccontextmanager
async def _over_http(url: str) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # A server may hold its answer for long; connecting and writing may not take long.
    timeout = httpx2.Timeout(30.0, read=300.0)
    async with (
        httpx2.AsyncClient(timeout=timeout) as http,
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


def _told(target: Target, error: BaseException) -> CallgateError:
    from mcp import MCPError

    from callgate.telemetry.logs import one_line

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = one_line(str(error).splitlines()[0][:_CHARS]) if str(error) else type(error).__name__
    data = error.data if isinstance(error, MCPError) else None
    if isinstance(data, dict) and isinstance(reason := data.get("reason"), str):
        # It answered, with a refusal: by the gate, or by a server that speaks like one.
        advice = one_line(str(data.get("advice", ""))[:_CHARS])
        return CallgateError(f"{target.name} refused: {text} ({one_line(reason[:_CHARS])})", advice=advice)
    advice = "Check that it runs and that its address is right." if target.url else "Run the command by hand."
    if target.gated:
        advice = f"Run `callgate check`, then `callgate wrap {target.name}` by hand."
    return Unreachable(f"{target.name} cannot be spoken to: {text}", advice=advice)
