"""Puts `callgate wrap` together from a configuration and a command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
from collections.abc import AsyncIterator, Sequence
from functools import partial

import msgspec

from callgate.config import Config, Secret, Server
from callgate.errors import ConfigError
from callgate.gateway.app import Asgi, MakeConsole
from callgate.gateway.extracts import review_command
from callgate.gateway.learnt import Learnt
from callgate.gateway.places import Place, command_place, place
from callgate.gateway.runtime import Runtime
from callgate.gateway.stdio_front import StdioFront
from callgate.gateway.trust_keys import started_by
from callgate.gateway.trust_prompts import HeardPrompts
from callgate.gateway.wrap import Behind, Wrap
from callgate.gateway.wrap_command import WrappedCommand
from callgate.gateway.wrap_url import WrappedUrl
from callgate.prompts.listener import Heard, PromptListener

__all__ = ["review_command", "run_wrap", "wrapped_server"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def wrapped_server(config: Config, name: str, command: Sequence[str], url: str | None) -> Server | None:
    """The server to reach by HTTP or as configured; None for a command given on the command line."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a server name", advice="Use small letters, digits, - and _, such as `files` or `my-db`."
        )
    if command and url is not None:
        raise ConfigError("a command and --url were given", advice="Give one of them.")
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"{url!r} is not an http or https address", advice="Write --url https://HOST/mcp.")
        return Server(url=Secret(url, url), headers=_headers(config, name))
    if command:
        return None
    if name not in config.servers:
        raise ConfigError(
            f"there is nothing to wrap: no command, no --url, and no server {name!r} in the configuration",
            advice=f"Write `callgate wrap {name} -- PROGRAM ARGUMENT` or `callgate wrap {name} --url https://HOST/mcp`.",
        )
    return config.servers[name]


def _headers(config: Config, name: str) -> dict[str, Secret]:
    configured = config.servers.get(name)
    return configured.headers if configured is not None else {}


async def run_wrap(
    config: Config,
    name: str,
    server: Server | None,
    command: Sequence[str],
    console: MakeConsole | None = None,
    *,
    review: str = "callgate review",
    prompts: PromptListener | None = None,
) -> int:
    """Relay until the client or the server is done; the server's exit status.

    `review` is what to type to review tools. `prompts` is where hooks of the client tell what its user wrote.
    `console` makes the application that shows the pages for people, on a port of this machine, where no other gateway
    (`approval.url`) shows them.
    """
    most = config.limits.message_bytes
    behind: Behind
    if server is not None and server.kind == "http":
        behind = WrappedUrl(server, most)
    elif server is not None:
        behind = WrappedCommand(server.argv, most, server)
    else:
        behind = WrappedCommand(command, most)
    async with Runtime.open(config) as runtime:
        runtime.metrics.know([name])
        runtime.reviewed_with(review, told=True)
        learnt = Learnt(_place(config, name, server, command), started_by(os.getppid(), os.environ))
        front = StdioFront(most)
        hear = {"hear": learnt.hear} if config.has_console else {}
        async with _paging(runtime, console if config.has_console else None):
            # What it is made of has to know where the pages are.
            door = runtime.door(config, learnt)
            if prompts is not None and learnt.prompts is not None and config.trust.prompt_hooks:
                _listen(prompts, learnt.prompts)
            return await Wrap(name, door, behind, front, runtime.spans, **hear).run()


def _listen(listener: PromptListener, prompts: HeardPrompts) -> None:
    """Take prompts from the hooks of this process's client, whose sessions are all that this process has."""
    loop = asyncio.get_running_loop()

    def tell(heard: Heard) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(prompts.hear, heard)

    listener.attach(tell)


def _place(config: Config, name: str, server: Server | None, command: Sequence[str]) -> Place:
    """Who stands behind the name: what the command line says, with what the configuration says of it."""
    known = config.servers.get(name)
    if server is None:
        return command_place(name, command, shlex.join(command), None if known is None else known.pinning)
    if known is not None and server is not known:
        server = msgspec.structs.replace(server, pinning=known.pinning)
    return place(name, server)


@contextlib.asynccontextmanager
async def _paging(runtime: Runtime, console: MakeConsole | None) -> AsyncIterator[None]:
    """The approval page within reach for as long as the block lasts."""
    if console is None:
        yield
        return
    # A listener is needed by few, and its parts take a while to load.
    from callgate.gateway.loopback import Loopback

    pages = Loopback(partial(_pages, runtime, console), runtime.config)
    runtime.console_address = pages.address
    try:
        yield
    finally:
        await pages.close()


def _pages(runtime: Runtime, console: MakeConsole, address: str) -> Asgi:
    approvals = runtime.sign_in()
    assert approvals is not None
    return console(runtime.shown(approvals, address))
