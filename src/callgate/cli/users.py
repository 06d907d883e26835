"""`callgate users`: the people who approve calls."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, operator, print_json, say
from callgate.cli.people import YesOption, changing, confirm, moment, print_table, reading

Role: TypeAlias = Literal["viewer", "approver", "operator"]
NameArgument = Annotated[str, typer.Argument(metavar="USER", help="The person's name here, such as alice.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="The people who approve calls.")
    verbs.command("list")(list_users)
    verbs.command("add")(add)
    verbs.command("role")(role)
    verbs.command("remove")(remove)
    app.add_typer(verbs, name="users")


def list_users(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the people who approve calls, and what they have to do it with."""
    import msgspec

    from callgate.approval.overview import people

    with reading(config, store) as opened:
        rows = opened.wait(people(opened.approvals.shelf, opened.approvals.now()))
    if as_json:
        print_json(msgspec.to_builtins(rows))
    elif not rows:
        say("Nobody is here to approve anything yet: `callgate enroll USER` adds somebody.")
    else:
        print_table(
            ("user", "name", "role", "passkeys", "recovery codes", "waiting", "created", "last approved"),
            (
                (
                    row.name,
                    row.display_name,
                    row.role,
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
    with changing(config, store, create=True) as opened:
        added = opened.wait(opened.approvals.add_user(user, display_name, by=operator(), role=given))
    typer.echo(f"{user} is added as {added.role}. `callgate enroll {user}` makes the link for their first passkey.")


def role(
    user: NameArgument,
    given: Annotated[Role, typer.Argument(metavar="ROLE", help="viewer, approver or operator.")],
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Change what a person may do: look, or decide on calls that wait for them too, or change what holds for all."""
    with changing(config, store) as opened:
        opened.wait(opened.approvals.set_role(user, given, by=operator()))
    typer.echo(f"{user} is {given} from now on, in pages that are open too.")


def remove(user: NameArgument, config: ConfigOption = None, store: StoreOption = None, yes: YesOption = False) -> None:
    """Remove a person with their passkeys, recovery codes and open approvals, for good."""
    with changing(config, store) as opened:
        opened.wait(opened.approvals.user(user))
        passkeys = len(opened.wait(opened.approvals.shelf.credentials(user)))
        confirm(f"Remove {user} with {passkeys} passkey{'' if passkeys == 1 else 's'}, for good?", yes=yes)
        opened.wait(opened.approvals.remove(user, by=operator()))
    typer.echo(f"{user} is removed; what was approved before stays on record.")
