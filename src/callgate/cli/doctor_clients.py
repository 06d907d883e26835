"""`callgate doctor` on the clients of this machine: which of their servers stand behind the gate, and which do not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from callgate.cli.doctor_findings import Finding, Setup, count, ok, sentence, some, told

if TYPE_CHECKING:
    from callgate.clients import Spot


def clients(_setup: Setup) -> Iterator[Finding]:
    """Which servers do clients still reach around the gate, and which clients tell it what their user writes?"""
    from callgate.clients import Machine, hook_spots, spots

    machine = Machine(Path.home(), sys.platform, os.environ, Path.cwd())
    gated: set[str] = set()
    found = [finding for spot in spots(machine) for finding in _spot(spot, gated)]
    yield from found
    for spot in hook_spots(machine):
        if spot.client in gated and not _has_hook(spot):
            text = f"{spot.title} does not tell the gate what you write, so more calls are asked about than needed."
            yield Finding("note", text, "To see the hook that would be added:", ("callgate install --dry-run",))
    if not found:
        yield Finding("note", "No MCP client with servers was found on this machine.")


def _has_hook(spot: Spot) -> bool:
    """Whether a file of a client has our hook; also where it cannot be read, which is told of its servers."""
    from callgate.clients import plan_unhook
    from callgate.clients.files import read
    from callgate.errors import ConfigError

    try:
        source = read(spot.path, spot.project)
        if source is None or spot.hook is None:
            return False
        return plan_unhook(source.text, str(spot.path), spot.hook).findings[0].state == "unhook"
    except ConfigError:
        return True


def _spot(spot: Spot, behind: set[str]) -> Iterator[Finding]:
    """One file of one client; `behind` gets the client if some of its servers stand behind the gate."""
    from callgate.clients import plan_unwrap
    from callgate.clients.files import read
    from callgate.errors import ConfigError

    try:
        source = read(spot.path, spot.project)
        if source is None:
            return
        plan = plan_unwrap(source.text, str(spot.path), spot.tables)
    except ConfigError as error:
        yield told(error, "warning")
        return
    gated = [one.entry.name for one in plan.findings if one.gate]
    if gated:
        behind.add(spot.client)
    open_ = [one.entry.name for one in plan.findings if not one.gate]
    if open_:
        rest = f"; behind it: {some(gated)}" if gated else ""
        text = sentence(f"{spot.title} reaches {some(open_)} around the gate ({spot.path}){rest}")
        yield Finding("warning", text, "To see what would change:", ("callgate install --dry-run",))
    elif gated:
        yield ok(f"{spot.title}: {count(len(gated), 'server')} behind the gate: {some(gated)}.")
