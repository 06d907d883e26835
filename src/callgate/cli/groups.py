"""`callgate groups`: groups of people, of which a tool or a rule can demand some to approve its calls."""

from __future__ import annotations

from typing import Annotated

import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, operator, print_json, say
from callgate.cli.printing import print_table
from callgate.cli.services import edit_services, open_services

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name, such as ops.")]
UsersArgument = Annotated[list[str], typer.Argument(metavar="USER...", help="The people's names here, such as alice.")]


def list_groups(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the groups and who is in them."""
    with open_services(config, store) as opened:
        people = opened.wait(opened.approvals.shelf.groups())
    groups: dict[str, list[str]] = {}
    for name in sorted(people):
        for group in people[name]:
            groups.setdefault(group, []).append(name)
    if as_json:
        print_json({group: groups[group] for group in sorted(groups)})
    elif not groups:
        say("There is no group yet: `callgate groups add GROUP USER` makes one.")
    else:
        print_table(("group", "people"), ((group, ", ".join(groups[group])) for group in sorted(groups)))


def add(group: GroupArgument, users: UsersArgument, config: ConfigOption = None, store: StoreOption = None) -> None:
    """Put people into a group; the first one makes it."""
    with edit_services(config, store) as opened:
        for user in users:
            new = opened.wait(opened.approvals.join_group(group, user, by=operator()))
            typer.echo(f"{user} is in {group} {'from now on' if new else 'already'}.")


def remove(group: GroupArgument, users: UsersArgument, config: ConfigOption = None, store: StoreOption = None) -> None:
    """Take people out of a group. What they signed as one of it, and no call has used, counts no longer."""
    with edit_services(config, store) as opened:
        for user in users:
            gone = opened.wait(opened.approvals.leave_group(group, user, by=operator()))
            typer.echo(f"{user} is no longer in {group}." if gone else f"{user} is not in {group}.")
