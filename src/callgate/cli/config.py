"""`callgate config`: the configuration in force, and the schema for editors."""

from __future__ import annotations

import typer

from callgate import config
from callgate.cli.check import ConfigOption, print_json, print_problems
from callgate.errors import ConfigError


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Show the configuration in force, or its JSON Schema.")
    verbs.command("show")(show)
    verbs.command("schema")(schema)
    app.add_typer(verbs, name="config")


def show(path: ConfigOption = None) -> None:
    """Print every setting in force, defaults and environment included, as JSON. Secrets are masked."""
    try:
        print_json(config.show(config.load(path)))
    except ConfigError as error:
        print_problems(error)
        raise typer.Exit(1) from None


def schema() -> None:
    """Print the JSON Schema of callgate.toml, for editors that complete and check it."""
    print_json(config.schema())
