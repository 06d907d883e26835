"""`callgate serve`: the gateway over HTTP, its console, and who can answer when it starts."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callgate.approval import Approvals, Credential, User
from callgate.approval.overview import who_can_answer
from callgate.cli.common import file_to_write, operator
from callgate.cli.links import console_url, enrolment_link
from callgate.cli.printing import moment
from callgate.cli.services import edit_services
from callgate.config import Config, find, load
from callgate.errors import ConfigError
from callgate.local.place import LocalError, Place
from callgate.telemetry.logs import configure, get

if TYPE_CHECKING:
    from callgate.app.console import ConsoleSources
    from callgate.transport.http.exchange import Asgi

_NAME: Final = re.compile(r"[^A-Za-z0-9._@+-]+")
_SHOWN: Final = 5
_NOBODY_APPROVES: Final = "Nobody can approve calls yet."
_NOBODY_REVIEWS: Final = (
    "Nobody can sign in to the console yet; tools are reviewed there, or here with `callgate review`."
)


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="CALLGATE_CONFIG", help="Configuration file.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", envvar="CALLGATE_LISTEN", help="Address to listen on, HOST:PORT.")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", envvar="CALLGATE_WORKERS", min=1, max=64, help="How many processes serve the address."
        ),
    ] = 1,
) -> None:
    """Serve the configured MCP servers over Streamable HTTP, with every call checked and recorded."""
    from callgate.app.event_loop import new_event_loop
    from callgate.app.serve import serve as run
    from callgate.app.workers import Worker, Workers
    from callgate.transport.http.app import endpoint

    worker = Worker.given()

    if listen is not None:
        os.environ["CALLGATE_LISTEN"] = listen
    settings = load(config)
    if not settings.servers:
        raise ConfigError(
            "no server is configured",
            advice='Add a table such as [servers.files] with command = ["PROGRAM", "ARGUMENT"] or url = "https://…" '
            "to callgate.toml, or try `callgate demo`.",
        )
    configure(settings.logging.level, settings.logging.format)
    log = get("callgate.gateway")
    path = config or find()
    if worker is not None:
        # One of them stands before wrapped servers.
        place = _place(path) if worker.index == 0 else contextlib.nullcontext()
        with place as at, asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(run(settings, path, lambda _at: worker.serves(), make_console, at=at, worker=worker))
        return
    welcome = set_up(config, settings)

    def listening(address: str) -> None:
        log.info("listening", address=address)
        for name, server in settings.servers.items():
            log.info("serving", server=name, endpoint=address + endpoint(name, server.pinning.group or ""))
        welcome(address)

    if workers > 1:
        raise typer.Exit(Workers(settings, workers).run(listening))
    with _place(path) as at, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run(settings, path, listening, make_console, at=at))
    log.info("stopped")


@contextlib.contextmanager
def _place(path: Path | None) -> Iterator[Place | None]:
    """Where wrapped servers of this user find the gateway; None where another has that place, or there is none."""
    with contextlib.ExitStack() as stack:
        at: Place | None = None
        try:
            from callgate.local.holding import holding

            wanted = Place(None if path is None else str(path))
            if stack.enter_context(holding(wanted, 0)):
                at = wanted
            else:
                get("callgate.gateway").info("another gateway stands before wrapped servers", config=str(path))
        except ImportError:  # Windows
            pass
        except LocalError as error:
            get("callgate.gateway").warning("wrapped servers are not taken", error=error.message)
        yield at


def make_console(shown: ConsoleSources) -> Asgi:
    """The console's application over what a gateway has."""
    from callgate.app.approval import demands
    from callgate.console.app import console_app
    from callgate.console.context import GatewayParts
    from callgate.store import SqlPins

    config = shown.config

    def describe(server: str) -> str:
        known = config.servers.get(server)
        return "" if known is None else known.target

    return console_app(
        shown.approvals,
        origin=shown.origin,
        secure=shown.origin.startswith("https:"),
        describe_server=describe,
        pins=shown.pins,
        reviewers=config.pinning.reviewers,
        configured=lambda: {name: server.pinning.group or "" for name, server in config.servers.items()} or None,
        trust=shown.trust,
        gateway=GatewayParts(
            store=shown.store,
            log=shown.log,
            agents=shown.agents,
            switch=shown.switch,
            config=config,
            path=shown.path,
            delegable=shown.delegable,
        ),
        demands=lambda: demands(config, SqlPins(shown.store)),
    )


def set_up(path: Path | None, config: Config, *, terminal: bool | None = None) -> Callable[[str], None]:
    """What to say when the gateway listens: the first person's link, and who else has something left to do."""
    if not config.has_console:
        return lambda _address: None
    name = first_name(config)
    ticket = None
    nobody = _NOBODY_APPROVES if config.approves else _NOBODY_REVIEWS
    with edit_services(path, None, create=True) as opened:
        first = not opened.wait(_has_people(opened.approvals, name))
        lacking = (
            opened.wait(_missing_approvers(opened.approvals, config, path, name if first else None))
            if config.approves
            else []
        )
        # Only on a terminal: in a file or a journal it would stay, and whoever has the link can become this person.
        if first and (sys.stdout.isatty() if terminal is None else terminal):
            ticket = opened.wait(first_ticket(opened.approvals, name))
        ends = opened.approvals.now() + opened.approvals.settings.ticket_ms

    def welcome(address: str) -> None:
        if ticket is not None:
            url = console_url(config) or f"http://localhost:{address.rpartition(':')[2]}"
            typer.echo(f"{nobody} {name} opens this link, once, until {moment(ends)}:\n")
            typer.echo(f"  {enrolment_link(url, ticket)}\n")
        elif first:
            typer.echo(f"{nobody} {_to_enrol(name, path)}")
        for line in lacking:
            typer.echo(line)
        sys.stdout.flush()

    return welcome


def first_name(config: Config) -> str:
    """Who is set up first: the configured person, or whoever runs the gateway."""
    named = approvers_in_config(config)
    if len(named) == 1 and (only := next(iter(named))) is not None:
        return only
    if config.approval.user is not None:
        return config.approval.user
    try:
        login = getpass.getuser()
    except (KeyError, OSError):
        login = ""
    return _NAME.sub("-", login).lstrip("-._@+")[:64] or "operator"


def approvers_in_config(config: Config) -> set[str | None]:
    """Who is asked by any of the servers; None stands for the only person there is."""
    servers = config.servers.values()
    # Where several people approve, or one of a group, nobody has to be named.
    named = [one.approval for one in servers if one.approval.approvals == 1 and not one.approval.of]
    if servers and not named:
        return set()
    return {one.user or config.approval.user for one in named} or {config.approval.user}


def who_is_asked(config: Config, people: Sequence[User], held: Sequence[Credential]) -> tuple[list[str], Sequence[str]]:
    """Who is asked to approve; and, where somebody has to be named, those of whom it could be any."""
    named = approvers_in_config(config)
    unnamed = who_can_answer(people, held) if None in named else []
    asked = {name for name in named if name is not None} | {*(unnamed if len(unnamed) == 1 else ())}
    return sorted(asked), unnamed if len(unnamed) > 1 else ()


async def _has_people(approvals: Approvals, name: str) -> bool:
    """Whether somebody is set up already."""
    others = [user for user in await approvals.shelf.users() if user.name != name]
    return bool(others or await approvals.shelf.credentials(revoked=True))


async def first_ticket(approvals: Approvals, name: str) -> str | None:
    if await _has_people(approvals, name):
        return None
    return await approvals.ticket(name, by=operator(), purpose="setup")


async def _missing_approvers(
    approvals: Approvals, config: Config, path: Path | None, welcomed: str | None
) -> list[str]:
    """A line for each who will be asked and cannot answer, but for the one who is welcomed anyway."""
    people, held = await approvals.shelf.users(), await approvals.shelf.credentials()
    known = [user.name for user in people]
    able = {one.user for one in held}
    lines = []
    asked, several = who_is_asked(config, people, held)
    if several:
        names = ", ".join(several[:_SHOWN])
        lines.append(
            f"Several people are here and none is named, so calls that need a person are refused: write who is asked "
            f"as `user` under [approval] in {file_to_write(path)}, one of {names}."
        )
    for name in [name for name in asked if name not in able and name != welcomed]:
        if name in known:
            lines.append(f"{name} is asked to approve calls and has no passkey. {_to_enrol(name, path)}")
            continue
        others = f" (people here: {', '.join(known[:_SHOWN])})" if known else ""
        lines.append(f"{name} is asked to approve calls and is not known here{others}. {_to_enrol(name, path)}")
    return lines


def _to_enrol(name: str, path: Path | None) -> str:
    words = ["callgate", "enroll", name, *(["--config", str(path)] if path is not None else [])]
    return f"Type `{shlex.join(words)}` and open the link that it prints."
