"""`callgate keys`: the gateway's own secrets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    configuration,
    console,
    keys_of,
    open_log,
    operator,
    print_json,
    say,
    working,
)


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="The keys that sign and seal the audit log.")
    verbs.command("list")(list_keys)
    verbs.command("rotate")(rotate)
    verbs.command("export")(export)
    app.add_typer(verbs, name="keys")


def list_keys(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show which keys there are; never what they hold."""
    from callgate.audit.seal import key_rows

    keyring = keys_of(configuration(config, store))
    rows = key_rows(keyring)
    if as_json:
        print_json({"directory": str(keyring.directory), "keys": rows})
        return
    if not rows:
        typer.echo(f"No keys in {keyring.directory} yet; the first gateway makes them.")
        return
    from rich.table import Table

    table = Table("key", "version", "state", "from", "fingerprint", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(row["name"], str(row["version"]), row["state"], row["source"], row["fingerprint"])
    console().print(table)


def rotate(
    name: Annotated[
        str, typer.Argument(help="checkpoint, seal, or another name that `keys list` shows.")
    ] = "checkpoint",
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Make a new version of a key; the old one keeps verifying what it signed."""
    from callgate.errors import KeyringError
    from callgate.keyring import CHECKPOINT, SEAL

    with open_log(config, store, create=True) as (log, opened, keyring):
        known = {CHECKPOINT, SEAL, *keyring.names()}
        if name not in known:
            raise KeyringError(f"there is no key {name!r}", advice=f"Keys here: {', '.join(sorted(known))}.")
        # Everything so far gets the old key's signature first.
        with working("signing what is on record"):
            log.catch_up()
        key = keyring.rotate(name)
        detail: dict[str, Any] = {"name": name, "version": key.version}
        with opened.audit_writing() as tables:
            tables.insert(log.admin("keys.rotate", operator(), detail))
        log.catch_up()
    typer.echo(f"{name} is at version {key.version} now; running gateways use it within a second or two.")
    if name == CHECKPOINT:
        say("Give the new public key to whoever verifies receipts: `callgate keys export`.")


def export(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Print the log's public keys, the current one first. Secrets are never printed."""
    from callgate.audit import note

    with open_log(config, store, create=True) as (log, opened, keyring):
        log.catch_up()
        with opened.audit_reading() as tables:
            head = tables.head()
        assert head is not None
        origin = note.parse(head.note).origin
        keys = [note.VerifierKey(origin, public) for public in keyring.public_keys()]
    if as_json:
        print_json({"origin": origin, "keys": [{"key": str(key), "fingerprint": key.fingerprint} for key in keys]})
        return
    for key in keys:
        typer.echo(str(key))
