"""`callgate check`: is callgate.toml right, and what does it say?"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from callgate import config
from callgate.config import Config, Server
from callgate.errors import ConfigError

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="PATH", help="The configuration; by default CALLGATE_CONFIG or callgate.toml."
    ),
]


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(
    path: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check the configuration and list the servers in it.

    Prints every problem with its file and line, and exits with 1 if there is any.
    """
    file = config.find(path)
    try:
        loaded = config.load(path)
    except ConfigError as error:
        if as_json:
            print_json(_refusal(error, file))
        else:
            print_problems(error)
        raise typer.Exit(1) from None
    notes = list(_notes(loaded))
    if as_json:
        servers = [_row(name, server) for name, server in loaded.servers.items()]
        print_json({"ok": True, "file": str(file) if file else None, "servers": servers, "notes": notes})
        return
    console = _console()
    console.print(Text(f"OK  {file or 'no configuration file: the defaults hold'}"))
    if loaded.servers:
        console.print(_table(loaded))
    else:
        console.print(Text("No servers yet. Add a table [servers.NAME] with a url or a command to callgate.toml."))
    for note in notes:
        console.print(Text(f"note: {note}"))


def print_problems(error: ConfigError) -> None:
    """Every problem on a line of its own, and what to do, on stderr."""
    typer.echo(error.message, err=True)
    if error.advice:
        typer.echo(error.advice, err=True)


def print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


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


def _table(loaded: Config) -> Table:
    table = Table("server", "kind", "target", "secrets", box=None, pad_edge=False, header_style="bold")
    for name, server in loaded.servers.items():
        row = _row(name, server)
        secrets = ", ".join(f"{key.partition('.')[2]}={shown}" for key, shown in row["secrets"].items())
        table.add_row(Text(name), Text(row["kind"]), Text(row["target"]), Text(secrets or "-"))
    return table


def _notes(loaded: Config) -> list[str]:
    """What is not wrong in the file but will not work on this machine now."""
    notes: list[str] = []
    for name, server in loaded.servers.items():
        if server.cwd is not None and not server.cwd.is_dir():
            notes.append(f"servers.{name}.cwd: there is no directory {server.cwd}")
        if server.command and shutil.which(server.argv[0], path=None) is None:
            notes.append(f"servers.{name}.command: {server.command[0]} is not found on the PATH")
    if loaded.policy.block_all:
        notes.append("policy.block_all is true: every call will be refused")
    return notes


def _console() -> Console:
    # A pipe has no width: long targets stay on their lines.
    return Console(width=None if sys.stdout.isatty() else 240, highlight=False)
