"""The command line: one module a verb, each with `register(app)`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from callgate._version import __version__
from callgate.errors import CallgateError

# Verb and module, in the order of the help.
VERBS: Final = {
    "demo": "demo",
    "serve": "serve",
    "wrap": "wrap",
    "call": "call",
    "check": "check",
    "config": "config",
    "review": "review",
    "tools": "tools",
    "labels": "labels",
    "policy": "policy",
    "agents": "agents",
    "block-all": "block_all",
    "enroll": "enroll",
    "users": "users",
    "credentials": "credentials",
    "approvals": "approvals",
    "session": "session",
    "quarantine": "quarantine",
    "audit": "audit",
    "store": "store",
    "keys": "keys",
}


def main() -> None:
    """The `callgate` script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Carry out one command; its exit code."""
    try:
        build(arguments)(args=arguments, prog_name="callgate")
    except CallgateError as error:
        complain(error)
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 130
    return 0


def complain(error: CallgateError) -> None:
    """One red line that says what is wrong, then what to do about it."""
    typer.secho(f"callgate: {error.message}", fg="red", err=True)
    if error.advice:
        typer.echo(error.advice, err=True)


def build(arguments: list[str]) -> typer.Typer:
    """The app with the verb that is asked for, or with all of them."""
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="The checked door between AI agents and the MCP tools they call.",
    )
    app.callback()(_options)
    # One verb needs one module: `callgate wrap` starts with every client, so it starts light.
    asked = arguments[0] if arguments else ""
    for module in [VERBS[asked]] if asked in VERBS else VERBS.values():
        name = f"callgate.cli.{module}"
        if find_spec(name) is not None:
            import_module(name).register(app)
    return app


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"callgate {__version__}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
