"""`callgate check`: is callgate.toml right, and what does it say?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from callgate.cli.common import ConfigOption, JsonOption, console, print_json, say

# What only this verb needs is imported by it: every other verb would wait for it too.
if TYPE_CHECKING:
    from callgate.config import Config, Server
    from callgate.errors import ConfigError


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the configuration and list the servers in it.

    Prints every problem with its file and line, and exits with 1 if there is any.
    """
    from callgate import config
    from callgate.errors import ConfigError

    file = config.find(path)
    try:
        loaded = config.load(path)
    except ConfigError as error:
        if as_json:
            print_json(_refusal(error, file))
        else:
            say(f"{error.message}\n{error.advice}".rstrip())
        raise typer.Exit(1) from None
    if as_json:
        servers = [_row(name, server) for name, server in loaded.servers.items()]
        shown = str(file) if file else None
        print_json({"ok": True, "file": shown, "servers": servers, "notes": _notes(loaded)})
    else:
        _print(loaded, file)


def _print(loaded: Config, file: Path | None) -> None:
    typer.echo(f"OK  {file or 'no configuration file: the defaults hold'}")
    if loaded.servers:
        _print_servers(loaded)
    else:
        typer.echo("No servers yet. Add a table [servers.NAME] with a url or a command to callgate.toml.")
    for note in _notes(loaded):
        typer.echo(f"note: {note}")


def _refusal(error: ConfigError, file: Path | None) -> dict[str, Any]:
    problems = [{**problem._asdict(), "message": str(problem)} for problem in error.problems]
    return {
        "ok": False,
        "file": str(file) if file else None,
        "problems": problems or [{"source": str(file), "line": None, "key": "", "message": error.message}],
        "advice": error.advice,
    }


def _row(name: str, server: Server) -> dict[str, Any]:
    secrets = {
        f"{table}.{key}": str(value) for table in ("headers", "env") for key, value in getattr(server, table).items()
    }
    return {"name": name, "kind": server.kind, "target": server.target, "secrets": secrets}


def _print_servers(loaded: Config) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("server", "kind", "target", "secrets", box=None, pad_edge=False, header_style="bold")
    for name, server in loaded.servers.items():
        row = _row(name, server)
        secrets = ", ".join(f"{key.partition('.')[2]}={shown}" for key, shown in row["secrets"].items())
        table.add_row(Text(name), Text(row["kind"]), Text(row["target"]), Text(secrets or "-"))
    console().print(table)


def _notes(loaded: Config) -> list[str]:
    """What is not wrong in the file but will not work on this machine now."""
    notes: list[str] = []
    for name, server in loaded.servers.items():
        if server.cwd is not None and not server.cwd.is_dir():
            notes.append(f"servers.{name}.cwd: there is no directory {server.cwd}")
        if server.command and shutil.which(server.argv[0]) is None:
            notes.append(f"servers.{name}.command: {server.command[0]} is not found on the PATH")
    if loaded.policy.block_all:
        notes.append("policy.block_all is true: every call will be refused")
    return notes
