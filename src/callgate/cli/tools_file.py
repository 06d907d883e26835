"""`callgate tools approve --from FILE`: a file of reviewed tools, for machines that are set up without a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from callgate.cli.pinned import Opened, shown
from callgate.cli.tools_blocks import blocked_words, to_withdraw
from callgate.cli.tools_deciding import decide
from callgate.cli.tools_show import decided

if TYPE_CHECKING:
    from callgate.pinning.model import Pin
    from callgate.pinning.service import Choice
    from callgate.pinning.views import ToolView

_MOST_BYTES: Final = 64 * 1024 * 1024
_KEYS: Final = ("server_id", "tool", "approval_hash")


def approve_file(opened: Opened, path: Path, *, note: str, override: bool) -> list[ToolView]:
    """Approve every entry that is not approved already: each has to be there, with this text, or none is approved.

    All tools that the file names.
    """
    entries = read(path)
    views = _views(opened, path, entries)
    wanted = [(entry, view) for entry, view in zip(entries, views, strict=True) if not _approved(view)]
    _not_blocked(opened, path, [view for _, view in wanted])
    choices = [_choice(entry, note=note, override=override) for entry, _ in wanted]
    if choices:
        decide(opened, choices, {(view.server_id, view.tool): view for _, view in wanted})
    for _, view in wanted:
        typer.echo(f"Approved: {shown(view.tool)} on {shown(view.server)}, {view.approval_hash}.")
    if len(wanted) < len(entries):
        typer.echo(f"Approved before: {len(entries) - len(wanted)}.")
    return views


def read(path: Path) -> list[dict[str, str]]:
    """The entries: server_id, tool and approval_hash of each; whatever else stands there is for people."""
    from callgate.errors import CallgateError

    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        found = json.loads(text) if len(text) <= _MOST_BYTES else None
    except OSError as error:
        raise CallgateError(f"{path} cannot be read: {error.strerror}", advice="Check its path and owner.") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(_is_entry(one) for one in found):
        raise CallgateError(
            f"{path} is not a list of tools, each with {', '.join(_KEYS)}",
            advice="`callgate tools list --json` prints one; leave in it what you have reviewed.",
        )
    named = [(one["server_id"], one["tool"]) for one in found]
    if len(set(named)) < len(named):
        raise CallgateError(f"{path} names a tool twice", advice="Leave the entry in that you have reviewed.")
    return [{key: one[key] for key in _KEYS} for one in found]


def _is_entry(one: Any) -> bool:
    return isinstance(one, dict) and all(isinstance(one.get(key), str) and one[key] for key in _KEYS)


def _views(opened: Opened, path: Path, entries: list[dict[str, str]]) -> list[ToolView]:
    """Each tool as it was met last. Every entry that does not fit is named."""
    from callgate.errors import Reason, Refused

    views: list[ToolView] = []
    missing: list[str] = []
    changed: list[tuple[dict[str, str], ToolView]] = []
    met = {(one.server_id, one.tool) for one in opened.wait(opened.shelf.tools())}
    for entry in entries:
        if (entry["server_id"], entry["tool"]) not in met:
            missing.append(f"{shown(entry['tool'])} on {shown(entry['server_id'])}")
            continue
        view = opened.wait(opened.pins.tool(entry["server_id"], entry["tool"]))
        views.append(view)
        if view.approval_hash != entry["approval_hash"]:
            changed.append((entry, view))
    if changed:
        lines = [
            f"  {shown(view.tool)} on {shown(view.server)}: {_diff(opened, *pair)}"
            for pair in changed
            for view in pair[1:]
        ]
        raise Refused(
            Reason.TOOL_CHANGED,
            f"not all tools are what {path} says, so nothing was approved (tool_changed)",
            advice="These have another text by now:\n" + "\n".join(lines),
        )
    if missing:
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"not all tools of {path} were met, so nothing was approved (tool_unknown)",
            advice="These were not:\n" + "\n".join(f"  {one}" for one in missing),
        )
    return views


def _diff(opened: Opened, entry: dict[str, str], view: ToolView) -> str:
    words = ("--server", view.server_id, "--tool", view.tool, "--from", entry["approval_hash"])
    return opened.command("tools", "diff", *words, "--to", view.approval_hash)


def _approved(view: ToolView) -> bool:
    return view.state == "approved"


def _not_blocked(opened: Opened, path: Path, views: list[ToolView]) -> None:
    """A file may be older than a block: what somebody has blocked is let in only by somebody who says so."""
    from callgate.errors import Reason, Refused

    found: list[tuple[ToolView, Pin]] = []
    for view in views:
        own = [view.pin] if view.state == "blocked" and view.pin is not None else []
        found += [(view, pin) for pin in (*own, *view.blocks)]
    if found:
        told = [f"  {shown(view.tool)} on {shown(view.server)}: {_blocked(view, pin)}" for view, pin in found]
        commands = dict.fromkeys(f"  {to_withdraw(opened, pin)}" for _, pin in found)
        raise Refused(
            Reason.TOOL_BLOCKED,
            f"{path} lists tools that somebody has blocked, so nothing was approved (tool_blocked)",
            advice="\n".join([*told, "Take them out of the file, or withdraw the block first:", *commands]),
        )


def _blocked(view: ToolView, pin: Pin) -> str:
    return decided(pin) if pin.server_id == view.server_id else blocked_words(pin)


def _choice(entry: dict[str, str], *, note: str, override: bool) -> Choice:
    from callgate.pinning.service import Choice

    return Choice("approve", entry["server_id"], entry["tool"], entry["approval_hash"], note=note, override=override)
