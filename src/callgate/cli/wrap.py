"""`callgate wrap`: stdio in front of one server; and `callgate prompt`, which a client's hook runs. `callgate.__main__`
comes before both, and loads less."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callgate.errors import ConfigError
from callgate.local.place import LocalError
from callgate.local.wrap import Options, end_as, is_possible, run
from callgate.prompts import hook

if TYPE_CHECKING:
    from callgate.app.wrap import WrapOrder
    from callgate.config import Config
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
    alone: Annotated[
        bool, typer.Option("--alone", help="Be the whole gateway of this server instead of using the one you share.")
    ] = False,
) -> None:
    """Stand between a client that starts commands and one MCP server; write this in front of the server's command.

    The checks are made by your gateway, one process for all wrapped servers, which is started when it is needed.
    Without a command and without --url, the server NAME of the configuration is used.
    """
    file = None if config is None else str(config)
    options = Options(name, command or [], url=url, url_env=url_env, header_env=header_env, config=file)
    if alone or not is_possible():
        status = _alone(options, config)
    else:
        try:
            status = run(options)
        except LocalError as error:
            raise ConfigError(error.message, advice=error.advice) from None
    if status >= 0:
        raise SystemExit(status)
    end_as(status)


def _alone(options: Options, config: Path | None) -> int:
    from callgate.prompts.listener import listening

    # Before the rest is loaded, which takes a while: the user may have sent a prompt already.
    with listening() as prompts:
        from callgate.app.wrap import WrapOrder

        path, settings = _settings(config)
        order = WrapOrder(
            options.name,
            tuple(options.command),
            options.url,
            options.url_env,
            tuple(options.header_env),
            dict(os.environ),
            str(Path.cwd()),
        )
        return _run(path, settings, order, prompts=prompts)


def _run(path: Path | None, settings: Config, order: WrapOrder, *, prompts: PromptListener | None) -> int:
    from callgate.app.event_loop import new_event_loop
    from callgate.app.wrap import review_command, run_wrap
    from callgate.cli.serve import make_console
    from callgate.telemetry.logs import configure

    configure("warning" if settings.logging.level == "info" else settings.logging.level, settings.logging.format)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        review = review_command(path)
        return runner.run(run_wrap(settings, order, make_console, review=review, prompts=prompts))


def _settings(config: Path | None) -> tuple[Path | None, Config]:
    """The file that is named or the user's own, and what it says. An editor starts servers in whatever folder is open,
    and a folder that somebody else wrote may hold a callgate.toml that switches the gate off: that one is not read."""
    import platformdirs

    from callgate.config import FILE_NAME, load, parse

    own = platformdirs.user_config_path("callgate", appauthor=False) / FILE_NAME
    path = config or (own if own.exists() else None)
    return path, parse("", source="defaults") if path is None else load(path)


def prompt() -> None:
    """Tell the wrapped servers of a client what its user wrote. A hook of the client runs this, with the hook's input
    on stdin; `callgate install` sets the hook up.

    It keeps nothing, prints nothing that a model would read, and ends with status 0 whatever happens.
    """
    hook.run()
