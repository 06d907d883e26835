"""`callgate grants`: what people sign beforehand for an agent's calls. They are signed on the console's page only."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
import typer

from callgate.approval.delegation import Delegation, lines
from callgate.approval.overview import GrantRow, grant_row, grant_rows
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    as_typed,
    configuration,
    operator,
    pick,
    print_json,
    say,
    short,
)
from callgate.cli.links import console_url, how_to_serve
from callgate.cli.printing import moment, plain, print_table
from callgate.cli.services import OpenedStore, edit_services, open_services

_MOST: Final = 1000
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The grant's id, or enough of its beginning.", callback=as_typed)
]


def list_grants(
    *,
    config: ConfigOption = None,
    store: StoreOption = None,
    user: Annotated[str | None, typer.Option(help="Only what this person signed.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the grants that can be used, and what is left of each."""
    with open_services(config, store) as opened:
        if user is not None:
            opened.wait(opened.approvals.user(user))
        found = opened.wait(opened.approvals.shelf.delegations(user, limit=_MOST))
        rows = grant_rows(found, opened.approvals.now())
    rows = [row for row in rows if everything or row.live]
    if as_json:
        print_json(msgspec.to_builtins(rows))
    elif not rows:
        say("Nobody has signed a grant." if everything else "No grant can be used: `callgate grants link` makes one.")
    else:
        _print(rows)


def show(
    grant: IdArgument, config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Show one grant: everything that was signed, what is left, and how it ended."""
    with open_services(config, store) as opened:
        found = _find(opened, grant)
        row = grant_row(found, opened.approvals.now())
    if as_json:
        more = {
            "left": found.left,
            "terms": found.terms,
            "revoked_at": found.revoked_at,
            "revoked_by": found.revoked_by,
        }
        print_json({**msgspec.to_builtins(row), **msgspec.to_builtins(more)})
        return
    typer.echo(f"{row.id}  {row.state}")
    typer.echo(f"signed      {moment(row.at)} by {plain(row.person)}")
    typer.echo(f"calls       {row.calls} used")
    if row.amount:
        typer.echo(f"sum         {row.amount} used")
    if found.revoked_at is not None:
        typer.echo(f"revoked     {moment(found.revoked_at)} by {plain(found.revoked_by or 'nobody')}")
    typer.echo("")
    for name, text in lines(found.terms):
        # Whole: this is what was signed. What cannot be seen in it is spelt out already.
        typer.echo(f"  {name}: {text}")


def link(
    *,
    config: ConfigOption = None,
    store: StoreOption = None,
    server: Annotated[str, typer.Option(help="The server, as the configuration names it.")] = "",
    tool: Annotated[str, typer.Option(help="The tool that the agent may call.")] = "",
    calls: Annotated[int, typer.Option(min=1, max=100_000, help="How many calls.")] = 1,
    until: Annotated[str, typer.Option(metavar="TIME", help="Until when, in UTC, such as 2026-12-24T18:00.")] = "",
    request: Annotated[str, typer.Option(metavar="ID", help="Like this call, which waits or waited.")] = "",
    call: Annotated[str, typer.Option(metavar="ID", help="Like this call, which is on record.")] = "",
) -> None:
    """Print the address of the page on which a person fills in a grant and signs it with a passkey."""
    found = configuration(config, store)
    given = {"server": server, "name": tool, "until": until, "request": request, "call": call}
    fields = {name: value for name, value in given.items() if value} | ({"calls": str(calls)} if calls > 1 else {})
    url = console_url(found)
    typer.echo(f"{url or 'http://localhost:PORT'}/grants/new" + (f"?{urlencode(fields)}" if fields else ""))
    if left := how_to_serve(found, config, store, url):
        say(left)


def revoke(
    grants: Annotated[list[str], typer.Argument(metavar="ID...", help="The grants' ids, or enough of each.")],
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Revoke grants. From now on no call passes by them, in any gateway on the store."""
    with edit_services(config, store) as opened:
        for one in [_find(opened, as_typed(given)) for given in grants]:
            opened.wait(opened.approvals.revoke_grant(one.terms.id, by=operator()))
            typer.echo(
                f"Revoked: {plain(one.terms.tool)} on {plain(one.terms.server)}, signed by {plain(one.terms.person)}."
            )


def _find(opened: OpenedStore, given: str) -> Delegation:
    exact = opened.wait(opened.approvals.shelf.delegation(given))
    if exact is not None:
        return exact
    known = {one.terms.id: one for one in opened.wait(opened.approvals.shelf.delegations(limit=_MOST))}
    return known[pick(known, given, "grant", "`callgate grants list --all` shows them.")]


def _print(rows: list[GrantRow]) -> None:
    ids = short(row.id for row in rows)
    print_table(
        ("id", "state", "person", "agent", "server", "tool", "calls", "sum", "until"),
        (
            (
                ids[row.id],
                row.state,
                row.person,
                row.agent,
                row.server,
                row.tool,
                row.calls,
                row.amount or "-",
                moment(row.ends),
            )
            for row in rows
        ),
    )
