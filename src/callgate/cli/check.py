"""`callgate check`: is callgate.toml right, and what does it say?"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from callgate.cli.check_trust import refused, trust_lines, trust_problems, trust_row
from callgate.cli.common import ConfigOption, JsonOption, console, print_json, say
from callgate.cli.people import console_url
from callgate.cli.pinned import options_of

# What only this verb needs is imported by it: every other verb would wait for it too.
if TYPE_CHECKING:
    from callgate.config import Config, Server
    from callgate.errors import ConfigError


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the configuration and list the servers in it, and which of their tools need a person's approval.

    Labels of tools, files of annotations and the policy are read too. Prints every problem with its file and line, and
    exits with 1 if there is any.
    """
    from callgate import config
    from callgate.errors import ConfigError

    file = config.find(path)
    try:
        loaded = config.load(path)
        if problems := trust_problems(loaded, file):
            raise refused(problems)
    except ConfigError as error:
        if as_json:
            print_json(_refusal(error, file))
        else:
            say(f"{error.message}\n{error.advice}".rstrip())
        raise typer.Exit(1) from None
    if as_json:
        servers = [_row(name, server) for name, server in loaded.servers.items()]
        shown = str(file) if file else None
        found = {"approval": _approval(loaded), "trust": trust_row(loaded), "notes": _notes(loaded)}
        print_json({"ok": True, "file": shown, "servers": servers, **found})
    else:
        _print(loaded, file, options_of(path, None))


def _print(loaded: Config, file: Path | None, options: tuple[str, ...]) -> None:
    typer.echo(f"OK  {file or 'no configuration file: the defaults hold'}")
    if loaded.servers:
        _print_servers(loaded)
    else:
        typer.echo("No servers yet. Add a table [servers.NAME] with a url or a command to callgate.toml.")
    if (approval := _approval(loaded)) is not None:
        _print_approval(approval)
    if loaded.servers:
        show = shlex.join(["callgate", "labels", "show", *options])
        for line in trust_lines(trust_row(loaded), show):
            typer.echo(line)
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


def _approval(loaded: Config) -> dict[str, Any] | None:
    """Which calls need a person, whom, and where; None where none does."""
    if not loaded.approves:
        return None
    servers = [
        {"name": name, "tools": list(server.approval.tools), "user": server.approval.user or loaded.approval.user}
        for name, server in loaded.servers.items()
    ]
    return {"console": console_url(loaded), "rp_id": loaded.approval.rp_id, "servers": servers}


def _print_approval(approval: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("server", "needs approval", "who is asked", box=None, pad_edge=False, header_style="bold")
    for row in approval["servers"]:
        tools = ", ".join([*row["tools"], "tools that it marks itself"])
        table.add_row(Text(row["name"]), Text(tools), Text(row["user"] or "the only person there is"))
    typer.echo("")
    if approval["servers"]:
        console().print(table)
    where = approval["console"] or "http://localhost, on the free port that the gateway takes"
    typer.echo(f"Calls are approved at {where}, with passkeys for {approval['rp_id']}.")


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
