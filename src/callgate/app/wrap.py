"""Puts a wrapped server together from a configuration and the command line of `callgate wrap`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from callgate.app.console import MakeConsole
from callgate.app.extracts import review_command
from callgate.app.observations import ServerObservations
from callgate.app.runtime import Runtime
from callgate.app.servers import command_place, place
from callgate.config import Config, Secret, ServerSection
from callgate.config.rules import header_name, header_value, http_url
from callgate.config.secret import mask_url
from callgate.errors import ConfigError
from callgate.pinning.identity import ServerRef
from callgate.prompts.listener import Heard, PromptListener, PromptRecipient
from callgate.transport.http.exchange import Asgi
from callgate.transport.stdio.pipes import StdioFront
from callgate.transport.stdio.session import StdioSession, WrappedServer
from callgate.transport.upstream.wrapped_command import WrappedCommand, start_command
from callgate.transport.upstream.wrapped_url import WrappedUrl
from callgate.trust.session_cache import started_by
from callgate.trust.user_prompts import ReportedPrompts

if TYPE_CHECKING:
    from callgate.transport.http.loopback import Loopback

__all__ = ["WrapOrder", "listen", "order_place", "review_command", "run_wrap", "wrapped_server"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class WrapOrder(msgspec.Struct, frozen=True):
    """What the command line of `callgate wrap` asks for, the environment that it is asked in, and the folder."""

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    url_env: str | None = None
    header_env: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}
    folder: str = ""


def wrapped_server(config: Config, order: WrapOrder) -> ServerSection | None:
    """The server to reach by HTTP or as configured; None for a command given on the command line."""
    name = order.name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a server name", advice="Use small letters, digits, - and _, such as `files` or `my-db`."
        )
    url = _endpoint(order)
    if order.command and url is not None:
        raise ConfigError("a command and --url were given", advice="Give one of them.")
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"{url!r} is not an http or https address", advice="Write --url https://HOST/mcp.")
        shown = url if order.url_env is None else mask_url([url])[0]
        server = ServerSection(url=Secret(url, shown), headers=_headers(config, name))
    elif order.command:
        return _with_headers(None, order)
    elif name in config.servers:
        server = config.servers[name]
    else:
        raise ConfigError(
            f"there is nothing to wrap: no command, no --url, and no server {name!r} in the configuration",
            advice=f"Write `callgate wrap {name} -- PROGRAM ARGUMENT` or `callgate wrap {name} --url https://HOST/mcp`.",
        )
    return _with_headers(server, order)


def _headers(config: Config, name: str) -> dict[str, Secret]:
    configured = config.servers.get(name)
    return configured.headers if configured is not None else {}


def _endpoint(order: WrapOrder) -> str | None:
    if order.url_env is None:
        return order.url
    if order.url is not None:
        raise ConfigError("--url and --url-env were given", advice="Give one of them.")
    value = _variable(order, order.url_env, "--url-env")
    if wrong := http_url(value):
        raise ConfigError(f"--url-env {order.url_env}: {wrong}", advice="Put the variable right; it is not shown here.")
    return value


def _with_headers(server: ServerSection | None, order: WrapOrder) -> ServerSection | None:
    """The server with the headers whose values the environment holds."""
    headers = dict(_header(order, pair) for pair in order.header_env)
    if server is None or server.url is None:
        if headers:
            raise ConfigError("--header-env is for a server that has an address", advice="Give its --url as well.")
        return server
    return msgspec.structs.replace(server, headers={**server.headers, **headers}) if headers else server


def _header(order: WrapOrder, pair: str) -> tuple[str, Secret]:
    header, _, variable = pair.partition("=")
    value = _variable(order, variable, "--header-env")
    if wrong := header_name(header) or header_value(value):
        # Without the value, which is a secret.
        raise ConfigError(f"--header-env {pair}: {wrong}", advice="Put the header or the variable right.")
    return header, Secret(value)


def _variable(order: WrapOrder, name: str, option: str) -> str:
    value = order.environ.get(name) if name else None
    if not value:
        raise ConfigError(
            f"{option}: the environment variable {name or 'of no name'} is not set",
            advice='Set it where the client starts this command: under "env" in its configuration.',
        )
    return value


async def run_wrap(
    config: Config,
    order: WrapOrder,
    console: MakeConsole | None = None,
    *,
    review: str = "callgate review",
    prompts: PromptListener | None = None,
) -> int:
    """Be the whole gateway of one server, until the client or the server is done; the server's exit status.

    `review` is what to type to review tools. `prompts` is where hooks of the client tell what its user wrote.
    `console` makes the application that shows the pages for people, on a port of this machine, where no other gateway
    (`approval.url`) shows them.
    """
    server, most = wrapped_server(config, order), config.limits.message_bytes
    behind: WrappedServer
    if server is not None and server.kind == "http":
        behind = at = WrappedUrl(server, most)
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, at.stop, -number)
    else:
        argv: Sequence[str] = order.command if server is None else server.argv
        behind = WrappedCommand(partial(start_command, argv, server), most)

    pages: Loopback | None = None

    async def address() -> str:
        assert pages is not None
        return await pages.address()

    # Another gateway may show the pages, or nobody.
    paged = address if console is not None and config.has_console else None
    async with Runtime.open(config, review=review, tells_review=True, console_address=paged) as runtime:
        runtime.metrics.know([order.name])
        learnt = ServerObservations(order_place(config, order, server), started_by(os.getppid(), os.environ))
        front = StdioFront(most)
        hear = {"hear": learnt.hear} if config.has_console else {}
        async with _paging(runtime, console if config.has_console else None) as pages:
            dispatcher = runtime.dispatcher(config, learnt)
            if prompts is not None and learnt.prompts is not None and config.trust.prompt_hooks:
                listen(prompts, os.getpid(), order.folder, learnt.prompts)
            return await StdioSession(order.name, dispatcher, behind, front, runtime.spans, **hear).run()


def listen(listener: PromptListener, pid: int, folder: str, prompts: ReportedPrompts) -> PromptRecipient | None:
    """Take prompts from the hooks of the client that has started a `wrap`."""
    loop = asyncio.get_running_loop()

    def tell(heard: Heard) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(prompts.hear, heard.texts, heard.conversation)

    return listener.add(pid, Path(folder), tell)


def order_place(config: Config, order: WrapOrder, server: ServerSection | None, connection: str = "") -> ServerRef:
    """Who stands behind the name: what the command line says, with what the configuration says of it."""
    known = config.servers.get(order.name)
    if server is None:
        pinning = None if known is None else known.pinning
        made = command_place(
            order.name,
            order.command,
            shlex.join(order.command),
            pinning,
            folder=order.folder,
            environ=order.environ,
            data=config.pinning.data_arguments,
        )
    else:
        if known is not None and server is not known:
            server = msgspec.structs.replace(server, pinning=known.pinning)
        made = place(order.name, server, order.environ, data=config.pinning.data_arguments)
    return msgspec.structs.replace(made, connection=connection)


@contextlib.asynccontextmanager
async def _paging(runtime: Runtime, console: MakeConsole | None) -> AsyncIterator[Loopback | None]:
    """The approval page within reach for as long as the block lasts."""
    if console is None:
        yield None
        return
    # A listener is needed by few, and its parts take a while to load.
    from callgate.transport.http.loopback import Loopback

    pages = Loopback(partial(_pages, runtime, console), runtime.config)
    try:
        yield pages
    finally:
        await pages.close()


def _pages(runtime: Runtime, console: MakeConsole, address: str) -> Asgi:
    approvals = runtime.sign_in()
    assert approvals is not None
    return console(runtime.shown(approvals, address))
