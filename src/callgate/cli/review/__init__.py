"""`callgate review`: every tool that waits, of all servers together, before the person who decides."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
import typer

from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    configuration,
    console,
    print_json,
    say,
    store_file,
)
from callgate.cli.printing import escaped, heading, print_lines, text_line
from callgate.cli.review.screen import KeyInput, Screen, held_back, overview
from callgate.cli.review.session import TerminalReview
from callgate.cli.services import WHERE_TOOLS_COME_FROM, OpenedStore, edit_pins, open_pins
from callgate.cli.tools.hints import how_to_decide, how_to_read
from callgate.cli.tools.show import tool_lines
from callgate.pinning.review.views import Review, SetView


def review(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what waits; exit with 1 if anything does. Asks nothing.")
    ] = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Review the tools that wait, of all servers together, and approve or block each of them.

    On a terminal it asks for a decision on each tool, and stores all decisions in one step at the end. Without a
    terminal it prints the same and the commands that decide, and exits with 1 if anything waits.
    """
    file = store_file(configuration(config, store))
    if store is None and file is not None and not file.exists() and not (check or as_json):
        # A script that looks for what waits has to hear that it looked in the wrong place.
        say(f"Nothing waits for review: no server's tools were met yet. {WHERE_TOOLS_COME_FROM}")
        return
    if check or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        with open_pins(config, store) as opened:
            found = opened.wait(opened.pins.review())
            _print(opened, found, check=check, as_json=as_json)
        raise typer.Exit(1 if found.waits else 0)
    with edit_pins(config, store) as opened:
        found = opened.wait(opened.pins.review())
        if found.waits or found.unlabelled:
            _interactive(opened, found)
        else:
            nothing_waits(opened, found)


def _interactive(opened: OpenedStore, found: Review) -> None:
    with KeyInput() as keys:
        sitting = TerminalReview(opened, Screen(console(), keys), found)
        try:
            sitting.run()
        except KeyboardInterrupt:
            typer.echo(f"\nLeft. {'Your decisions were' if sitting.stored else 'Nothing was'} stored.", err=True)
            raise


def nothing_waits(opened: OpenedStore, found: Review) -> None:
    if not found.servers:
        say(f"Nothing waits for review: no server's tools were met yet. {WHERE_TOOLS_COME_FROM}")
    elif found.unlabelled:
        count = len(found.unlabelled)
        say(
            f"Nothing waits for review. {count} approved tool{' has' if count == 1 else 's have'} no label yet: "
            f"`{opened.command('review')}` on a terminal shows what is proposed."
        )
    else:
        say(f"Nothing waits for review. `{opened.command('tools', 'list')}` lists the tools that were met.")


def _print(opened: OpenedStore, found: Review, *, check: bool, as_json: bool) -> None:
    if as_json:
        print_json(as_builtins(found))
        return
    if not found.waits:
        nothing_waits(opened, found)
        return
    out = console()
    print_lines(out, overview(found))
    for at, view in enumerate(found.pending, 1):
        name = f"{escaped(view.tool)} on {escaped(view.server)}"
        print_lines(out, heading(f"── {at} of {len(found.pending)}: {name}, {view.state} ──"))
        if not check:
            print_lines(out, tool_lines(view))
        told = [how_to_read(opened, view)] if check else [""]
        told.append(how_to_decide(opened, view))
        print_lines(out, [text_line(line) for line in "\n".join(told).split("\n")])
    for one in found.sets:
        if one.reviewed:
            continue
        for view in [] if check else held_back(found, one):
            print_lines(out, heading(f"── held back: {escaped(view.tool)} on {escaped(view.server)} ──"))
            print_lines(out, tool_lines(view))
        print_lines(out, [text_line(""), text_line(how_to_join(opened, one))])
    say(f"\nTo decide on a terminal, key by key: `{opened.command('review')}`.")


def how_to_join(opened: OpenedStore, one: SetView) -> str:
    group = ("--group", one.group) if one.group else ()
    command = opened.command("tools", "together", *group, "--version", one.version)
    return f"To record that these servers were reviewed together: {command}"


def as_builtins(found: Review) -> dict[str, Any]:
    """The whole review for machines, in the form that the console shows."""
    # An entry's bytes in a decision are not all text; what was decided on is in `raw` of each tool.
    whole: dict[str, Any] = msgspec.to_builtins(found)
    return {**whole, "pending": len(found.pending), "waits": found.waits}
