"""`callgate wrap`: stdio in front of one server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    # Options may stand before or after NAME; everything behind `--` is the command's own.
    app.command("wrap")(wrap)


def wrap(
    name: Annotated[str, typer.Argument(help="What to call the server in records and policy.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- CMD…", help="The command that starts the server.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The server's Streamable HTTP endpoint instead.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="CALLGATE_CONFIG", help="Configuration file.")
    ] = None,
) -> None:
    """Stand between a client that starts commands and one MCP server; write this in front of the server's command.

    Without a command and without --url, the server NAME of the configuration is used.
    """
    from callgate.cli.showing import make_console
    from callgate.config import find, load
    from callgate.gateway.loop import new_event_loop
    from callgate.gateway.wrap_command import exit_as
    from callgate.gateway.wrapping import review_command, run_wrap, wrapped_server
    from callgate.telemetry.logs import configure

    settings = load(config)
    server = wrapped_server(settings, name, command or [], url)
    configure("warning" if settings.logging.level == "info" else settings.logging.level, settings.logging.format)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        review = review_command(config or find())
        status = runner.run(run_wrap(settings, name, server, command or [], make_console, review=review))
    sys.exit(exit_as(status))
