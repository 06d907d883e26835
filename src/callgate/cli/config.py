"""`callgate config`: the configuration in force, and the schema for editors."""

from __future__ import annotations

import typer

from callgate.cli.common import ConfigOption, JsonOption, print_json


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Show the configuration in force, or its JSON Schema.")
    verbs.command("show")(show)
    verbs.command("schema")(schema)
    app.add_typer(verbs, name="config")


def show(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print every setting in force, defaults and environment included, as JSON. Secrets are masked."""
    from callgate import config

    del as_json  # It is JSON anyway; the option is there because every other listing has it.

    print_json(config.show(config.load(path)))


def schema() -> None:
    """Print the JSON Schema of callgate.toml, for editors that complete and check it."""
    from callgate import config

    print_json(config.schema())
