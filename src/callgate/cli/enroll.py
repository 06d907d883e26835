"""`callgate enroll`: a link with which a person enrols a passkey."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, operator, print_json, say
from callgate.cli.people import Opened, changing, console_url, enrolment_link, how_to_serve, moment, plain

if TYPE_CHECKING:
    from callgate.approval import Approvals, Credential
    from callgate.config import Config
    from callgate.gateway.exchange import Asgi, Receive, Scope, Send

_LOOK_SECONDS: Final = 0.3
# Recovery codes are on the page: it stays until the person has gone on.
_STAY_SECONDS: Final = 600.0
# What the page after it loads.
_LINGER_SECONDS: Final = 2.0


def register(app: typer.Typer) -> None:
    app.command("enroll")(enroll)


class Issued(msgspec.Struct, frozen=True):
    """A ticket, and whom it is for."""

    user: str
    display_name: str
    new: bool
    ticket: str
    expires_at: int
    # Somebody who was here before and has nearly the same name.
    twin: str | None = None
    # What a passkey of each kind approves.
    approves: str = ""


def enroll(
    user: Annotated[str, typer.Argument(metavar="USER", help="Who enrols; they are added if they are new.")],
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
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a link that lets one person enrol one passkey, once.

    Whoever has the link becomes able to approve calls in that person's name: give it to nobody else.
    """
    with changing(config, store, create=True) as opened:
        if here:
            _check_here(opened.config)
        issued = opened.wait(_issue(opened, user, display_name, minutes))
        if display_name and not issued.new:
            say(f"{user} was known before: the name shown stays {issued.display_name!r}.")
        if here:
            _show_page(opened, issued, as_json=as_json)
            return
        url = console_url(opened.config)
        _print(issued, url, as_json=as_json)
        people = len(opened.wait(opened.approvals.shelf.users()))
        served = how_to_serve(opened.config, config, store, url)
        hints = (served, served and _without_gateway(opened.config), _who_is_asked(opened.config, people))
    for hint in filter(None, hints):
        say(hint)


async def _issue(opened: Opened, user: str, display_name: str, minutes: float | None) -> Issued:
    from callgate.approval.reach import choice

    by, approvals, demands = operator(), opened.approvals, await opened.demands()
    known = await approvals.shelf.user(user)
    others = [] if known is not None else [one.name for one in await approvals.shelf.users()]
    person = known or await approvals.add_user(user, display_name, by=by)
    ticket = await approvals.ticket(user, by=by, seconds=None if minutes is None else minutes * 60)
    issued = await approvals.look_at_ticket(ticket)
    assert issued is not None
    twin = next((one for one in others if one.casefold() == user.casefold()), None)
    told = "" if demands is None else choice(person, demands)
    return Issued(user, person.display_name, known is None, ticket, issued.expires_at, twin, told)


def _print(issued: Issued, url: str | None, *, as_json: bool, here: bool = False) -> None:
    from callgate.approval.names import TICKET

    link = enrolment_link(url or "http://localhost:PORT", issued.ticket)
    if as_json:
        shown: dict[str, Any] = msgspec.to_builtins(issued)
        print_json({**shown, "link": None if url is None else link})
        return
    if issued.new:
        other = f" {issued.twin} is somebody else." if issued.twin else ""
        typer.echo(f"{issued.user} is new here and was added.{other}")
    typer.echo(f"{issued.user} opens this link to enrol a passkey, once, until {moment(issued.expires_at)}:\n")
    typer.echo(f"  {link}\n")
    if issued.approves:
        typer.echo(f"{issued.approves}\n")
    if here:
        say("This page is served until it is done; Ctrl-C stops it.")
        return
    typer.echo(f'Or an MCP client calls approval/enroll/begin with params._meta["{TICKET}"]:\n')
    typer.echo(f"  {issued.ticket}\n")


async def _what_it_approves(opened: Opened, held: Credential) -> str:
    from callgate.approval.reach import reach

    demands = await opened.demands()
    return "" if demands is None else reach(await opened.approvals.user(held.user), held, demands)


def _without_gateway(config: Config) -> str:
    local = config.approval.rp_id == "localhost"
    return "Or add --here to this command: it shows the page by itself." if local else ""


def _who_is_asked(config: Config, people: int) -> str:
    """With several people, somebody has to be named."""
    named = config.approval.user or any(server.approval.user for server in config.servers.values())
    if people < 2 or named:
        return ""
    return f"{people} people are here now: write who is asked as `user` under [approval] in callgate.toml."


# -- a page of its own -----------------------------------------------------------------------------------------


def _check_here(config: Config) -> None:
    from callgate.errors import ConfigError

    if config.approval.rp_id != "localhost":
        raise ConfigError(
            f"passkeys are for {config.approval.rp_id} here, and a page of this machine cannot make one for it",
            advice="Leave --here out and open the link, which the gateway answers.",
        )


def _show_page(opened: Opened, issued: Issued, *, as_json: bool) -> None:
    made: list[Credential] = []

    async def enrolled(held: Credential) -> None:
        made.append(held)
        say(f"{issued.user}'s passkey {plain(held.name)!r} is enrolled.")
        if told := await _what_it_approves(opened, held):
            say(told)
        codes = " from the recovery codes" if opened.config.approval.recovery_codes else ""
        say(f"The page is waiting for you to go on{codes}; Ctrl-C stops it.")

    try:
        opened.wait(_serve(opened, issued, lambda url: _print(issued, url, as_json=as_json, here=True), enrolled))
    except KeyboardInterrupt:
        if not made:
            raise


async def _serve(
    opened: Opened,
    issued: Issued,
    listening: Callable[[str], None],
    enrolled: Callable[[Credential], Awaitable[None]],
) -> None:
    """Show the console until this person has one passkey more, and has gone on from the page that made it."""
    from callgate.console.app import console_app
    from callgate.gateway.loopback import Loopback

    approvals = opened.approvals
    before = {one.id for one in await approvals.shelf.credentials(issued.user)}
    home = asyncio.Event()

    def made(origin: str) -> Asgi:
        return _noticing(console_app(approvals, origin=origin, secure=False, demands=opened.demands), home)

    pages = Loopback(made, opened.config)
    try:
        listening(await pages.address())
        await enrolled(await _new_passkey(approvals, issued, before))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STAY_SECONDS):
                await home.wait()
                await asyncio.sleep(_LINGER_SECONDS)
    finally:
        await pages.close()


async def _new_passkey(approvals: Approvals, issued: Issued, before: set[str]) -> Credential:
    from callgate.errors import CallgateError

    # What was begun in the ticket's last moment may still be finished.
    while approvals.now() < issued.expires_at + approvals.settings.registration_ms:
        for held in await approvals.shelf.credentials(issued.user):
            if held.id not in before:
                return held
        await asyncio.sleep(_LOOK_SECONDS)
    raise CallgateError("nobody enrolled in time", advice=f"`callgate enroll {issued.user} --here` begins again.")


def _noticing(console: Asgi, home: asyncio.Event) -> Asgi:
    """The console; `home` is set once its first page was shown, which is where the enrolment page leads."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/enrol/finish":
            home.clear()
        await console(scope, receive, send)
        if scope["path"] == "/":
            home.set()

    return app
