"""What the verbs share: options, opening the store and the log, times and ids as people type them."""

from __future__ import annotations

import getpass
import json
import re
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn
from typer.core import TyperCommand

from callgate.config import Config, Secret, load
from callgate.errors import CallgateError
from callgate.keyring import CHECKPOINT, SEAL, Keyring

if TYPE_CHECKING:
    from callgate.audit import AuditLog
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
WhyOption = Annotated[str, typer.Option("--why", metavar="REASON", help="Why; it goes on record.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
BEHIND_DASHES: Final = "callgate.cli.behind_dashes"
_SHORT: Final = 10
_SPAN: Final = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw])\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
# No id has it, so that the parser does not see an option.
_MARK: Final = "="
_DASHED: Final = re.compile(r"-[A-Za-z0-9_-]+")
# A short option may have its value right behind it; the ids of both kinds are longer than that.
_WHOLE: Final = 16


def file_to_write(path: Path | None) -> Path:
    """The configuration file of a command, or where the user's own would be."""
    from callgate.config import find
    from callgate.local.place import own_config

    return find(path) or Path(own_config())


def configuration(path: Path | None, url: str | None) -> Config:
    """The configuration in force, with the store that the command line names."""
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


class OpenedLog(NamedTuple):
    """The log in force, and what it stands on."""

    log: AuditLog
    store: Store
    keyring: Keyring


@contextmanager
def open_log(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[OpenedLog]:
    """The audit log in force; its sequencer does not run. With `create`, an empty one is begun and gets its keys."""
    with open_store(path, url, create=create) as (config, store):
        keyring = keys_of(config)
        if not create:
            keyring.require(SEAL, CHECKPOINT)
        yield OpenedLog(log_of(config, store, keyring), store, keyring)


def keys_of(config: Config) -> Keyring:
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
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 240, highlight=False)


def progress(*columns: ProgressColumn) -> Progress:
    """A bar for what may take longer than a second; only where somebody sees it, whatever FORCE_COLOR says."""
    return Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """The same for what cannot be counted."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(what):
        yield


def fields_of(value: Any, names: str) -> dict[str, Any]:
    """Some attributes by their names, for JSON."""
    return {name: getattr(value, name) for name in names.split()}


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """Something for the person, not for the pipe."""
    typer.echo(text, err=True)


def pick(ids: Iterable[str], given: str, what: str, advice: str) -> str:
    """The id that is meant by a beginning of it."""
    known = list(dict.fromkeys(ids))
    if given in known:
        return given
    found = [one for one in known if fits(one, given)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(short(found).values())
        raise CallgateError(f"{given!r} is the beginning of more than one {what}: {shown}", advice="Type more of it.")
    raise CallgateError(f"there is no {what} {given!r}", advice=advice)


def fits(one: str, given: str) -> bool:
    """Whether an id begins like this; a leading `-` may be left out."""
    return given != "" and (one.startswith(given) or _without_dashes(one).startswith(given))


def short(ids: Iterable[str]) -> dict[str, str]:
    """The beginning of each id that sets it apart from the others and can be typed."""
    known = [(one, _without_dashes(one)) for one in ids]
    shown: dict[str, str] = {}
    for one, bare in known:
        length = _SHORT
        while length < len(bare) and any(other != bare and other[:length] == bare[:length] for _, other in known):
            length += 1
        shown[one] = bare[:length]
    return shown


def _without_dashes(one: str) -> str:
    return one.lstrip("-") or one


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be taken back; without a terminal to ask on, refuse."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CallgateError("this cannot be taken back, and nobody is here to be asked", advice="Add --yes to do it.")
    if not typer.confirm(question):
        raise typer.Exit(1)


def parse_when(text: str | None, now: float) -> int | None:
    """`2h`, `30m`, `7d` ago, or an ISO date or time (local unless it says otherwise), in milliseconds."""
    if text is None:
        return None
    span = _SPAN.match(text.strip())
    if span is not None:
        return int((now - int(span["count"]) * _SECONDS[span["unit"]]) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        message = f"{text!r} is not a time; write 2h, 7d, 2026-11-15 or 2026-11-15T14:00"
        raise typer.BadParameter(message) from None


def parse_span(text: str) -> int:
    """`30m`, `90d` as seconds."""
    span = _SPAN.match(text.strip())
    if span is None or not int(span["count"]):
        raise typer.BadParameter(f"{text!r} is not a span of time; write 30m, 12h or 90d")
    return int(span["count"]) * _SECONDS[span["unit"]]


class BeforeDashes(TyperCommand):
    """Keeps what stands behind `--` apart: it is another program's command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[BEHIND_DASHES] = args[:at], args[at + 1 :]
        return super().parse_args(ctx, args)


class TakesIds(TyperCommand):
    """A command with an id among its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {
            name: not getattr(option, "is_flag", False) and not getattr(option, "count", False)
            for option in self.get_params(ctx)
            if option.param_type_name == "option"
            for name in (*option.opts, *option.secondary_opts)
        }
        return super().parse_args(ctx, _mark_id(args, known))


def _mark_id(args: list[str], known: dict[str, bool]) -> list[str]:
    """`known` says of each option whether a value follows. The id is the first of the arguments."""
    for place, word in enumerate(args):
        if place and known.get(args[place - 1], False):
            continue
        if word == "--" or not word.startswith("-"):
            break
        if _is_id(word, known):
            return [*args[:place], _MARK + word, *args[place + 1 :]]
    return args


def _is_id(word: str, known: dict[str, bool]) -> bool:
    if word in known or not _DASHED.fullmatch(word):
        return False
    return len(word) >= _WHOLE or not (word.startswith("--") or word[:2] in known)


def as_typed(word: str) -> str:
    """The id as it was typed."""
    return word.removeprefix(_MARK)
