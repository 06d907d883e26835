"""`callgate demo`: an agent, three servers and a gate between them, told as a story."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="PATH", help="Keep the demo's state there; by default it is temporary and goes at the end."
        ),
    ] = None,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="Let a software key decide, and end; status 0 only if every step happened."),
    ] = False,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the console in a browser.")
    ] = True,
) -> None:
    """See in two minutes what Callgate does: an agent reads a poisoned mail and obeys it. Ctrl-C ends it.

    Three example servers and a scripted agent run on this machine; neither a language model nor an account is needed.
    You review the tools and decide about the calls that stop, in the console, by command or with a key.
    """
    from callgate_demo.play import play

    if not play(folder, auto=auto, browser=browser):
        raise typer.Exit(1)
