"""The command line: a verb is a module or a package here, with `register(app)`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any, Final

import typer

from callgate._version import __version__
from callgate.errors import CallgateError

# Verb and module, with the function that registers it if that is not `register`; in the order of the help.
VERBS: Final = {
    "demo": "demo",
    "install": "install",
    "uninstall": "install.uninstall",
    "upgrade": "install.upgrade",
    "serve": "serve",
    "wrap": "wrap",
    "status": "gateway",
    "stop": "gateway",
    "restart": "gateway",
    "logs": "gateway",
    "service": "service",
    "prompt": "prompt",
    "call": "call",
    "check": "check",
    "doctor": "doctor",
    "config": "check:register_config",
    "review": "review",
    "tools": "tools",
    "labels": "labels",
    "policy": "policy",
    "agents": "agents",
    "block-all": "block_all",
    "enroll": "enroll",
    "users": "users",
    "credentials": "users:register_credentials",
    "approvals": "approvals",
    "watch": "watch",
    "session": "session",
    "quarantine": "session:register_quarantine",
    "audit": "audit",
    "store": "store",
    "keys": "store:register_keys",
    "completion": "completion",
}


def main() -> None:
    """The `callgate` script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Carry out one command; its exit code."""
    if arguments[:1] == ["__complete"]:
        from callgate.cli.completion import answer

        return answer(arguments[1:])
    try:
        verb = arguments[0] if arguments and arguments[0] in VERBS else ""
        _command(verb, _asks_for_help(arguments), colour())(args=arguments, prog_name="callgate")
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
    typer.secho(f"callgate: {error.message}", fg="red", err=True, color=colour())
    if error.advice:
        typer.echo(error.advice, err=True)


@cache
def _command(verb: str, helps: bool, _colour: bool | None) -> Callable[..., Any]:
    """Made once for each verb by a process that carries out several."""
    return typer.main.get_command(build([verb, *(["--help"] if helps else [])]))


def _asks_for_help(arguments: list[str]) -> bool:
    return any(word in ("-h", "--help") for word in takewhile("--".__ne__, arguments))


def build(arguments: list[str]) -> typer.Typer:
    """The app with the verb that is asked for, or with all of them."""
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # `callgate completion SHELL` instead: it knows names, and needs no module but the verb's.
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "color": colour()},
        help="Checks every call that AI agents make to MCP tools.",
    )
    app.callback()(_options)
    # One verb needs one module: `callgate wrap` starts with every client, so it starts light.
    asked = arguments[0] if arguments else ""
    for place in [VERBS[asked]] if asked in VERBS else dict.fromkeys(VERBS.values()):
        module, _, function = place.partition(":")
        getattr(import_module(f"callgate.cli.{module}"), function or "register")(app)
    if asked not in VERBS or _asks_for_help(arguments):
        from callgate.cli.help_texts import attach

        attach(app)
    return app


def colour() -> bool | None:
    """Whether to use colours: NO_COLOR and FORCE_COLOR say it, else whether a terminal is there (None)."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


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
