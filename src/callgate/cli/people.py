"""What the verbs on people, passkeys and approvals share: the service behind them, links, and how rows are printed."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import typer

from callgate.cli.common import console, keys_of, log_of, open_store

if TYPE_CHECKING:
    from callgate.approval import Approvals
    from callgate.approval.base import Witness
    from callgate.approval.reach import Demand
    from callgate.config import Config
    from callgate.store import Store

T = TypeVar("T")

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]

_SHORT: Final = 10
_CELL: Final = 120
_PORTS: Final = {"http": 80, "https": 443}
_CONNECT_SECONDS: Final = 1.0


class Opened(NamedTuple):
    """The service on the store in force; `admin` makes the audit row of what an operator does."""

    approvals: Approvals
    config: Config
    admin: Witness
    runner: asyncio.Runner
    store: Store

    async def demands(self) -> list[Demand] | None:
        """The tools that do not take every passkey; None where nobody is asked about any call."""
        from callgate.app.approval import demands
        from callgate.store import SqlPins

        return await demands(self.config, SqlPins(self.store))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out what the service does, from a command."""
        return self.runner.run(work)


@contextmanager
def reading(path: Path | None, url: str | None) -> Iterator[Opened]:
    """The service, to look at what it holds; needs no keys."""
    from callgate.approval.base import no_witness

    with open_store(path, url) as (config, store), asyncio.Runner() as runner:
        yield Opened(_approvals(config, store, no_witness), config, no_witness, runner, store)


@contextmanager
def changing(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[Opened]:
    """The service with the audit log as its witness."""
    from callgate.keyring import CHECKPOINT, SEAL

    with open_store(path, url, create=create) as (config, store), asyncio.Runner() as runner:
        keyring = keys_of(config)
        if not create:
            keyring.require(SEAL, CHECKPOINT)
        log = log_of(config, store, keyring)
        yield Opened(_approvals(config, store, log.admin), config, log.admin, runner, store)


def _approvals(config: Config, store: Store, witness: Witness) -> Approvals:
    from callgate.app.approval import party, settings
    from callgate.approval import Approvals
    from callgate.store import SqlApprovals

    section = config.approval
    return Approvals(SqlApprovals(store), party(section), settings(section), witness=witness)


# -- links -----------------------------------------------------------------------------------------------------


def console_url(config: Config) -> str | None:
    """Where browsers find the console; None where the gateway takes any free port."""
    if config.approval.url is not None:
        return config.approval.url.rstrip("/")
    port = config.gateway.address.port
    return f"http://localhost:{port}" if port else None


def enrolment_link(url: str, ticket: str) -> str:
    # Behind the #, where browsers keep it to themselves: no log of a server or a proxy sees the ticket.
    return f"{url}/enrol#{ticket}"


def approval_link(url: str, request: str) -> str:
    return f"{url}/approve/{request}"


def is_listening(url: str) -> bool:
    """Whether somebody takes connections there."""
    parts = urlsplit(url)
    address = (parts.hostname or "localhost", parts.port or _PORTS.get(parts.scheme, 443))
    try:
        with socket.create_connection(address, timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def how_to_serve(config: Config, path: Path | None, store: str | None, url: str | None) -> str:
    """What is left to do before a link of the console opens; empty if nothing is."""
    if not config.has_console:
        return "The console is off here: write `enabled = true` under [approval] in callgate.toml first."
    if url is None:
        return "The gateway takes any free port here: put the one that it names at its start in the place of PORT."
    if is_listening(url):
        return ""
    command = shlex.join(["callgate", "serve", *(["-c", str(path)] if path is not None else [])])
    where = ""
    if store is not None and store.startswith("sqlite:"):
        command = f"CALLGATE_STORE_URL={shlex.quote(store)} {command}"
    elif store is not None:
        # It may hold a password, which is not repeated.
        where = " on this store, which CALLGATE_STORE_URL has to name,"
    return f"Nothing answers at {url} yet: start the gateway{where} with `{command}`."


def has_display() -> bool:
    """Whether a browser would open before whoever reads this terminal."""
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    return os.name == "nt" or sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def open_page(url: str) -> None:
    """Show a page in the user's browser; what that prints stays out of this terminal."""
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "webbrowser", "-t", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


# -- choosing --------------------------------------------------------------------------------------------------


def pick(ids: Iterable[str], given: str, what: str, advice: str) -> str:
    """The id that is meant by a beginning of it."""
    from callgate.errors import CallgateError

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
    return given != "" and (one.startswith(given) or _bare(one).startswith(given))


def short(ids: Iterable[str]) -> dict[str, str]:
    """The beginning of each id that sets it apart from the others and can be typed."""
    known = [(one, _bare(one)) for one in ids]
    shown: dict[str, str] = {}
    for one, bare in known:
        length = _SHORT
        while length < len(bare) and any(other != bare and other[:length] == bare[:length] for _, other in known):
            length += 1
        shown[one] = bare[:length]
    return shown


def _bare(one: str) -> str:
    return one.lstrip("-") or one


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be taken back; without a terminal to ask on, refuse."""
    from callgate.errors import CallgateError

    if yes:
        return
    if not sys.stdin.isatty():
        raise CallgateError("this cannot be taken back, and nobody is here to be asked", advice="Add --yes to do it.")
    if not typer.confirm(question):
        raise typer.Exit(1)


# -- printing --------------------------------------------------------------------------------------------------


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows for people. Names come from clients and callers: as plain text, with control characters made visible."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(plain(cell), overflow="fold") for cell in row))
    console().print(table)


def plain(text: str, most: int = _CELL) -> str:
    """Text on one line that cannot steer a terminal."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[:most])
    return shown if len(text) <= most else shown + "…"


def moment(at: int | None) -> str:
    """A time for people, local, to the minute."""
    return "-" if at is None else f"{datetime.fromtimestamp(at / 1000).astimezone():%Y-%m-%d %H:%M}"
