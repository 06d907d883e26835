"""`callgate tools data`: which arguments of a server's command are only data, and may be others without a review."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, console, operator, print_json, say
from callgate.cli.printing import Line, escaped, print_lines, text_line
from callgate.cli.services import edit_pins, find_server, open_pins
from callgate.errors import Reason, Refused
from callgate.pinning.model import ArgumentAction
from callgate.pinning.review import argument_views
from callgate.pinning.review.views import ArgumentView


def data(
    *,
    server: Annotated[str, typer.Option("--server", metavar="SERVER", help="A server's name, or its identity.")],
    mark: Annotated[
        str | None,
        typer.Option("--mark", metavar="ARGUMENT", help="This argument is only data, such as a folder, and may vary."),
    ] = None,
    bind: Annotated[
        str | None, typer.Option("--bind", metavar="ARGUMENT", help="Take that back: another one is a new review.")
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what a server is started with, and mark an argument as data that may vary.

    Approvals then hold for the same command with another folder, number, name or file of data in that place. What can
    change which code runs cannot be marked.
    """
    if mark is not None and bind is not None:
        raise typer.BadParameter("give --mark or --bind, not both")
    if mark is None and bind is None:
        with open_pins(config, store) as opened:
            views = argument_views(find_server(opened, server), opened.pins.book)
            if as_json:
                print_json([argument_row(view) for view in views])
            elif views:
                print_lines(console(), argument_lines(views))
            else:
                say("It is started plainly: no argument is part of its identity.")
        return
    action: ArgumentAction = "bind" if mark is None else "vary"
    with edit_pins(config, store) as opened:
        seen = find_server(opened, server)
        view = _named(argument_views(seen, opened.pins.book), mark or bind or "", action)
        opened.wait(opened.pins.mark_argument(seen.server_id, view.place, view.digest, by=operator(), action=action))
    after = f"may be another {view.sort} from now on" if action == "vary" else "is part of what was approved again"
    say(f"`{escaped(view.shown)}` of {escaped(seen.name)} {after}.")


def _named(views: Iterable[ArgumentView], text: str, action: ArgumentAction) -> ArgumentView:
    found = [view for view in views if view.shown == text]
    # Of two with one text, the one that this can be done to.
    fitting = [view for view in found if (view.pin is None and not view.fixed) is (action == "vary")] or found
    if len(fitting) == 1:
        return fitting[0]
    why = "is there more than once" if found else "is no argument of this server"
    raise Refused(
        Reason.INVALID_PARAMS,
        f"`{escaped(text)}` {why}",
        advice="`callgate tools data --server SERVER` lists them; `callgate review` lets you choose by number.",
    )


def argument_row(view: ArgumentView) -> dict[str, Any]:
    """An argument for machines."""
    marked = None if view.pin is None else {"by": view.pin.approved_by, "at": view.pin.approved_at}
    return {"kind": view.kind, "argument": view.shown, "varies": view.varies, "fixed": view.fixed, "marked": marked}


def argument_lines(views: Iterable[ArgumentView], *, lead: str = "") -> Iterator[Line]:
    for view in views:
        style = "green" if view.pin is not None else ""
        told = f"{view.kind}  `{escaped(view.shown)}`  {escaped(view.standing)}"
        yield text_line(told, style, lead=lead, rest=f"{lead}    ")


def marked_lines(name: str, views: Iterable[ArgumentView]) -> Iterator[Line]:
    """What may vary of a server's command, by a person's decision."""
    for view in views:
        if view.pin is not None:
            yield text_line(f"{escaped(name)}: `{escaped(view.shown)}` {escaped(view.standing)}", rest="  ")
