"""`callgate agents why`: what would become of an agent's call, and which line of which table says so."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from callgate.app.agent_registry import CallForecast, forecast
from callgate.cli.agents_office import office
from callgate.cli.common import ConfigOption, JsonOption, StoreOption, print_json
from callgate.cli.dashed import as_typed
from callgate.cli.people import plain


def why(
    agent: Annotated[
        str,
        typer.Argument(metavar="AGENT|KEYID", help="An agent, or the thumbprint of its key.", callback=as_typed),
    ],
    tool: Annotated[str, typer.Argument(metavar="[TOOL]", help="The tool it wants to call.")] = "",
    *,
    server: Annotated[str, typer.Option("--server", help="The server that has the tool.")] = "",
    directory: Annotated[
        str | None,
        typer.Option("--directory", metavar="URL", help="The directory that its requests name in Signature-Agent."),
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell whether an agent is let in and may call a tool, and why. For a key, its directory is looked up."""
    with office(config, store) as opened:
        answer = opened.wait(
            forecast(opened.config, opened.shelf, opened.store, CallForecast(agent, server, tool), directory=directory)
        )
    if as_json:
        print_json(msgspec.to_builtins(answer))
        return
    for line in answer.lines:
        typer.echo(plain(line, 500))
    what = f"call {tool}" if tool else "call"
    if answer.reason:
        typer.echo(f"Refused: {answer.reason}.")
    else:
        typer.echo(f"{plain(answer.agent)} may {plain(what)}, as far as the rules for agents say.")
