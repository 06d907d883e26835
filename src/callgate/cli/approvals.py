"""`callgate approvals`: the calls that wait for a person. They are approved on their page, with a passkey, only."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from callgate.approval import Request
from callgate.approval.display import escape
from callgate.approval.overview import RequestRow, how_answered, request_row, requests
from callgate.approval.service import Signers
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    as_typed,
    operator,
    pick,
    print_json,
    say,
    short,
)
from callgate.cli.links import approval_link, console_url, how_to_serve, is_listening
from callgate.cli.printing import moment, plain, print_table
from callgate.cli.services import OpenedStore, edit_services, open_services, options_of
from callgate.config import Config

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The request's id, or enough of its beginning.", callback=as_typed)
]

_MOST: Final = 1000
_ARGUMENTS: Final = 40
_LINES: Final = 60
_LINE: Final = 600


def list_approvals(
    *,
    config: ConfigOption = None,
    store: StoreOption = None,
    user: Annotated[str | None, typer.Option(help="Only this person's.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="At most so many, the newest.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the calls that wait for a person, the newest first."""
    with open_services(config, store) as opened:
        now = opened.approvals.now()
        rows = opened.wait(requests(opened.approvals.shelf, now, user, everything=everything, limit=limit))
    if as_json:
        print_json(msgspec.to_builtins(rows))
    elif not rows:
        say("No call was ever put before a person." if everything else "Nothing waits for approval.")
    else:
        _print(rows)


def show(
    request: IdArgument, config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Show one call that waits, what became of it, and the page where it is approved."""
    with open_services(config, store) as opened:
        found = _find(opened, request)
        row = request_row(found, opened.approvals.now())
        signers = opened.wait(opened.approvals.signers(found)) if found.policy.quorums else None
    url = found.page or console_url(opened.config)
    link = approval_link(url or "http://localhost:PORT", found.id)
    if as_json:
        shown: dict[str, Any] = msgspec.to_builtins(row)
        details = {"agent": found.agent, "arguments": msgspec.json.decode(found.canonical)}
        print_json({**shown, **details, "signers": msgspec.to_builtins(signers), "link": None if url is None else link})
        return
    _show(row, found)
    if signers is not None:
        _show_signers(signers, waits=row.state == "waiting")
    if row.state == "waiting":
        who = f"{row.user} approve it, each with a passkey, or one refuses it" if found.policy.quorums else ""
        who = who or f"{row.user} approves it with a passkey, or refuses it"
        typer.echo(f"\n{who}, at\n\n  {plain(link, len(link))}\n")
        refuse_it = shlex.join(["callgate", "approvals", "refuse", *options_of(config, store), found.id])
        typer.echo(f"To refuse it here, without a passkey: {refuse_it}")
        if left := _what_is_left(opened.config, config, store, found.page, url):
            say(left)


def refuse(
    request: IdArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    note: Annotated[str, typer.Option("--note", help="Why; it is recorded, and reaches whoever called.")] = "",
) -> None:
    """Refuse a call that waits. That needs no passkey; to approve one does, on its page."""
    with edit_services(config, store) as opened:
        found = _find(opened, request)
        opened.wait(opened.approvals.refuse(found.id, by=operator(), note=note))
    typer.echo(f"Refused: {plain(found.tool)} on {plain(found.server)}.")


def _what_is_left(config: Config, path: Path | None, store: str | None, page: str, url: str | None) -> str:
    """What to do before the page opens; empty if it is there."""
    if not page:
        return how_to_serve(config, path, store, url)
    if is_listening(page):
        return ""
    return f"Nothing answers at {plain(page)} any more: whoever asked for this approval serves the page, and has ended."


def _find(opened: OpenedStore, given: str) -> Request:
    exact = opened.wait(opened.approvals.shelf.request(given))
    if exact is not None:
        return exact
    known = {one.id: one for one in opened.wait(opened.approvals.shelf.requests(limit=_MOST))}
    return known[pick(known, given, "call that waits or waited", "`callgate approvals list --all` shows them.")]


def _print(rows: list[RequestRow]) -> None:
    ids = short(row.id for row in rows)
    print_table(
        ("id", "state", "user", "asked by", "server", "tool", "arguments", "asked", "ends"),
        (
            (
                ids[row.id],
                row.state,
                row.user,
                row.who,
                row.server,
                row.tool,
                plain(row.arguments, _ARGUMENTS),
                moment(row.created_at),
                moment(row.expires_at),
            )
            for row in rows
        ),
    )


def _show_signers(signers: Signers, *, waits: bool) -> None:
    typer.echo("")
    for name, at, how in signers.signed:
        typer.echo(f"signed      {name}, {moment(at)}, {plain(how)}")
    for one in signers.missing if waits else ():
        if one.left:
            could = f"; {', '.join(one.could)} can" if one.could else "; nobody is left who can"
            typer.echo(f"missing     {one.left} more ({one.people}){could}")


def _why(text: str) -> list[str]:
    """Why a person is asked, a line each; no line steers the terminal or begins where one of ours does."""
    return [escape(line[:_LINE]) for line in text.split("\n") if line.strip()][:_LINES]


def _show(row: RequestRow, found: Request) -> None:
    typer.echo(f"{row.id}  {row.state}")
    typer.echo(f"asked by    {plain(row.who)}, {moment(row.created_at)}; ends {moment(row.expires_at)}")
    typer.echo(f"to approve  {row.user}")
    typer.echo(f"server      {plain(row.server)}" + (f", tool version {plain(row.version)}" if row.version else ""))
    for at, line in enumerate(_why(row.why)):
        typer.echo(f"{'            ' if at else 'because     '}{line}")
    if row.decided_at is not None:
        note = f": {plain(row.note, 500)}" if row.note else ""
        signed = found.state in {"used", "approved"} or (found.evidence or {}).get("decision") == "no"
        how = f" {plain(how_answered(found.evidence))}" if signed and not found.policy.quorums else ""
        typer.echo(f"decided     {moment(row.decided_at)} by {plain(row.decided_by or 'nobody')}{how}{note}")
    if row.call:
        typer.echo(f"call        {row.call}")
    typer.echo("")
    # Every line of it, whole: this is what a person is asked to sign.
    for line in row.text.split("\n"):
        typer.echo(f"  {plain(line, len(line))}")
    typer.echo(f"\narguments   {plain(found.canonical.decode(), len(found.canonical))}")
