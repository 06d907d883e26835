"""What the verbs share: options, opening the store and the log, printing."""

from __future__ import annotations

import getpass
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

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


def configuration(path: Path | None, url: str | None) -> Config:
    """The configuration in force, with the store that the command line names."""
    import msgspec

    from callgate.config import Secret, load

    config = load(path)
    if url is None:
        return config
    if url.startswith("sqlite:///~"):
        url = f"sqlite:///{Path(url.removeprefix('sqlite:///')).expanduser()}"
    return msgspec.structs.replace(config, store=msgspec.structs.replace(config.store, url=Secret(url)))


def connect(config: Config, *, create: bool = False) -> Store:
    """The configured store, whatever its schema is."""
    from callgate.store import Store

    return Store.connect(config.store.url.reveal(), busy_seconds=config.store.busy_seconds, create=create)


def store_file(config: Config) -> Path | None:
    """The file of the configured store, whether it is there or not; None of a store elsewhere."""
    url = config.store.url.reveal()
    return Path(url.removeprefix("sqlite:///").partition("?")[0]) if url.startswith("sqlite:///") else None


@contextmanager
def open_store(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[tuple[Config, Store]]:
    """The configuration and the store in force."""
    from callgate.store import Store

    config = configuration(path, url)
    store = Store.open(
        config.store.url.reveal(),
        durability=config.store.durability,
        busy_seconds=config.store.busy_seconds,
        create=create,
    )
    try:
        yield config, store
    finally:
        store.close_sync()


class Opened(NamedTuple):
    """The log in force, and what it stands on."""

    log: AuditLog
    store: Store
    keyring: Keyring


@contextmanager
def open_log(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[Opened]:
    """The audit log in force; its sequencer does not run. With `create`, an empty one is begun and gets its keys."""
    from callgate.keyring import CHECKPOINT, SEAL

    with open_store(path, url, create=create) as (config, store):
        keyring = keys_of(config)
        if not create:
            keyring.require(SEAL, CHECKPOINT)
        yield Opened(log_of(config, store, keyring), store, keyring)


def keys_of(config: Config) -> Keyring:
    from callgate.keyring import Keyring

    return Keyring(config.store.keys_path)


def log_of(config: Config, store: Store, keyring: Keyring) -> AuditLog:
    """The log of a store; refuses keys that are not its own."""
    from callgate.audit import AuditLog

    return AuditLog(store, keyring, retention_days=config.audit.retention_days)


def operator() -> str:
    """Who types this, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def console(*, stderr: bool = False) -> Console:
    """A console that keeps long lines whole in a pipe. NO_COLOR and FORCE_COLOR are rich's to see to."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 240, highlight=False)


def progress(*columns: ProgressColumn) -> Progress:
    """A bar for what may take longer than a second; only where somebody sees it, whatever FORCE_COLOR says."""
    from rich.progress import Progress

    return Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def working(what: str) -> Iterator[None]:
    """The same for what cannot be counted."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(what):
        yield


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """Something for the person, not for the pipe."""
    typer.echo(text, err=True)
