"""The command line: a verb is a function of a module or a package here, and stands in the table below."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from itertools import takewhile
from pathlib import Path
from types import CodeType
from typing import Annotated, Any, Final

import typer

from callgate._version import __version__
from callgate.errors import CallgateError

# Each verb, in the order of the help: the module with a function of its name; for a group its help and its verbs, with
# their functions where those are called otherwise.
VERBS: Final[dict[str, tuple[str, ...]]] = {
    "demo": ("demo",),
    "install": ("install",),
    "uninstall": ("install.uninstall",),
    "upgrade": ("install.upgrade",),
    "serve": ("serve",),
    "wrap": ("wrap",),
    "status": ("gateway",),
    "stop": ("gateway",),
    "restart": ("gateway",),
    "logs": ("gateway",),
    "service": (
        "service",
        "Your gateway as a service of your session, which keeps it running.",
        "install uninstall status",
    ),
    "prompt": ("wrap",),
    "call": ("call",),
    "check": ("check",),
    "doctor": ("doctor",),
    "config": ("check", "Show the configuration in force, or its JSON Schema.", "show schema"),
    "review": ("review",),
    "tools": (
        "tools",
        "The tools that servers list, and who approved which of them.",
        """list:list_tools show diff approve:decide.approve block:decide.block withdraw:decide.withdraw
        together:decide.together history servers:servers.servers data:arguments.data
        forget:servers.forget verify:servers.verify""",
    ),
    "labels": ("labels", "What tools do with data, and who said so.", "show report starter"),
    "policy": (
        "policy",
        "The rules that decide which calls pass, wait for a person or stop.",
        "check facts explain replay test:try_cases",
    ),
    "agents": (
        "agents",
        "Who may call; and for agents: keys, directories, signatures.",
        """list:list_agents show add:change.add remove:change.remove refresh:change.refresh why keygen:keys.keygen
        directory:keys.directory sign:requests.sign verify:requests.verify""",
    ),
    "block-all": (
        "block_all",
        "The kill switch: refuse every call, in every gateway on the store.",
        "on off status",
    ),
    "enroll": ("enroll",),
    "users": ("users", "The people who approve calls.", "list:list_users add role remove"),
    "grants": (
        "grants",
        "What people sign beforehand for an agent's calls.",
        "list:list_grants show link revoke",
    ),
    "groups": ("groups", "Groups of people who approve calls.", "list:list_groups add remove"),
    "credentials": ("users", "The passkeys that approve calls.", "list:list_credentials rename revoke"),
    "approvals": ("approvals", "The calls that wait for a person.", "list:list_approvals show refuse"),
    "watch": ("watch",),
    "session": (
        "session",
        "What agents' sessions have taken in, and what they did with it.",
        "list:list_sessions show declassify",
    ),
    "quarantine": (
        "session",
        "Results that are kept back until somebody has read them.",
        "list:list_held show:show_held release drop",
    ),
    "audit": (
        "audit",
        "What was decided, what happened, and the proof of both.",
        "list:list_calls show verify export receipt checkpoint witnesses prune accept-restore:accept_restore",
    ),
    "witness": ("witness", "Cosign somebody else's audit log, so that nobody can rewrite it unseen.", "serve key"),
    "store": ("store", "The database with the audit log and the switches.", "check size upgrade backup restore"),
    "keys": ("store", "The keys that sign and seal the audit log.", "list:list_keys rotate export"),
    "completion": ("completion",),
}
# Commands that read their words in another way: by the name of the class in `common`.
_CLASSES: Final = {
    "call": "BeforeDashes",
    **dict.fromkeys(
        ("agents show", "agents why", "approvals show", "approvals refuse", "credentials rename", "credentials revoke"),
        "TakesIds",
    ),
}
_PANELS: Final = dict.fromkeys(
    ("agents keygen", "agents directory", "agents sign", "agents verify"), "For an agent's own operator"
)


def main() -> None:
    """The `callgate` script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Carry out one command; its exit code."""
    if arguments == ["--version"]:
        # No verb is loaded for it.
        typer.echo(f"callgate {__version__}")
        return 0
    if arguments[:1] == ["__complete"]:
        from callgate.cli.completion import answer

        return answer(arguments[1:])
    try:
        verb = arguments[0] if arguments and arguments[0] in VERBS else ""
        if arguments in ([], ["-h"], ["--help"]):
            typer.main.get_command(overview())(args=arguments, prog_name="callgate")
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
    app = _empty()
    # One verb needs one module: `callgate wrap` starts with every client, so it starts light.
    asked = arguments[0] if arguments else ""
    for verb in [asked] if asked in VERBS else VERBS:
        _add(app, verb)
    if asked not in VERBS or _asks_for_help(arguments):
        from callgate.cli.help_texts import attach

        attach(app)
    return app


def overview() -> typer.Typer:
    """The app for its own help: each verb with what it says of itself, and no verb's module is loaded for that."""
    app = _empty()
    for verb, (place, *group) in VERBS.items():
        if group:
            app.add_typer(typer.Typer(help=group[0]), name=verb)
        else:
            app.command(verb, help=_docstring(f"{place}.{verb}"))(lambda: None)
    return app


def _docstring(path: str) -> str | None:
    """What a function says of itself, out of its module's code, which is not run."""
    module, _, name = path.rpartition(".")
    file = Path(__file__).parent.joinpath(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    code = SourceFileLoader(f"callgate.cli.{module}", str(file)).get_code(f"callgate.cli.{module}")
    for part in code.co_consts if code is not None else ():
        if (
            isinstance(part, CodeType)
            and part.co_name == name
            and part.co_consts
            and isinstance(part.co_consts[0], str)
        ):
            return part.co_consts[0]
    return _function(path).__doc__


def _empty() -> typer.Typer:
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # `callgate completion SHELL` instead: it knows names, and needs no module but the verb's.
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "color": colour()},
        help="Checks every call that AI agents make to MCP tools.",
    )
    app.callback()(_options)
    return app


def _add(app: typer.Typer, verb: str) -> None:
    place, *group = VERBS[verb]
    if not group:
        app.command(verb, **_options_of(verb))(_function(f"{place}.{verb}"))
        return
    text, words = group
    verbs = typer.Typer(no_args_is_help=True, help=text)
    for name, _, function in (word.partition(":") for word in words.split()):
        verbs.command(name, **_options_of(f"{verb} {name}"))(_function(f"{place}.{function or name}"))
    app.add_typer(verbs, name=verb)


def _function(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"callgate.cli.{module}"), name)
    return found


def _options_of(words: str) -> dict[str, Any]:
    found: dict[str, Any] = {"rich_help_panel": _PANELS[words]} if words in _PANELS else {}
    if words in _CLASSES:
        found["cls"] = _function(f"common.{_CLASSES[words]}")
    return found


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
