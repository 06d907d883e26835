"""What the verbs share: options, opening the store and the log, printing."""

from __future__ import annotations

import getpass
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from callgate.audit import AuditLog
    from callgate.config import Config
    from callgate.keyring import Keyring
    from callgate.store import Store

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="PATH",
        envvar="CALLGATE_CONFIG",
        help="The configuration; by default callgate.toml here or in the user's configuration folder.",
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Another store: sqlite:///FILE or postgresql://USER@HOST/DATABASE."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def store_url(config: Config, url: str | None) -> str:
    """The store to use: the one named on the command line, or the configured one."""
    return config.store.url.reveal() if url is None else url


def keys_dir(config: Config, url: str | None = None) -> Path:
    """Where the keys of a store live: as configured, else beside a SQLite file, else in the state folder."""
    if config.store.keys_dir is not None:
        return config.store.keys_dir
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(store_url(config, url))
    except ArgumentError:
        parsed = None  # opening the store says what is wrong with it
    if parsed is not None and parsed.get_backend_name() == "sqlite" and parsed.database:
        return Path(parsed.database).expanduser().parent / "keys"
    import platformdirs

    return platformdirs.user_state_path("callgate", appauthor=False) / "keys"


def open_keyring(config: Config, url: str | None = None) -> Keyring:
    from callgate.keyring import Keyring

    return Keyring(keys_dir(config, url))


@contextmanager
def open_store(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[tuple[Config, Store]]:
    """The configuration and the store in force."""
    from callgate.config import load
    from callgate.store import Store

    config = load(path)
    store = Store.open(
        store_url(config, url),
        durability=config.store.durability,
        busy_seconds=config.store.busy_seconds,
        create=create,
    )
    try:
        yield config, store
    finally:
        store.close_sync()


@contextmanager
def open_log(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[AuditLog]:
    """The audit log in force; its sequencer does not run."""
    from callgate.audit import AuditLog
    from callgate.keyring import SEAL

    with open_store(path, url, create=create) as (config, store):
        keyring = open_keyring(config, url)
        if not create:
            keyring.require(SEAL)
        yield AuditLog(store, keyring, retention_days=config.audit.retention_days)


def operator() -> str:
    """Who types this, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def console(*, stderr: bool = False) -> Console:
    """A console that keeps long lines whole in a pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 240, highlight=False)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """Something for the person, not for the pipe."""
    typer.echo(text, err=True)
