"""`callgate serve`: the gateway over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from callgate.local.place import Place


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="CALLGATE_CONFIG", help="Configuration file.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", envvar="CALLGATE_LISTEN", help="Address to listen on, HOST:PORT.")
    ] = None,
) -> None:
    """Serve the configured MCP servers over Streamable HTTP, with every call checked and recorded."""
    import os

    from callgate.app.event_loop import new_event_loop
    from callgate.app.serve import serve as run
    from callgate.cli.setting_up import set_up
    from callgate.cli.showing import make_console
    from callgate.config import find, load
    from callgate.errors import ConfigError
    from callgate.telemetry.logs import configure, get
    from callgate.transport.http.app import endpoint

    if listen is not None:
        os.environ["CALLGATE_LISTEN"] = listen
    settings = load(config)
    if not settings.servers:
        raise ConfigError(
            "no server is configured",
            advice='Add a table such as [servers.files] with command = ["PROGRAM", "ARGUMENT"] or url = "https://…" '
            "to callgate.toml, or try `callgate demo`.",
        )
    configure(settings.logging.level, settings.logging.format)
    log = get("callgate.gateway")
    welcome = set_up(config, settings)

    def listening(address: str) -> None:
        log.info("listening", address=address)
        for name, server in settings.servers.items():
            log.info("serving", server=name, endpoint=address + endpoint(name, server.pinning.group or ""))
        welcome(address)

    path = config or find()
    with _place(path) as at, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run(settings, path, listening, make_console, at=at))
    log.info("stopped")


@contextlib.contextmanager
def _place(path: Path | None) -> Iterator[Place | None]:
    """Where wrapped servers of this user find the gateway; None where another has that place, or there is none."""
    from callgate.local.place import LocalError, Place
    from callgate.telemetry.logs import get

    with contextlib.ExitStack() as stack:
        at: Place | None = None
        try:
            from callgate.local.holding import Taken, holding

            wanted = Place(None if path is None else str(path))
            stack.enter_context(holding(wanted, 0))
            at = wanted
        except ImportError:  # Windows
            pass
        except Taken:
            get("callgate.gateway").info("another gateway stands before wrapped servers", config=str(path))
        except LocalError as error:
            get("callgate.gateway").warning("wrapped servers are not taken", error=error.message)
        yield at
