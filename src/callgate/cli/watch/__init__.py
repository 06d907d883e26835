"""`callgate watch`: calls and approvals as they happen, a line each; a bell when a call waits for a person."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callgate.cli.common import ConfigOption, StoreOption, open_store, say
from callgate.errors import StoreError

if TYPE_CHECKING:
    from callgate.cli.watch.follow import Printer, StoreFollower

# Calls are written too often to be announced one by one (PostgreSQL): they are looked for.
_LOOK_SECONDS: Final = 0.4


def watch(
    *,
    config: ConfigOption = None,
    store: StoreOption = None,
    user: Annotated[str | None, typer.Option(help="Only the approvals that this person is asked for.")] = None,
    calls: Annotated[bool, typer.Option("--calls/--no-calls", help="Show calls, or leave them out.")] = True,
    approvals_only: Annotated[
        bool, typer.Option("--approvals-only", help="Neither calls nor the kill switch: approvals alone.")
    ] = False,
    bell: Annotated[bool, typer.Option("--bell/--no-bell", help="Ring when something starts to wait.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines for machines.")] = False,
) -> None:
    """Show calls and approvals as they happen, with the page of each call that waits. Ctrl-C ends it.

    It reads the store by itself, whatever gateways write to it; none of them need be told.
    """
    from callgate.cli.watch.follow import Printer, StoreFollower

    with open_store(config, store) as (settings, opened), asyncio.Runner() as runner:
        others = not approvals_only
        follows = StoreFollower(settings, opened, runner, user=user, calls=calls and others, others=others)
        printer = Printer(as_json=as_json, bell=bell)
        poke = threading.Event()
        unwatch = opened.watch(poke.set)
        try:
            _follow(follows, printer, poke)
        except KeyboardInterrupt:
            # That is how it is meant to end.
            pass
        except BrokenPipeError:
            # Whoever read this has left; nothing may be written when Python ends, either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        finally:
            unwatch()


def _follow(follows: StoreFollower, printer: Printer, poke: threading.Event) -> None:
    """Look again whenever the store may have changed, and now and then."""
    printer.begin(follows.begin())
    away = False
    while True:
        poke.wait(_LOOK_SECONDS)
        poke.clear()
        try:
            for happened in follows.look():
                printer.show(happened)
        except StoreError as error:
            if not away:
                say(f"The store does not answer ({error.message}); this goes on as soon as it does.")
            away = True
        else:
            away = False
