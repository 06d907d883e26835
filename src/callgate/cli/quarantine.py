"""`callgate quarantine`: results that are kept back until somebody has read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, console, operator, print_json, say
from callgate.cli.people import YesOption, confirm, moment, plain, print_table
from callgate.cli.trusted import Opened, changing, reading

if TYPE_CHECKING:
    from callgate.cli.tools_lines import Line
    from callgate.trust.model import Quarantined
    from callgate.trust.service import HeldView, Settled

HandleArgument = Annotated[str, typer.Argument(metavar="HANDLE", help="The handle, or enough of its beginning.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why; it is recorded with your name.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Results that are kept back until somebody has read them.")
    verbs.command("list")(list_held)
    verbs.command("show")(show)
    verbs.command("release")(release)
    verbs.command("drop")(drop)
    app.add_typer(verbs, name="quarantine")


def list_held(
    config: ConfigOption = None,
    store: StoreOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, the newest.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the results that are held back, the newest first."""
    with reading(config, store) as opened:
        held = opened.wait(opened.trust.holding(limit=limit))
    if as_json:
        print_json([row(one) for one in held])
    elif not held:
        say("Nothing is held back.")
    else:
        print_table(
            ("handle", "held", "server", "tool", "warnings"),
            ((one.handle, moment(one.at), one.server, one.tool, plain("; ".join(one.warnings))) for one in held),
        )


def show(
    handle: HandleArgument, config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Show a held result: why it is held, and what it says, with what is invisible spelt out."""
    from callgate.cli.tools_lines import print_lines

    with reading(config, store) as opened:
        view = opened.wait(opened.trust.show(handle))
        if as_json:
            print_json({**row(view.held), "reply": view.raw, "beyond": view.beyond, "closed": view.closed})
            return
        print_lines(console(), _lines(view))
        if view.held.state == "held":
            release_it = opened.command("quarantine", "release", view.held.handle)
            drop_it = opened.command("quarantine", "drop", view.held.handle)
            say(f"\nTo let the agent have it:  {release_it}\nTo be rid of it:           {drop_it}")


def release(
    handle: HandleArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    note: NoteOption = "",
    yes: YesOption = False,
) -> None:
    """Let a held result go to its agent. This is recorded."""
    with changing(config, store) as opened:
        _settle(opened, handle, "released", "Let the agent have", note=note, yes=yes)


def drop(
    handle: HandleArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    note: NoteOption = "",
    yes: YesOption = False,
) -> None:
    """Drop a held result: nothing of it is kept. This is recorded."""
    with changing(config, store) as opened:
        _settle(opened, handle, "dropped", "Drop", note=note, yes=yes)


def row(held: Quarantined) -> dict[str, Any]:
    """A held result for machines, without what it says."""
    return {
        "handle": held.handle,
        "state": held.state,
        "session": held.session,
        "call": held.call,
        "server": held.server,
        "tool": held.tool,
        "at": held.at,
        "warnings": list(held.warnings),
        "decided_by": held.decided_by,
        "decided_at": held.decided_at or None,
    }


def _settle(opened: Opened, handle: str, state: Settled, question: str, *, note: str, yes: bool) -> None:
    held = opened.wait(opened.trust.find_held(handle))
    confirm(f"{question} what {plain(held.tool)} on {plain(held.server)} returned?", yes=yes)
    held = opened.wait(opened.trust.settle(held.handle, state, by=operator(), note=note))
    typer.echo(f"{held.state.capitalize()}: what {plain(held.tool)} on {plain(held.server)} returned ({held.handle}).")


def _lines(view: HeldView) -> Iterator[Line]:
    from callgate.approval.display import escape
    from callgate.cli.tools_lines import fact, heading, quoted, said

    held = view.held
    yield fact("handle", f"{escape(held.handle)}  {held.state}")
    yield fact("result of", f"{escape(held.tool)} on {escape(held.server)}, call {escape(held.call)}")
    yield fact("session", escape(held.session))
    yield fact("held", moment(held.at))
    if held.decided_by:
        yield fact("decided", f"{moment(held.decided_at)} by {escape(held.decided_by)}")
    for warning in held.warnings:
        yield fact("WARNING", escape(warning), "bold red")
    yield from heading("What it says. Follow nothing that it asks for.")
    if view.closed:
        yield said(view.closed)
    for text in view.texts or ((view.raw,) if view.raw else ()):
        yield from quoted(text)
    if view.beyond:
        yield said(f"and {view.beyond} more characters", "dim")
