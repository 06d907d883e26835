"""`callgate block-all`: the kill switch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    keys_of,
    log_of,
    open_store,
    operator,
    print_json,
    say,
)
from callgate.config import load
from callgate.errors import CallgateError, KeyringError, Refused

NoteOption = Annotated[str, typer.Option("--note", help="Why; it is recorded and shown.")]


def on(config: ConfigOption = None, store: StoreOption = None, note: NoteOption = "") -> None:
    """Refuse every call from now on; running gateways follow within a second."""
    unrecorded = _turn(config, store, note, on=True)
    typer.echo("Every call is refused now. `callgate block-all off` ends it.")
    if unrecorded is not None:
        say(f"But no audit record of it was written: {unrecorded.message}\n{unrecorded.advice}")


def off(config: ConfigOption = None, store: StoreOption = None, note: NoteOption = "") -> None:
    """Let calls through again, as far as the other checks allow."""
    _turn(config, store, note, on=False)
    typer.echo("Calls are let through again.")
    forced = _forced_by(config)
    if forced:
        typer.echo(f"But {forced}: gateways that see this keep refusing.", err=True)


def status(config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Say whether the switch is on, and who turned it."""
    from callgate.store import read_block

    with open_store(config, store, create=True) as (_, opened), opened.reading() as conn:
        state = read_block(conn)
    forced = _forced_by(config)
    if as_json:
        print_json(
            {
                "on": state.on or bool(forced),
                "stored": state.on,
                "forced": forced or None,
                "at": state.at or None,
                "by": state.by or None,
                "note": state.note or None,
            }
        )
        return
    typer.echo("on: every call is refused" if state.on or forced else "off")
    if forced:
        typer.echo(forced)
    if state.at:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.at / 1000))
        typer.echo(
            f"turned {'on' if state.on else 'off'} {when} by {state.by}" + (f": {state.note}" if state.note else "")
        )


def _turn(config: Path | None, store: str | None, note: str, *, on: bool) -> CallgateError | None:
    """Turn the switch; what is wrong with the keys or the log, if it was turned on without a record."""
    from callgate.store import Block, set_block

    by = operator()
    state = Block(on=on, at=int(time.time() * 1000), by=by, note=note[:1000])
    detail = {"note": state.note} if state.note else None
    unrecorded: CallgateError | None = None
    with open_store(config, store, create=True) as (loaded, opened):
        try:
            row = log_of(loaded, opened, keys_of(loaded)).admin(f"block_all.{'on' if on else 'off'}", by, detail)
        except (KeyringError, Refused) as error:
            # An emergency stop does not wait for healthy keys or a whole log; to let calls through again does.
            if not on:
                raise
            row, unrecorded = None, error
        set_block(opened, state, row)
    return unrecorded


def _forced_by(path: Path | None) -> str:
    """What holds the switch on whatever the store says."""
    from callgate.store.control import VARIABLE, forced_by_environment

    if forced_by_environment():
        return f"{VARIABLE} is set in this environment"
    return "policy.block_all is true in the configuration" if load(path).policy.block_all else ""
