"""`callgate users` and `callgate credentials`: the people who approve calls, their passkeys and devices."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
import typer

from callgate.approval import Credential
from callgate.approval.overview import PasskeyRow, passkey_row, people
from callgate.approval.people import label
from callgate.approval.reach import Demand, except_for
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    YesOption,
    as_typed,
    confirm,
    fits,
    operator,
    pick,
    print_json,
    say,
    short,
)
from callgate.cli.printing import moment, plain, print_table
from callgate.cli.services import OpenedStore, edit_services, open_services
from callgate.errors import CallgateError
from callgate.protocol import DEVICE

Role: TypeAlias = Literal["viewer", "approver", "operator"]
NameArgument = Annotated[str, typer.Argument(metavar="USER", help="The person's name here, such as alice.")]
IdArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of a passkey or device, or enough of its beginning.", callback=as_typed),
]


def list_users(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the people who approve calls, and what they have to do it with."""
    with open_services(config, store) as opened:
        rows = opened.wait(people(opened.approvals.shelf, opened.approvals.now()))
    if as_json:
        print_json(msgspec.to_builtins(rows))
    elif not rows:
        say("Nobody is here to approve anything yet: `callgate enroll USER` adds somebody.")
    else:
        print_table(
            ("user", "name", "role", "groups", "passkeys", "recovery codes", "waiting", "created", "last approved"),
            (
                (
                    row.name,
                    row.display_name,
                    row.role,
                    ", ".join(row.groups) or "-",
                    str(row.passkeys),
                    str(row.recovery_codes),
                    str(row.waiting),
                    moment(row.created_at),
                    moment(row.last_used_at),
                )
                for row in rows
            ),
        )


def add(
    user: NameArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    display_name: Annotated[
        str, typer.Option("--display-name", metavar="NAME", help="What authenticators show; by default the name.")
    ] = "",
    given: Annotated[
        Role | None,
        typer.Option("--role", help="What they may do; the first person is operator by default, later ones approver."),
    ] = None,
) -> None:
    """Add a person, who can approve nothing before they enrol a passkey."""
    with edit_services(config, store, create=True) as opened:
        added = opened.wait(opened.approvals.add_user(user, display_name, by=operator(), role=given))
    typer.echo(f"{user} is added as {added.role}. `callgate enroll {user}` makes the link for their first passkey.")


def role(
    user: NameArgument,
    given: Annotated[Role, typer.Argument(metavar="ROLE", help="viewer, approver or operator.")],
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Change what a person may do: look, or decide on calls that wait for them too, or change what holds for all."""
    with edit_services(config, store) as opened:
        opened.wait(opened.approvals.set_role(user, given, by=operator()))
    typer.echo(f"{user} is {given} from now on, in pages that are open too.")


def remove(user: NameArgument, config: ConfigOption = None, store: StoreOption = None, yes: YesOption = False) -> None:
    """Remove a person with their passkeys, recovery codes and open approvals, for good."""
    with edit_services(config, store) as opened:
        opened.wait(opened.approvals.user(user))
        passkeys = len(opened.wait(opened.approvals.shelf.credentials(user)))
        confirm(f"Remove {user} with {passkeys} passkey{'' if passkeys == 1 else 's'}, for good?", yes=yes)
        opened.wait(opened.approvals.remove(user, by=operator()))
    typer.echo(f"{user} is removed; what was approved before stays on record.")


def list_credentials(
    user: Annotated[str | None, typer.Argument(metavar="USER", help="Only this person's.")] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Revoked ones too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List passkeys, and devices that answer without one, the oldest first."""
    with open_services(config, store) as opened:
        if user is not None:
            opened.wait(opened.approvals.user(user))
        held = opened.wait(opened.approvals.shelf.credentials(user, revoked=everything, method=None))
        demands = opened.wait(opened.demands())
    rows = [passkey_row(one) for one in held]
    approves = None if demands is None else [_approves(one, demands) for one in held]
    if as_json:
        texts = approves or [""] * len(rows)
        print_json([{**msgspec.to_builtins(row), "approves": one} for row, one in zip(rows, texts, strict=True)])
    elif not rows:
        say(f"No passkey is enrolled. `callgate enroll {user or 'USER'}` makes the link to enrol one.")
    else:
        _print(rows, approves, everything=everything)


def rename(
    passkey: IdArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it from now on.")],
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Give a passkey or device another name."""
    if not (shown := label(name, "")):
        raise CallgateError("a passkey needs a name that can be read", advice="Write one, such as 'my blue key'.")
    with edit_services(config, store) as opened:
        held = _find(opened, passkey)
        opened.wait(opened.approvals.rename(held.id, name, by=operator()))
    typer.echo(f"{held.user}'s {held.what} {plain(held.name)!r} is called {shown!r} now.")


def revoke(passkey: IdArgument, config: ConfigOption = None, store: StoreOption = None, yes: YesOption = False) -> None:
    """Withdraw a passkey or device for good: it approves nothing and signs in nowhere any more. With a passkey end the
    devices that were enrolled with it."""
    with edit_services(config, store) as opened:
        held = _find(opened, passkey)
        left = len(opened.wait(opened.approvals.shelf.credentials(held.user))) - (not held.is_device)
        also = "" if held.is_device else f" {left} would be left."
        confirm(f"Revoke {held.user}'s {held.what} {plain(held.name)!r} for good?{also}", yes=yes)
        opened.wait(opened.approvals.revoke(held.id, by=operator()))
    typer.echo(f"{held.user}'s {held.what} {plain(held.name)!r} is revoked.")
    if not left:
        say(f"{held.user} has no passkey any more: `callgate enroll {held.user}` makes the link to enrol one.")


def _find(opened: OpenedStore, given: str) -> Credential:
    every = {one.id: one for one in opened.wait(opened.approvals.shelf.credentials(revoked=True, method=None))}
    held = {one.id: one for one in every.values() if one.revoked_at is None}
    # One that is in use is meant before one that is not.
    wanted = held if given in held or any(fits(one, given) for one in held) else every
    found = wanted[pick(wanted, given, "passkey", "`callgate credentials list --all` shows them.")]
    if found.revoked_at is not None:
        raise CallgateError(
            f"{found.user}'s {found.what} {plain(found.name)!r} was revoked on {moment(found.revoked_at)} already",
            advice="`callgate credentials list` shows those that are in use.",
        )
    return found


def _approves(held: Credential, demands: list[Demand]) -> str:
    if held.is_device:
        return "-" if held.revoked_at is not None else "where devices are taken"
    return "-" if held.revoked_at is not None else except_for(held, demands)


def _print(rows: list[PasskeyRow], approves: list[str] | None, *, everything: bool) -> None:
    ids = short(row.id for row in rows)
    headings = ["id", "user", "name", "transports", "backed up", "created", "last used"]
    table = [
        [
            ids[row.id],
            row.user,
            row.name,
            "a device, no passkey" if row.method == DEVICE else ", ".join(row.transports) or "-",
            "yes" if row.backed_up else ("can be" if row.backup_eligible else "no"),
            moment(row.created_at),
            moment(row.last_used_at),
        ]
        for row in rows
    ]
    if approves is not None:
        headings.append("approves")
        for cells, text in zip(table, approves, strict=True):
            cells.append(text)
    if everything:
        headings.append("revoked")
        for cells, row in zip(table, rows, strict=True):
            cells.append(moment(row.revoked_at))
    print_table(headings, table)
