"""`callgate enroll`: a link with which a person enrols a passkey."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import typer

from callgate.approval import Approvals, Credential
from callgate.approval.overview import kind, tickets
from callgate.approval.reach import choice, reach
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    as_typed,
    file_to_write,
    operator,
    pick,
    print_json,
    say,
    short,
)
from callgate.cli.gateway import ask_gateway, ensure_running, place_of
from callgate.cli.links import console_url, enrolment_link, has_display, how_to_serve, open_page
from callgate.cli.printing import moment, plain, print_table
from callgate.cli.services import OpenedStore, edit_services, open_services
from callgate.config import Config, find
from callgate.errors import CallgateError, ConfigError
from callgate.local.wrap import is_possible
from callgate.protocol import TICKET

if TYPE_CHECKING:
    from callgate.transport.http.exchange import Asgi, Receive, Scope, Send

_LOOK_SECONDS: Final = 0.3
# Recovery codes are on the page: it stays until the person has gone on.
_STAY_SECONDS: Final = 600.0
# What the page after it loads.
_LINGER_SECONDS: Final = 2.0


class IssuedTicket(msgspec.Struct, frozen=True):
    """A ticket, and whom it is for."""

    user: str
    display_name: str
    new: bool
    ticket: str
    expires_at: int
    # Somebody who was here before and has nearly the same name.
    twin: str | None = None
    # The passkeys that they had before.
    held: tuple[str, ...] = ()
    # What a passkey of each kind approves.
    approves: str = ""


def _id(word: str | None) -> str | None:
    return None if word is None else as_typed(word)


def enroll(
    user: Annotated[
        str | None, typer.Argument(metavar="USER", help="Who enrols; they are added if they are new.")
    ] = None,
    *,
    display_name: Annotated[
        str, typer.Option("--display-name", metavar="NAME", help="What authenticators show, for somebody new.")
    ] = "",
    minutes: Annotated[
        float | None,
        typer.Option(min=0.2, max=10_080, help="How long the link is good for; by default approval.ticket_seconds."),
    ] = None,
    here: Annotated[
        bool,
        typer.Option("--here", help="Show the page from this command until it is done; then no gateway has to run."),
    ] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser; only print the link.")] = False,
    list_links: Annotated[
        bool, typer.Option("--list", help="List the links that are open, of USER or of everybody; make none.")
    ] = False,
    cancel: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Cancel a link and what was begun with it; --list shows the ids.", callback=_id
        ),
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a link that lets one person enrol one passkey, once.

    Your gateway shows the page, and is started for it. On a terminal the page opens in your browser, and the command
    waits until the passkey is there; Ctrl-C leaves the link valid.

    Whoever has the link becomes able to approve calls in that person's name: give it to nobody else. --list shows the
    links that can be used, and --cancel ends one.
    """
    if list_links or cancel is not None:
        _manage_links(user, cancel, config, store, as_json=as_json)
        return
    if user is None:
        raise CallgateError("whose passkey is it?", advice="Type `callgate enroll USER`, or `callgate enroll --list`.")
    with edit_services(config, store, create=True) as opened:
        _check_console(opened.config)
        # Where no gateway can be shared, this command shows the page itself.
        here = here or (not is_possible() and store is None and opened.config.approval.url is None)
        if here:
            _check_here(opened.config)
        url = None if here else console_address(opened, config, store, minutes)
        issued = opened.wait(_issue(opened, user, display_name, minutes))
        if display_name and not issued.new:
            say(f"{user} was known before: the name shown stays {issued.display_name!r}.")
        if here:
            _show_page(opened, issued, as_json=as_json)
            return
        waits = not as_json and waits_here(opened.config, store)
        _print(issued, url, as_json=as_json, waits=waits)
        if waits and wait_for_passkey(opened, issued, None if no_open else url) is None:
            raise typer.Exit(130)
        people = len(opened.wait(opened.approvals.shelf.users()))
        served = "" if waits else how_to_serve(opened.config, config, store, url)
        hints = (served, served and _without_gateway(opened.config), _who_is_asked(opened.config, people, config))
    for hint in filter(None, hints):
        say(hint)


def _manage_links(
    user: str | None, cancel: str | None, config: Path | None, store: str | None, *, as_json: bool
) -> None:
    """Links that can be used, or one of them cancelled."""
    with edit_services(config, store) if cancel is not None else open_services(config, store) as opened:
        approvals = opened.approvals
        rows = opened.wait(tickets(approvals.shelf, approvals.now(), user))
        if cancel is not None:
            wanted = pick((row.id for row in rows), cancel, "link", "`callgate enroll --list` shows them.")
            found = opened.wait(approvals.open_ticket(wanted))
            if found is None or not opened.wait(approvals.cancel_ticket(found, by=operator())):
                raise CallgateError("this link has just been used or has run out", advice="Look at the passkeys.")
            typer.echo(f"The link of {found.user} is cancelled.")
            return
    if as_json:
        print_json(msgspec.to_builtins(rows))
    elif not rows:
        say("No link can be used.")
    else:
        ids = short(row.id for row in rows)
        print_table(
            ("id", "user", "for", "made by", "made", "until"),
            (
                (
                    ids[one.id],
                    one.user,
                    f"{one.purpose}, begun" if one.begun else one.purpose,
                    one.by,
                    moment(one.created_at),
                    moment(one.expires_at),
                )
                for one in rows
            ),
        )


def _check_console(config: Config) -> None:
    """Nobody opens a link to a console that is off."""
    if not config.has_console:
        raise ConfigError(
            "the console is off here, so nobody can enrol",
            advice="Write `enabled = true` under [approval] in callgate.toml, then type this again.",
        )


# -- where the link leads --------------------------------------------------------------------------------------


def console_address(
    opened: OpenedStore, path: Path | None, store: str | None, minutes: float | None = None
) -> str | None:
    """Where the link opens. The gateway of the configuration is started for it, where no other one shows the console:
    a store that the command line names belongs to a gateway that runs elsewhere."""
    config = opened.config
    url = console_url(config)
    if config.approval.url is not None or store is not None:
        return url
    at = place_of(find(path))
    if config.servers and url is not None and ask_gateway(at, "status") is None and _is_callgate(url):
        # `callgate serve` runs.
        return url
    seconds = opened.approvals.settings.ticket_ms / 1000 if minutes is None else minutes * 60
    return str(ensure_running(at, expect=seconds)["address"])


def _is_callgate(url: str) -> bool:
    from urllib.request import urlopen

    try:
        with urlopen(f"{url}/healthz", timeout=2) as answer:  # noqa: S310 - an address of this machine
            return bool(answer.read(100).strip() == b"ok")
    except OSError:
        return False


# -- waiting for the passkey -----------------------------------------------------------------------------------


def waits_here(config: Config, store: str | None) -> bool:
    """Whether whoever reads this terminal is the one who opens the link."""
    return store is None and config.approval.url is None and sys.stdin.isatty() and sys.stdout.isatty()


def wait_for_passkey(opened: OpenedStore, issued: IssuedTicket, url: str | None) -> Credential | None:
    """The passkey that is made with the link, which is opened if there is an address to open it at and a browser.
    None after Ctrl-C."""
    try:
        if url is not None and has_display():
            open_page(enrolment_link(url, issued.ticket))
            typer.echo("Your browser opens it. ", nl=False, err=True)
        elif url is not None and "SSH_CONNECTION" in os.environ:
            forward = "{0}:localhost:{0}".format(urlsplit(url).port)
            say(f"If your browser is on another machine, type there first: ssh -L {forward} {gethostname()}")
        say("This waits until the passkey is there; Ctrl-C leaves the link valid.")
        held = opened.wait(_new_passkey(opened.approvals, issued))
    except KeyboardInterrupt:
        say(f"\nThe link stays valid until {moment(issued.expires_at)}.")
        return None
    opened.wait(tell_enrolled(opened, held))
    return held


async def tell_enrolled(opened: OpenedStore, held: Credential) -> None:
    """Who has enrolled what, and what they can do with it."""
    say(f"{held.user}'s passkey {plain(held.name)!r} is enrolled: {kind(held).lower()}.")
    if text := await _what_it_approves(opened, held):
        say(text)


async def _issue(opened: OpenedStore, user: str, display_name: str, minutes: float | None) -> IssuedTicket:
    by, approvals, demands = operator(), opened.approvals, await opened.demands()
    known = await approvals.shelf.user(user)
    others = [] if known is not None else [one.name for one in await approvals.shelf.users()]
    person = known or await approvals.add_user(user, display_name, by=by)
    ticket = await approvals.ticket(user, by=by, seconds=None if minutes is None else minutes * 60)
    issued = await approvals.look_at_ticket(ticket)
    assert issued is not None
    twin = next((one for one in others if one.casefold() == user.casefold()), None)
    held = tuple(one.id for one in await approvals.shelf.credentials(user))
    approves = "" if demands is None else choice(person, demands)
    return IssuedTicket(user, person.display_name, known is None, ticket, issued.expires_at, twin, held, approves)


def _print(issued: IssuedTicket, url: str | None, *, as_json: bool, here: bool = False, waits: bool = False) -> None:
    link = enrolment_link(url or "http://localhost:PORT", issued.ticket)
    if as_json:
        shown: dict[str, Any] = msgspec.to_builtins(issued)
        del shown["held"]
        print_json({**shown, "link": None if url is None else link})
        return
    if issued.new:
        other = f" {issued.twin} is somebody else." if issued.twin else ""
        typer.echo(f"{issued.user} is new here and was added.{other}")
    if waits:
        typer.echo(
            f"Open this link to make a passkey for {issued.user}. It works once, until {moment(issued.expires_at)}:\n"
        )
    else:
        typer.echo(f"{issued.user} opens this link to enrol a passkey, once, until {moment(issued.expires_at)}:\n")
    typer.echo(f"  {link}\n")
    if issued.approves:
        typer.echo(f"{issued.approves}\n")
    if here:
        say("This page is served until it is done; Ctrl-C stops it.")
    if here or waits:
        return
    typer.echo(f'Or an MCP client calls approval/enroll/begin with params._meta["{TICKET}"]:\n')
    typer.echo(f"  {issued.ticket}\n")


async def _what_it_approves(opened: OpenedStore, held: Credential) -> str:
    demands = await opened.demands()
    return "" if demands is None else reach(await opened.approvals.user(held.user), held, demands)


def _without_gateway(config: Config) -> str:
    local = config.approval.rp_id == "localhost"
    return "Or add --here to this command: it shows the page by itself." if local else ""


def _who_is_asked(config: Config, people: int, path: Path | None) -> str:
    """With several people, somebody has to be named."""
    named = config.approval.user or any(server.approval.user for server in config.servers.values())
    if people < 2 or named:
        return ""
    return f"{people} people are here now: write who is asked as `user` under [approval] in {file_to_write(path)}."


# -- a page of its own -----------------------------------------------------------------------------------------


def _check_here(config: Config) -> None:
    if config.approval.rp_id != "localhost":
        raise ConfigError(
            f"passkeys are for {config.approval.rp_id} here, and a page of this machine cannot make one for it",
            advice="Leave --here out and open the link, which the gateway answers.",
        )


def _show_page(opened: OpenedStore, issued: IssuedTicket, *, as_json: bool) -> None:
    made: list[Credential] = []

    async def enrolled(held: Credential) -> None:
        made.append(held)
        await tell_enrolled(opened, held)
        codes = " from the recovery codes" if opened.config.approval.recovery_codes else ""
        say(f"The page is waiting for you to go on{codes}; Ctrl-C stops it.")

    try:
        opened.wait(_serve(opened, issued, lambda url: _print(issued, url, as_json=as_json, here=True), enrolled))
    except KeyboardInterrupt:
        if not made:
            raise


async def _serve(
    opened: OpenedStore,
    issued: IssuedTicket,
    listening: Callable[[str], None],
    enrolled: Callable[[Credential], Awaitable[None]],
) -> None:
    """Show the console until this person has one passkey more, and has gone on from the page that made it."""
    from callgate.console.app import console_app
    from callgate.transport.http.loopback import Loopback

    approvals = opened.approvals
    home = asyncio.Event()

    def made(origin: str) -> Asgi:
        return _notice_first_page(console_app(approvals, origin=origin, secure=False, demands=opened.demands), home)

    pages = Loopback(made, opened.config)
    try:
        listening(await pages.address())
        await enrolled(await _new_passkey(approvals, issued))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STAY_SECONDS):
                await home.wait()
                await asyncio.sleep(_LINGER_SECONDS)
    finally:
        await pages.close()


async def _new_passkey(approvals: Approvals, issued: IssuedTicket) -> Credential:
    # What was begun in the ticket's last moment may still be finished.
    while approvals.now() < issued.expires_at + approvals.settings.registration_ms:
        for held in await approvals.shelf.credentials(issued.user):
            if held.id not in issued.held:
                return held
        await asyncio.sleep(_LOOK_SECONDS)
    raise CallgateError("nobody enrolled in time", advice=f"`callgate enroll {issued.user}` begins again.")


def _notice_first_page(console: Asgi, home: asyncio.Event) -> Asgi:
    """The console; `home` is set once its first page was shown, which is where the enrolment page leads."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/enrol/finish":
            home.clear()
        await console(scope, receive, send)
        if scope["path"] == "/":
            home.set()

    return app
