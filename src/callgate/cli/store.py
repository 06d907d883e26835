"""`callgate store` and `callgate keys`: look at the store, upgrade it, copy it; the secrets of the gateway."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.text import Text

from callgate.audit import note
from callgate.audit.log import key_rows
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    WhyOption,
    YesOption,
    configuration,
    confirm,
    connect,
    keys_of,
    open_log,
    operator,
    print_json,
    say,
    spinner,
)
from callgate.cli.printing import print_table
from callgate.errors import KeyringError, StoreError
from callgate.keyring import CHECKPOINT, SEAL

if TYPE_CHECKING:
    from callgate.config import Config
    from callgate.store import Store


def check(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Say whether the store can be used: schema, integrity, writing, sizes."""
    from callgate.store import inspect

    opened = connect(configuration(config, store))
    try:
        with spinner("looking through the store"):
            report = inspect.inspect(opened)
    finally:
        opened.close_sync()
    if as_json:
        print_json(report.as_dict())
    else:
        for name, value in report.as_dict().items():
            if name not in ("ok", "problems"):
                typer.echo(f"{name.replace('_', ' '):<16} {value}")
        for problem in report.problems:
            typer.secho(f"problem: {problem}", fg="red", err=True)
        typer.echo("The store is fine." if report.ok else "The store cannot be used like this.", err=not report.ok)
    if not report.ok:
        raise typer.Exit(1)


def size(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Say how large the store is, how fast it grows, and how long the disk lasts."""
    from callgate.store import inspect

    loaded = configuration(config, store)
    days = loaded.audit.retention_days
    opened = connect(loaded)
    try:
        found = inspect.growth(opened, int(time.time() * 1000), days)
    finally:
        opened.close_sync()
    if as_json:
        print_json(found.as_dict())
        return
    typer.echo(f"size      {decimal(found.bytes)} for {found.records:,} records, {found.bytes_each:,} bytes each")
    typer.echo(f"last day  {found.last_day:,} records, {decimal(found.daily)}")
    if found.free is not None:
        typer.echo(f"free      {decimal(found.free)} on its disk")
    if not found.last_day:
        typer.echo("Nothing was recorded in the last day, so nobody can say how fast it grows.")
    elif found.kept_bytes is not None:
        typer.echo(f"Records are kept for {days} days. At this rate they take {decimal(found.kept_bytes)} in the end.")
    else:
        typer.echo("Records are kept for ever: audit.retention_days is 0.")
    if found.days_left is not None:
        advice = "Lower audit.retention_days in callgate.toml, or make room."
        typer.echo(f"The disk is full in about {found.days_left:,} days. {advice}")


def upgrade(config: ConfigOption = None, store: StoreOption = None) -> None:
    """Bring the store to the schema of this Callgate, or create it."""
    opened = connect(configuration(config, store), create=True)
    try:
        with spinner("upgrading the store"):
            before, after = opened.upgrade()
    finally:
        opened.close_sync()
    if before == after:
        typer.echo(f"The store is at schema {after} already.")
    else:
        typer.echo(f"The store went from schema {before or 'none'} to {after}.")


def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")],
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Copy the store while gateways go on. `callgate store restore` puts it back."""
    loaded = configuration(config, store)
    opened = connect(loaded)
    try:
        _copy(opened, target)
    finally:
        opened.close_sync()
    typer.echo(f"Copied to {target}. The keys are not in it; they are in {loaded.store.keys_path}.")


def restore(
    source: Annotated[Path, typer.Argument(help="A copy that `callgate store backup` made.")],
    why: WhyOption,
    config: ConfigOption = None,
    store: StoreOption = None,
    yes: YesOption = False,
) -> None:
    """Put a copy back in the place of the store, and accept in the log what is lost by it.

    Gateways may run: they refuse calls until it is done. What is in the store now is gone; copy it before, with
    `callgate store backup`.
    """
    from callgate.store.sqlite import SqliteBackend

    loaded = configuration(config, store)
    _check_copy(source, loaded)
    opened = connect(loaded)
    try:
        backend = opened.backend
        if not isinstance(backend, SqliteBackend):
            raise StoreError(
                "a PostgreSQL store is restored with PostgreSQL's own tool",
                advice="Run `pg_restore`, then `callgate audit accept-restore --why REASON`.",
            )
        confirm(f"Put {source} in the place of the store? What is in the store now is gone.", yes=yes)
        with spinner("putting the copy back"):
            backend.put_back(source)
    finally:
        opened.close_sync()
    with open_log(config, store) as (log, _, _):
        lost = log.forked is not None
        if lost:
            log.accept_restore(operator(), why)
    text = "What is lost by it is accepted in the log." if lost else "Nothing is lost by it in the log."
    typer.echo(f"{source} is the store now. {text}")


def _check_copy(source: Path, loaded: Config) -> None:
    """A copy of another store, or of another schema, must not take the place of this one."""
    from callgate.store import Store

    if not source.is_file():
        raise StoreError(f"there is no file {source}", advice="Name a copy that `callgate store backup` made.")
    copy = Store.open(f"sqlite:///{source}", create=False)
    try:
        with copy.audit_reading() as tables:
            head = tables.head()
    finally:
        copy.close_sync()
    if head is not None:
        note.verify(head.note, keys_of(loaded).public_keys())


def _copy(opened: Store, target: Path) -> None:
    from callgate.store.sqlite import SqliteBackend

    backend = opened.backend
    if not isinstance(backend, SqliteBackend):
        url: Any = getattr(backend, "url", None)
        shown = url.set(drivername="postgresql", password=None).render_as_string() if url is not None else "URL"
        raise StoreError(
            "a PostgreSQL store is copied with PostgreSQL's own tool",
            advice=f"Run `pg_dump --format=custom --file={target} '{shown}'`, and `pg_restore` to restore.",
        )
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise StoreError(
            f"{target} cannot be written: {error.strerror}", advice="Name a file that does not exist yet."
        ) from None
    with spinner("copying the store"):
        backend.copy(target)


def list_keys(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show which keys there are; never what they hold."""
    keyring = keys_of(configuration(config, store))
    rows = key_rows(keyring)
    if as_json:
        print_json({"directory": str(keyring.directory), "keys": rows})
        return
    if not rows:
        typer.echo(f"No keys in {keyring.directory} yet; the first gateway makes them.")
        return
    keys = ("name", "version", "state", "source", "fingerprint")
    cells = ([Text(str(row[key])) for key in keys] for row in rows)
    print_table(("key", "version", "state", "from", "fingerprint"), cells)


def rotate(
    name: Annotated[
        str, typer.Argument(help="checkpoint, seal, or another name that `keys list` shows.")
    ] = "checkpoint",
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Make a new version of a key; the old one keeps verifying what it signed."""
    with open_log(config, store, create=True) as (log, opened, keyring):
        known = {CHECKPOINT, SEAL, *keyring.names()}
        if name not in known:
            raise KeyringError(f"there is no key {name!r}", advice=f"Keys here: {', '.join(sorted(known))}.")
        # Everything so far gets the old key's signature first.
        with spinner("signing what is on record"):
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
