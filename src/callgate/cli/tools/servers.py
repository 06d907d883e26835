"""The servers behind the tools: how often each is checked, what is odd about it, and whether the decisions hold."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    YesOption,
    confirm,
    console,
    operator,
    print_json,
    say,
)
from callgate.cli.printing import escaped, moment, print_lines, print_table, text_line
from callgate.cli.services import WHERE_TOOLS_COME_FROM, OpenedStore, edit_pins, find_server, groups_of, open_pins
from callgate.errors import Reason, Refused
from callgate.pinning.review.views import ServerStatus

if TYPE_CHECKING:
    from callgate.cli.printing import Line

_TWICE: Final = "duplicate:"


def servers(
    *,
    odd: Annotated[
        bool, typer.Option("--odd", help="Only those that are orphaned, there twice, or otherwise to be looked at.")
    ] = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the servers whose tools were met: identity, when their tools were last checked, and what is odd.

    A change of a tool is noticed at the next list, and before the next call once the interval is over.
    """
    with open_pins(config, store) as opened:
        every = opened.wait(opened.pins.statuses())
        found = [one for one in every if is_odd(one)] if odd else every
        now = current_of(every)
        groups = _groups(opened)
        if as_json:
            rows = [{**_row(one), "current": one.seen.server_id in now} for one in found]
            print_json({"servers": rows, "groups": groups})
            return
        if found:
            _print(opened, found, now)
        elif every:
            say("No server is orphaned or there twice.")
        else:
            say(f"No server was met yet. {WHERE_TOOLS_COME_FROM}")
        for one in groups:
            where = f"in group {escaped(one['group'])}" if one["group"] else "connected"
            typer.echo(f"{one['connected']} of at most {one['most']} servers {where}.")


def is_odd(status: ServerStatus) -> bool:
    return bool(status.oddities or status.seen.warnings or status.seen.problem)


def current_of(every: Iterable[ServerStatus]) -> frozenset[str]:
    """Of each server the identity that it has now: one that is connected, or else the one met last."""
    known: dict[tuple[str, str], list[ServerStatus]] = {}
    for one in every:
        known.setdefault((one.seen.lineage, one.seen.name), []).append(one)
    found = set()
    for same in known.values():
        live = [one for one in same if one.connected]
        found |= {one.seen.server_id for one in live or [max(same, key=lambda one: one.seen.last_seen)]}
    return frozenset(found)


def _groups(opened: OpenedStore) -> list[dict[str, Any]]:
    """How many servers of each group are connected, and how many may be."""
    places = opened.wait(opened.pin_store.connected(int(time.time() * 1000)))
    counts = Counter(dict.fromkeys(("", *(groups_of(opened.config) or {}).values()), 0))
    counts.update(group for _, group in {(one.name, one.group) for one in places})
    most = opened.config.pinning.servers
    return [{"group": group, "connected": counts[group], "most": most} for group in sorted(counts)]


def _row(status: ServerStatus) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(status)
    return {**found.pop("seen"), **found, "last_check": status.seen.last_seen}


def _print(opened: OpenedStore, found: list[ServerStatus], now: Container[str]) -> None:
    print_table(
        ("server", "group", "connected", "tools", "approved", "pending", "blocked", "last check", "every"),
        (
            (
                ", ".join(map(escaped, one.seen.called)),
                one.seen.group or "-",
                "yes" if one.connected else "no",
                str(one.seen.tools),
                str(one.approved),
                str(one.pending),
                str(one.blocked),
                moment(one.seen.last_seen),
                interval(one.recheck_seconds),
            )
            for one in found
        ),
    )
    typer.echo("")
    lines = [line for one in found for line in server_lines(one, opened, now)]
    print_lines(console(), lines)
    typer.echo("")


def server_lines(status: ServerStatus, opened: OpenedStore, now: Container[str]) -> list[Line]:
    """A server's identity, whether it is the one it has now where there are several, and what is odd about it."""
    lines = [text_line(f"{escaped(status.seen.name)}: {escaped(status.seen.server_id)}", rest="    ")]
    twice = any(one.startswith(_TWICE) for one in status.oddities)
    current = status.seen.server_id in now
    if twice:
        told = "current: this is the server as it is now" if current else "former: the server has another identity now"
        lines.append(text_line(told, "green" if current else "", lead="  ", rest="    "))
    lines += [text_line(f"odd: {escaped(one)}", "yellow", lead="  ", rest="    ") for one in status.oddities]
    lines += [text_line(f"warning: {escaped(one)}", "yellow", lead="  ", rest="    ") for one in status.seen.warnings]
    if status.seen.problem:
        lines.append(text_line(f"problem: {escaped(status.seen.problem)}", "red", lead="  ", rest="    "))
    # What is there twice is dropped once: the identity that the server has now stays.
    if any(not (current and one.startswith(_TWICE)) for one in status.oddities) and not status.connected:
        command = opened.command("tools", "forget", "--server", status.seen.server_id)
        lines.append(text_line(f"to drop it: {command}", lead="  ", rest="    "))
    return lines


def interval(seconds: float) -> str:
    """How long a checked list is believed."""
    return "call" if seconds == 0 else f"{seconds:g} s"


def forget(
    *,
    server: Annotated[str, typer.Option("--server", metavar="SERVER", help="The server's identity, or its name.")],
    yes: YesOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Drop what was met of a server's identity: its tools are listed and reviewed no more, until it is met again.

    Decisions on its tools stay on record.
    """
    with edit_pins(config, store) as opened:
        seen = find_server(opened, server)
        confirm(f"Forget {escaped(seen.name)}, {escaped(seen.server_id)}, with {seen.tools} tools?", yes=yes)
        detail = {"server_id": seen.server_id, "server": seen.name}
        witness = opened.admin("pinning.forget", operator(), detail)
        opened.wait(opened.pin_store.forget(seen.server_id, [witness]))
    typer.echo(f"Forgotten: {escaped(seen.server_id)}.")


def verify(*, config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Verify that every decision on tools is as it was written, and that none is missing.

    A row that does not hold is named, and the exit code is 1; then no tool can be called.
    """
    with open_pins(config, store) as opened:
        book = opened.pins.book
        if as_json:
            print_json(
                {"ok": not book.broken, "decisions": book.version, "problem": book.broken, "decision": book.broken_at}
            )
            if book.broken:
                raise typer.Exit(1)
            return
        if book.broken:
            raise Refused(
                Reason.PIN_TAMPERED,
                f"the decisions on tools do not hold: {book.broken} (pin_tampered)",
                advice="No tool can be called until the store is put right: restore a backup of it. "
                f"`{opened.command('audit', 'export')}` has who decided what. If the keys are not this store's, set "
                "store.keys_dir.",
            )
        count = book.version
    typer.echo(
        "No decision was made yet." if not count else f"All {count} decisions on tools are as they were written."
    )
