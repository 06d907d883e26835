"""`callgate wrap`: stdio in front of one server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from callgate.config import Config, Secret, Server
    from callgate.prompts.listener import PromptListener


UrlEnvOption = Annotated[
    str | None,
    typer.Option(
        "--url-env", metavar="VARIABLE", help="Take the endpoint from this environment variable: it holds a secret."
    ),
]
HeaderEnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header-env",
        metavar="HEADER=VARIABLE",
        help="Send this header, with the value of an environment variable. May be given more than once.",
    ),
]


def register(app: typer.Typer) -> None:
    # Options may stand before or after NAME; everything behind `--` is the command's own.
    app.command("wrap")(wrap)


def wrap(
    name: Annotated[str, typer.Argument(help="What to call the server in records and policy.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- CMD…", help="The command that starts the server.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The server's Streamable HTTP endpoint instead.")] = None,
    *,
    url_env: UrlEnvOption = None,
    header_env: HeaderEnvOption = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            envvar="CALLGATE_CONFIG",
            help="Configuration file; by default the user's own, never one of the folder it is started in.",
        ),
    ] = None,
) -> None:
    """Stand between a client that starts commands and one MCP server; write this in front of the server's command.

    Without a command and without --url, the server NAME of the configuration is used.
    """
    from callgate.prompts.listener import listening

    # Before the rest is loaded, which takes a while: the user may have sent a prompt already.
    with listening() as prompts:
        from callgate.gateway.wrap_command import exit_as
        from callgate.gateway.wrapping import wrapped_server

        path, settings = _settings(config)
        server = _with_environment(
            wrapped_server(settings, name, command or [], _endpoint(url, url_env)),
            header_env or [],
            hidden=url_env is not None,
        )
        status = _run(path, settings, name, server, command or [], prompts=prompts)
    sys.exit(exit_as(status))


def _run(
    path: Path | None,
    settings: Config,
    name: str,
    server: Server | None,
    command: Sequence[str],
    *,
    prompts: PromptListener | None,
) -> int:
    from callgate.cli.showing import make_console
    from callgate.gateway.loop import new_event_loop
    from callgate.gateway.wrapping import review_command, run_wrap
    from callgate.telemetry.logs import configure

    configure("warning" if settings.logging.level == "info" else settings.logging.level, settings.logging.format)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        review = review_command(path)
        return runner.run(run_wrap(settings, name, server, command, make_console, review=review, prompts=prompts))


def _settings(config: Path | None) -> tuple[Path | None, Config]:
    """The file that is named or the user's own, and what it says. An editor starts servers in whatever folder is open,
    and a folder that somebody else wrote may hold a callgate.toml that switches the gate off: that one is not read."""
    import platformdirs

    from callgate.config import FILE_NAME, load, parse

    own = platformdirs.user_config_path("callgate", appauthor=False) / FILE_NAME
    path = config or (own if own.exists() else None)
    return path, parse("", source="defaults") if path is None else load(path)


def _endpoint(url: str | None, variable: str | None) -> str | None:
    from callgate.config.rules import http_url
    from callgate.errors import ConfigError

    if variable is None:
        return url
    if url is not None:
        raise ConfigError("--url and --url-env were given", advice="Give one of them.")
    value = _variable(variable, "--url-env")
    if wrong := http_url(value):
        raise ConfigError(f"--url-env {variable}: {wrong}", advice="Put the variable right; it is not shown here.")
    return value


def _with_environment(server: Server | None, pairs: Sequence[str], *, hidden: bool) -> Server | None:
    """The server with the headers whose values the environment holds; an endpoint from there is not shown whole."""
    import msgspec

    from callgate.config import Secret
    from callgate.config.secret import mask_url
    from callgate.errors import ConfigError

    headers = dict(_header(pair) for pair in pairs)
    if server is None or server.url is None:
        if headers:
            raise ConfigError("--header-env is for a server that has an address", advice="Give its --url as well.")
        return server
    address = server.url.reveal()
    url = Secret(address, mask_url([address])[0]) if hidden else server.url
    return msgspec.structs.replace(server, url=url, headers={**server.headers, **headers})


def _header(pair: str) -> tuple[str, Secret]:
    from callgate.config import Secret
    from callgate.config.rules import header_name, header_value
    from callgate.errors import ConfigError

    header, _, variable = pair.partition("=")
    value = _variable(variable, "--header-env")
    if wrong := header_name(header) or header_value(value):
        # Without the value, which is a secret.
        raise ConfigError(f"--header-env {pair}: {wrong}", advice="Put the header or the variable right.")
    return header, Secret(value)


def _variable(name: str, option: str) -> str:
    from callgate.errors import ConfigError

    value = os.environ.get(name) if name else None
    if not value:
        raise ConfigError(
            f"{option}: the environment variable {name or 'of no name'} is not set",
            advice='Set it where the client starts this command: under "env" in its configuration.',
        )
    return value
